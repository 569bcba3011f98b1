use domain::audit::FunctionDifference;
use domain::digest::ListingHash;

use crate::operation::approve::{Approval, Decided, approve};
use crate::operation::reject::reject;
use crate::operation::testing::{Fleet, TEAM, edge, hash, plugin, tool, version};
use crate::operation::unassign::unassign;
use crate::operation::verify_audit::verify_audit;
use crate::store::testing::on_both;

const V: &str = "team@1.0.0";

fn difference(function: &str, approved: Option<&str>, seen: Option<&str>) -> FunctionDifference {
    let hash = |text: Option<&str>| -> Option<ListingHash> { text.map(hash) };
    FunctionDifference {
        version: version(V),
        tool: tool("team"),
        function: function.into(),
        edge: None,
        approved: hash(approved),
        seen: hash(seen),
    }
}

async fn approves(fleet: &Fleet, functions: Vec<FunctionDifference>) -> Decided {
    let approval =
        Approval { plugin: plugin("team"), functions, origins: Vec::new(), edge: None, attended: true };
    approve(&fleet.store, &fleet.by(), &approval).await.unwrap()
}

/// Two nodes whose fleet goes by hello=a, bye=b.
async fn fleet(bench: crate::store::testing::Bench) -> (Fleet, [domain::id::NodeId; 2]) {
    let fleet = Fleet::new(bench).await;
    fleet.install(TEAM, V).await;
    let nodes = [fleet.node(&edge(), "node-1").await, fleet.node(&edge(), "node-2").await];
    for node in &nodes {
        fleet.lists(node, V, "team", &[("hello", "a"), ("bye", "b")]).await;
    }
    (fleet, nodes)
}

// R3.19, R3.24
#[test]
fn an_approval_makes_exactly_what_was_seen_what_the_fleet_goes_by() {
    on_both(|bench| async move {
        let (fleet, nodes) = fleet(bench).await;
        fleet.lists(&nodes[0], V, "team", &[("hello", "c"), ("bye", "b"), ("extra", "d")]).await;
        let (events, before) = (fleet.logged().await, fleet.trust(&edge()).await.0);
        let wanted = vec![difference("hello", Some("a"), Some("c")), difference("extra", None, Some("d"))];
        let decided = approves(&fleet, wanted.clone()).await;
        assert_eq!((decided.functions, decided.stale), (wanted, vec![]));
        assert_eq!(decided.edges, [(edge(), before.generation + 1)]);
        assert_eq!(fleet.trust(&edge()).await.0.generation, before.generation + 1);
        assert_eq!(fleet.approved(V, "team", "hello").await, Some(hash("c")));
        assert_eq!(fleet.approved(V, "team", "extra").await, Some(hash("d")));
        // node-2 shows the old form, which differs from what the fleet goes by from here on.
        let names = fleet.events(events).await;
        assert_eq!(names[0], "plugin.tools.approve");
        assert_eq!(names[1..], ["plugin.tools.changed", "plugin.tools.changed"]);
    });
}

#[test]
fn what_is_not_as_it_was_shown_is_stale_and_the_rest_is_done() {
    on_both(|bench| async move {
        let (fleet, nodes) = fleet(bench).await;
        fleet.lists(&nodes[0], V, "team", &[("hello", "c"), ("bye", "d")]).await;
        let head = fleet.trust(&edge()).await.0;
        let stale = vec![
            // Another base than shown, a hash that nobody shows, one that is not gone, no such tool's.
            difference("hello", Some("b"), Some("c")),
            difference("hello", Some("a"), Some("e")),
            difference("hello", Some("a"), None),
            difference("hello", None, Some("c")),
            FunctionDifference { tool: tool("other"), ..difference("hello", None, Some("c")) },
            FunctionDifference { version: version("team@9.0.0"), ..difference("hello", None, Some("c")) },
        ];
        let decided = approves(&fleet, stale).await;
        assert_eq!((decided.functions.len(), decided.stale.len(), decided.edges.len()), (0, 6, 0));
        assert_eq!(decided.stale[0].approved, Some(hash("a")));
        assert_eq!(fleet.trust(&edge()).await.0, head);
        let bye = difference("bye", Some("b"), Some("d"));
        let mixed = vec![difference("hello", Some("a"), Some("e")), bye.clone(), bye];
        let decided = approves(&fleet, mixed).await;
        assert_eq!((decided.functions.len(), decided.stale.len()), (1, 2), "the second time is late");
        assert_eq!(fleet.approved(V, "team", "hello").await, Some(hash("a")));
        assert_eq!(fleet.approved(V, "team", "bye").await, Some(hash("d")));
    });
}

#[test]
fn a_form_that_appeared_after_the_look_is_not_covered() {
    on_both(|bench| async move {
        let (fleet, nodes) = fleet(bench).await;
        fleet.lists(&nodes[0], V, "team", &[("hello", "c"), ("bye", "b")]).await;
        fleet.lists(&nodes[0], V, "team", &[("hello", "d"), ("bye", "b")]).await;
        let decided = approves(&fleet, vec![difference("hello", Some("a"), Some("c"))]).await;
        assert_eq!(decided.stale.len(), 1);
        assert!(decided.stale[0].reason.contains("no node shows"), "{}", decided.stale[0].reason);
        assert_eq!(fleet.approved(V, "team", "hello").await, Some(hash("a")));
    });
}

#[test]
fn approving_that_a_function_is_gone_takes_it_out() {
    on_both(|bench| async move {
        let (fleet, nodes) = fleet(bench).await;
        fleet.lists(&nodes[0], V, "team", &[("hello", "a")]).await;
        let decided = approves(&fleet, vec![difference("bye", Some("b"), None)]).await;
        assert_eq!(decided.functions.len(), 1);
        assert_eq!(fleet.approved(V, "team", "bye").await, None);
        let again = approves(&fleet, vec![difference("bye", Some("b"), None)]).await;
        assert_eq!(again.stale.len(), 1, "once");
    });
}

#[test]
fn a_rejected_form_stays_refused_and_can_still_be_approved() {
    on_both(|bench| async move {
        let (fleet, nodes) = fleet(bench).await;
        fleet.lists(&nodes[0], V, "team", &[("hello", "c"), ("bye", "b")]).await;
        let (head, events) = (fleet.trust(&edge()).await.0, fleet.logged().await);
        let wanted = [difference("hello", Some("a"), Some("c")), difference("hello", Some("a"), Some("e"))];
        let decided = reject(&fleet.store, &fleet.by(), &plugin("team"), &wanted).await.unwrap();
        assert_eq!((decided.functions.len(), decided.stale.len()), (1, 1));
        fleet.lists(&nodes[1], V, "team", &[("hello", "c"), ("bye", "b")]).await;
        assert_eq!(fleet.events(events).await, ["plugin.tools.reject"], "seen again, no new alert");
        assert_eq!(fleet.trust(&edge()).await.0, head);
        assert_eq!(
            approves(&fleet, vec![difference("hello", Some("a"), Some("c"))]).await.functions.len(),
            1
        );
    });
}

// R3.17
#[test]
fn a_new_version_has_a_snapshot_of_its_own_and_keeps_the_order_of_approval() {
    on_both(|bench| async move {
        let (fleet, nodes) = fleet(bench).await;
        let next = TEAM.replace("1.0.0", "1.1.0");
        fleet.install(&next, "team@1.1.0").await;
        fleet.lists(&nodes[0], "team@1.1.0", "team", &[("hello", "e"), ("added", "f")]).await;
        let trust = fleet.trust(&edge()).await.1;
        let newer = &trust.versions[&version("team@1.1.0")].tools[&tool("team")].functions;
        assert_eq!(newer["hello"].hash, hash("e"));
        let history = fleet.events(0).await;
        assert!(!history.contains(&"plugin.tools.changed".to_owned()), "{history:?}");
        fleet.assign(&edge(), V).await.unwrap();
        let trust = fleet.trust(&edge()).await.1;
        let older = &trust.versions[&version(V)].tools[&tool("team")].functions;
        assert_eq!((older["hello"].hash, older["hello"].rank), (hash("a"), newer["hello"].rank));
        assert!(newer["added"].rank > newer["hello"].rank);
        unassign(&fleet.store, &fleet.by(), &edge(), &plugin("team")).await.unwrap();
        assert!(unassign(&fleet.store, &fleet.by(), &edge(), &plugin("team")).await.is_err());
        let verified = verify_audit(&fleet.store).await.unwrap();
        assert_eq!((verified.fault, verified.tail.seq), (None, fleet.logged().await));
    });
}
