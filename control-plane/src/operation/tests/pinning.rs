use domain::audit::FunctionDifference;
use domain::id::EdgeName;
use domain::origin::{Endpoint, Origin};
use domain::plugin_set::OriginTrust;

use crate::operation::approve::{Approval, OriginMove, approve};
use crate::operation::create_edge::create_edge;
use crate::operation::testing::{Fleet, TEAM, code, edge, hash, plugin, remote, tool, version};
use crate::store::testing::on_both;

const A: &str = "https://a.example/mcp";
const B: &str = "https://b.example/mcp";

fn endpoint(url: &str) -> Endpoint {
    Endpoint::Fixed(Origin::parse(url.trim_end_matches("/mcp")).unwrap())
}

async fn origin(fleet: &Fleet, edge: &EdgeName, of: &str) -> OriginTrust {
    let trust = fleet.trust(edge).await.1;
    trust.versions[&version(of)].tools[&tool("wx")].origin.clone().unwrap()
}

fn moved(of: &str, edge: Option<EdgeName>, from: &str, to: &str) -> OriginMove {
    OriginMove { version: version(of), tool: tool("wx"), edge, from: vec![endpoint(from)], to: endpoint(to) }
}

fn approval(origins: Vec<OriginMove>, functions: Vec<FunctionDifference>) -> Approval {
    Approval { plugin: plugin("wx"), functions, origins, edge: None, attended: true }
}

#[test]
fn what_cannot_be_assigned_says_why_and_changes_nothing() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let nowhere = EdgeName::parse("nowhere").unwrap();
        fleet.install(TEAM, "team@1.0.0").await;
        let rival = "name: rival\nversion: 1.0.0\ntools:\n  team: { command: [\"server\"] }\n";
        fleet.push(rival).await.unwrap();
        let events = fleet.logged().await;
        assert_eq!(code(fleet.assign(&nowhere, "team@1.0.0").await), "not_found");
        assert_eq!(code(fleet.assign(&edge(), "team@2.0.0").await), "not_found");
        let error = fleet.assign(&edge(), "rival@1.0.0").await.unwrap_err();
        assert!(
            error.to_string().contains("team@1.0.0") && error.to_string().contains("rival@1.0.0"),
            "{error}"
        );
        assert_eq!(code::<()>(Err(error)), "tool_taken");
        assert!(!fleet.assign(&edge(), "team@1.0.0").await.unwrap().changed);
        assert_eq!(fleet.logged().await, events);
    });
}

// R3.62, R3.63, R3.64, R3.69, R3.72, R3.73
#[test]
fn a_tool_that_moved_waits_while_its_plugins_other_tools_do_not() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        assert!(fleet.install(&remote("1.0.0", A), "wx@1.0.0").await.waiting.is_empty());
        let pinned = origin(&fleet, &edge(), "wx@1.0.0").await;
        assert!(
            matches!(&pinned, OriginTrust::Pinned { origin, .. } if &**origin == "https://a.example"),
            "{pinned:?}"
        );
        let path = fleet.install(&remote("1.0.1", "https://a.example/other"), "wx@1.0.1").await;
        assert!(path.waiting.is_empty(), "another path is no move");
        let node = fleet.node(&edge(), "node-1").await;
        let assigned = fleet.install(&remote("1.1.0", B), "wx@1.1.0").await;
        assert_eq!(assigned.waiting[0].from, ["https://a.example"]);
        assert_eq!(assigned.waiting[0].to, "https://b.example");
        assert!(matches!(origin(&fleet, &edge(), "wx@1.1.0").await, OriginTrust::Moved { .. }));
        fleet.lists(&node, "wx@1.1.0", "local", &[("here", "a")]).await;
        fleet.lists(&node, "wx@1.1.0", "wx", &[("forecast", "b")]).await;
        assert_eq!(fleet.approved("wx@1.1.0", "local", "here").await, Some(hash("a")));
        assert_eq!(
            fleet.approved("wx@1.1.0", "wx", "forecast").await,
            None,
            "listed where nobody approved it"
        );
        // Going back needs nobody, and an unapproved move is no baseline.
        assert!(fleet.assign(&edge(), "wx@1.0.0").await.unwrap().waiting.is_empty());
        assert_eq!(fleet.install(&remote("1.2.0", B), "wx@1.2.0").await.waiting.len(), 1);
    });
}

// R3.68
#[test]
fn an_approved_origin_takes_the_functions_that_were_named_with_it() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(&remote("1.0.0", A), "wx@1.0.0").await;
        let node = fleet.node(&edge(), "node-1").await;
        fleet.install(&remote("1.1.0", B), "wx@1.1.0").await;
        fleet.lists(&node, "wx@1.1.0", "wx", &[("forecast", "a"), ("later", "b")]).await;
        let difference = |function: &str, seen: &str| FunctionDifference {
            version: version("wx@1.1.0"),
            tool: tool("wx"),
            function: function.into(),
            edge: None,
            approved: None,
            seen: Some(hash(seen)),
        };
        let wrong = approval(vec![moved("wx@1.1.0", None, B, A)], vec![difference("forecast", "a")]);
        let decided = approve(&fleet.store, &fleet.by(), &wrong).await.unwrap();
        assert_eq!((decided.origins.len(), decided.functions.len(), decided.stale.len()), (0, 0, 2));
        let named = vec![difference("forecast", "a"), difference("forecast", "c")];
        let right = approval(vec![moved("wx@1.1.0", None, A, B)], named);
        let events = fleet.logged().await;
        let decided = approve(&fleet.store, &fleet.by(), &right).await.unwrap();
        assert_eq!((decided.origins.len(), decided.functions.len(), decided.stale.len()), (1, 1, 1));
        assert!(matches!(origin(&fleet, &edge(), "wx@1.1.0").await, OriginTrust::Pinned { .. }));
        assert_eq!(fleet.approved("wx@1.1.0", "wx", "forecast").await, Some(hash("a")));
        assert_eq!(fleet.approved("wx@1.1.0", "wx", "later").await, None, "it was not named, so it waits");
        let names = fleet.events(events).await;
        assert_eq!(names, ["plugin.endpoint.approve", "plugin.tools.approve", "plugin.tools.changed"]);
        // The new origin is where the next version starts from.
        assert!(fleet.install(&remote("1.2.0", B), "wx@1.2.0").await.waiting.is_empty());
    });
}

#[test]
fn a_fleet_wide_approval_holds_on_edges_that_get_the_version_later_and_an_edges_own_does_not() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let other = EdgeName::parse("us-1").unwrap();
        create_edge(&fleet.store, &fleet.by(), &other).await.unwrap();
        fleet.install(&remote("1.0.0", A), "wx@1.0.0").await;
        fleet.assign(&other, "wx@1.0.0").await.unwrap();
        fleet.install(&remote("1.1.0", B), "wx@1.1.0").await;
        let own = approval(vec![moved("wx@1.1.0", Some(edge()), A, B)], vec![]);
        assert_eq!(approve(&fleet.store, &fleet.by(), &own).await.unwrap().origins.len(), 1);
        assert_eq!(fleet.assign(&other, "wx@1.1.0").await.unwrap().waiting.len(), 1);
        fleet.assign(&other, "wx@1.0.0").await.unwrap();
        let c = "https://c.example/mcp";
        fleet.install(&remote("1.2.0", c), "wx@1.2.0").await;
        let all = approval(vec![moved("wx@1.2.0", None, B, c)], vec![]);
        assert_eq!(approve(&fleet.store, &fleet.by(), &all).await.unwrap().origins.len(), 1);
        assert!(fleet.assign(&other, "wx@1.2.0").await.unwrap().waiting.is_empty());
    });
}

#[test]
fn the_class_of_a_named_host_is_pinned_with_the_first_complete_listing() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(&remote("1.0.0", A), "wx@1.0.0").await;
        let node = fleet.node(&edge(), "node-1").await;
        for class in ["private", "public"] {
            let mut report = fleet.report("wx@1.0.0", "wx", &[("forecast", "a")]);
            report.address_class = class.into();
            fleet.sends(&node, &report).await;
        }
        let pinned = origin(&fleet, &edge(), "wx@1.0.0").await;
        assert!(
            matches!(&pinned, OriginTrust::Pinned { address_class: Some(class), .. } if &**class == "private")
        );
    });
}

#[test]
fn a_literal_addresss_class_is_the_manifests() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(&remote("1.0.0", "http://127.0.0.1:8080/mcp"), "wx@1.0.0").await;
        let pinned = origin(&fleet, &edge(), "wx@1.0.0").await;
        assert!(
            matches!(&pinned, OriginTrust::Pinned { address_class: Some(class), .. } if &**class == "loopback")
        );
    });
}
