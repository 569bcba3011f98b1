//! Candidates: versions that some nodes of an edge try.

use std::collections::BTreeSet;

use domain::digest::Digest;
use domain::id::{EdgeName, NodeId, NodeName};
use domain::origin::{Endpoint, Origin};
use domain::plugin_set::{Grants, OriginTrust, Part, Plan, Position, Scope, assigned};
use proto::convert::Content;

use crate::operation::Error;
use crate::operation::approve::{Approval, OriginMove, approve};
use crate::operation::assign_candidate::{Tried, assign_candidate};
use crate::operation::create_edge::create_edge;
use crate::operation::find_bundle::bundle_for;
use crate::operation::load_part::load_part;
use crate::operation::testing::{Fleet, TEAM, code, edge, plugin, remote, tool, version};
use crate::operation::unassign::unassign;
use crate::operation::unassign_candidate::unassign_candidate;
use crate::store::testing::on_both;

const NEW: &str = "name: team\nversion: 1.1.0\ntools:\n  team: { command: [\"server\"] }\n";

async fn try_on(fleet: &Fleet, of: &str, nodes: &[&str]) -> Result<Tried, Error> {
    let nodes: BTreeSet<NodeName> = nodes.iter().map(|name| NodeName::parse(name).unwrap()).collect();
    assign_candidate(&fleet.store, &fleet.by(), &edge(), &version(of), &nodes).await
}

async fn plan(fleet: &Fleet) -> Plan {
    match load_part(&fleet.store, &Scope::Edge(edge()), Part::Plan).await.unwrap().unwrap().1 {
        Content::Plan(plan) => plan,
        other => panic!("{other:?}"),
    }
}

async fn grants(fleet: &Fleet, node: &NodeId) -> (Position, Grants) {
    match load_part(&fleet.store, &Scope::Node(node.clone()), Part::Grants).await.unwrap().unwrap() {
        (position, Content::Grants(grants)) => (position, grants),
        other => panic!("{other:?}"),
    }
}

/// The version of `team` that a node is to serve.
async fn served(fleet: &Fleet, node: &NodeId) -> String {
    let (plan, (_, grants)) = (plan(fleet).await, grants(fleet, node).await);
    let name = plugin("team");
    assigned(&plan.plugins[&name], grants.plugins.get(&name)).unwrap().version.version.to_string()
}

// R3.96
#[test]
fn only_the_nodes_that_were_named_serve_a_candidate_until_it_ends() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, "team@1.0.0").await;
        let (one, two) = (fleet.node(&edge(), "node-1").await, fleet.node(&edge(), "node-2").await);
        let pushed = fleet.push(NEW).await.unwrap();
        let archive = pushed.archive_sha256;
        let key = Digest::of(b"node-1");
        let bundle = || bundle_for((&fleet.store, &fleet.blobs), (&one, &key), &archive);
        assert!(bundle().await.unwrap().is_none(), "no plan names it yet");
        let logged = fleet.logged().await;
        let tried = try_on(&fleet, "team@1.1.0", &["node-1"]).await.unwrap();
        assert_eq!(tried.installed.unwrap().to_string(), "1.0.0");
        assert_eq!((&*served(&fleet, &one).await, &*served(&fleet, &two).await), ("1.1.0", "1.0.0"));
        assert!(fleet.trust(&edge()).await.1.versions.contains_key(&version("team@1.1.0")));
        assert!(bundle().await.unwrap().is_some());
        assert!(!try_on(&fleet, "team@1.1.0", &["node-1"]).await.unwrap().changed);
        // The nodes are replaced: one is taken back, another is granted.
        try_on(&fleet, "team@1.1.0", &["node-2"]).await.unwrap();
        assert_eq!((&*served(&fleet, &one).await, &*served(&fleet, &two).await), ("1.0.0", "1.1.0"));
        let before = grants(&fleet, &two).await;
        unassign_candidate(&fleet.store, &fleet.by(), &edge(), &plugin("team")).await.unwrap();
        assert_eq!((&*served(&fleet, &one).await, &*served(&fleet, &two).await), ("1.0.0", "1.0.0"));
        assert_eq!(grants(&fleet, &two).await, before, "one generation has one content");
        assert!(!fleet.trust(&edge()).await.1.versions.contains_key(&version("team@1.1.0")));
        // The grant of one that ended says nothing of the next one.
        try_on(&fleet, "team@1.1.0", &["node-1"]).await.unwrap();
        assert_eq!((&*served(&fleet, &one).await, &*served(&fleet, &two).await), ("1.1.0", "1.0.0"));
        let (set, unset) = ("edge.candidate.set", "edge.candidate.unset");
        assert_eq!(fleet.events(logged).await, [set, set, unset, set]);
    });
}

#[test]
fn a_candidate_that_is_assigned_is_promoted_and_one_of_a_plugin_that_goes_ends_with_it() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, "team@1.0.0").await;
        let (one, two) = (fleet.node(&edge(), "node-1").await, fleet.node(&edge(), "node-2").await);
        fleet.push(NEW).await.unwrap();
        try_on(&fleet, "team@1.1.0", &["node-1"]).await.unwrap();
        let logged = fleet.logged().await;
        fleet.assign(&edge(), "team@1.1.0").await.unwrap();
        assert_eq!(fleet.events(logged).await, ["edge.candidate.unset", "edge.assignment.set"]);
        assert_eq!((&*served(&fleet, &one).await, &*served(&fleet, &two).await), ("1.1.0", "1.1.0"));
        assert!(plan(&fleet).await.plugins[&plugin("team")].candidate.is_none());
        // Another version installed leaves a candidate as it is.
        fleet.assign(&edge(), "team@1.0.0").await.unwrap();
        try_on(&fleet, "team@1.1.0", &["node-2"]).await.unwrap();
        unassign(&fleet.store, &fleet.by(), &edge(), &plugin("team")).await.unwrap();
        assert!(plan(&fleet).await.plugins.is_empty());
        assert_eq!(
            code(unassign_candidate(&fleet.store, &fleet.by(), &edge(), &plugin("team")).await),
            "not_assigned"
        );
    });
}

#[test]
fn a_node_may_speak_of_a_candidate_that_ended_as_long_as_it_has_it() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, "team@1.0.0").await;
        let node = fleet.node(&edge(), "node-1").await;
        fleet.push(NEW).await.unwrap();
        try_on(&fleet, "team@1.1.0", &["node-1"]).await.unwrap();
        unassign_candidate(&fleet.store, &fleet.by(), &edge(), &plugin("team")).await.unwrap();
        let (now, has) = (fleet.by().now, [version("team@1.0.0"), version("team@1.1.0")]);
        let status = proto::convert::Status::default();
        crate::operation::note_node::note_hello(&fleet.store, now, &node, "1", &has, &status).await.unwrap();
        assert!(fleet.trust(&edge()).await.1.versions.contains_key(&version("team@1.1.0")));
    });
}

#[test]
fn what_cannot_be_tried_says_why_and_changes_nothing() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, "team@1.0.0").await;
        fleet.push(NEW).await.unwrap();
        fleet.node(&edge(), "node-1").await;
        let other = EdgeName::parse("us-1").unwrap();
        create_edge(&fleet.store, &fleet.by(), &other).await.unwrap();
        fleet.node(&other, "node-9").await;
        let events = fleet.logged().await;
        for (of, nodes, expected) in [
            ("team@1.0.0", ["node-1"].as_slice(), "invalid"),
            ("team@1.1.0", &[], "invalid"),
            ("team@1.1.0", &["node-7"], "not_found"),
            ("team@1.1.0", &["node-1", "node-9"], "not_found"),
            ("team@3.0.0", &["node-1"], "not_found"),
        ] {
            assert_eq!(code(try_on(&fleet, of, nodes).await), expected, "{of} {nodes:?}");
        }
        assert_eq!(fleet.logged().await, events);
    });
}

// R3.70
#[test]
fn a_candidate_at_another_origin_waits_while_the_installed_version_stays_pinned() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(&remote("1.0.0", "https://a.example/mcp"), "wx@1.0.0").await;
        fleet.node(&edge(), "node-1").await;
        fleet.push(&remote("1.1.0", "https://b.example/mcp")).await.unwrap();
        let tried = try_on(&fleet, "wx@1.1.0", &["node-1"]).await.unwrap();
        assert_eq!(tried.waiting[0].to, "https://b.example");
        // Going on to promote it asks nobody again and decides nothing anew.
        assert_eq!(fleet.assign(&edge(), "wx@1.1.0").await.unwrap().waiting, tried.waiting);
    });
}

// R3.70
#[test]
fn approving_a_moved_candidate_leaves_the_installed_version_where_it_was_approved() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(&remote("1.0.0", "https://a.example/mcp"), "wx@1.0.0").await;
        fleet.node(&edge(), "node-1").await;
        fleet.push(&remote("1.1.0", "https://b.example/mcp")).await.unwrap();
        try_on(&fleet, "wx@1.1.0", &["node-1"]).await.unwrap();
        let at = |origin: &str| Endpoint::Fixed(Origin::parse(origin).unwrap());
        let origins = vec![OriginMove {
            version: version("wx@1.1.0"),
            tool: tool("wx"),
            edge: None,
            from: vec![at("https://a.example")],
            to: at("https://b.example"),
        }];
        let approval =
            Approval { plugin: plugin("wx"), functions: Vec::new(), origins, edge: None, attended: true };
        assert_eq!(approve(&fleet.store, &fleet.by(), &approval).await.unwrap().origins.len(), 1);
        let trust = fleet.trust(&edge()).await.1;
        for (of, at) in [("wx@1.0.0", "https://a.example"), ("wx@1.1.0", "https://b.example")] {
            let pinned = trust.versions[&version(of)].tools[&tool("wx")].origin.clone();
            assert!(
                matches!(&pinned, Some(OriginTrust::Pinned { origin, .. }) if &**origin == at),
                "{pinned:?}"
            );
        }
    });
}
