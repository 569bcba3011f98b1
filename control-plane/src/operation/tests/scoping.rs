//! What one edge goes by for itself, and approvals that are taken back.

use domain::audit::FunctionDifference;
use domain::digest::ListingHash;
use domain::id::{EdgeName, NodeId};

use crate::operation::approve::{Approval, Decided, approve};
use crate::operation::clear_own::clear_own;
use crate::operation::create_edge::create_edge;
use crate::operation::reject::reject;
use crate::operation::testing::{Fleet, TEAM, code, edge, hash, plugin, tool, version};
use crate::operation::undo_approval::undo_approval;
use crate::operation::verify_audit::verify_audit;
use crate::store::approvals;
use crate::store::changes::{self, State};
use crate::store::testing::{Bench, on_both};

const V: &str = "team@1.0.0";

fn other() -> EdgeName {
    EdgeName::parse("us-1").unwrap()
}

fn hello(own: Option<&EdgeName>, approved: Option<&str>, seen: Option<&str>) -> FunctionDifference {
    let hash = |text: Option<&str>| -> Option<ListingHash> { text.map(hash) };
    FunctionDifference {
        version: version(V),
        tool: tool("team"),
        function: "hello".into(),
        edge: own.cloned(),
        approved: hash(approved),
        seen: hash(seen),
    }
}

async fn approves(fleet: &Fleet, only: Option<EdgeName>, one: FunctionDifference) -> Decided {
    let (functions, origins) = (vec![one], Vec::new());
    let approval = Approval { plugin: plugin("team"), functions, origins, edge: only, attended: true };
    approve(&fleet.store, &fleet.by(), &approval).await.unwrap()
}

/// Two edges with a node each, which go by hello=a.
async fn fleet(bench: Bench) -> (Fleet, NodeId, NodeId) {
    let fleet = Fleet::new(bench).await;
    create_edge(&fleet.store, &fleet.by(), &other()).await.unwrap();
    fleet.install(TEAM, V).await;
    fleet.assign(&other(), V).await.unwrap();
    let (here, there) = (fleet.node(&edge(), "node-1").await, fleet.node(&other(), "node-2").await);
    for node in [&here, &there] {
        lists(&fleet, node, "a").await;
    }
    (fleet, here, there)
}

async fn lists(fleet: &Fleet, node: &NodeId, text: &str) {
    fleet.lists(node, V, "team", &[("hello", text)]).await;
}

/// Which differences wait, each with the edge whose own listing it differs from.
async fn open(fleet: &Fleet) -> Vec<(Option<EdgeName>, Option<ListingHash>)> {
    let mut tx = fleet.store.read().await.unwrap();
    let variants = changes::of_plugin(&mut tx, &plugin("team")).await.unwrap().into_iter();
    variants.filter(|one| one.state == State::Open).map(|one| (one.edge, one.seen)).collect()
}

#[test]
fn an_approval_for_one_edge_leaves_the_others_as_they_are() {
    on_both(|bench| async move {
        let (fleet, here, there) = fleet(bench).await;
        lists(&fleet, &here, "b").await;
        lists(&fleet, &there, "b").await;
        let before = fleet.trust(&other()).await.0;
        let decided = approves(&fleet, Some(edge()), hello(None, Some("a"), Some("b"))).await;
        assert_eq!(decided.functions, [hello(Some(&edge()), Some("a"), Some("b"))]);
        assert_eq!(decided.edges.iter().map(|(edge, _)| edge.clone()).collect::<Vec<_>>(), [edge()]);
        assert_eq!(fleet.approved_on(&edge(), V, "hello").await, Some(hash("b")));
        assert_eq!(fleet.approved_on(&other(), V, "hello").await, Some(hash("a")));
        assert_eq!(fleet.trust(&other()).await.0, before, "nothing is sent to the other edge");
        assert_eq!(open(&fleet).await, [(None, Some(hash("b")))], "it waits for the other edge");
        assert!(verify_audit(&fleet.store).await.unwrap().fault.is_none());
    });
}

#[test]
fn what_only_that_edge_showed_waits_no_longer_and_is_no_return() {
    on_both(|bench| async move {
        let (fleet, here, _) = fleet(bench).await;
        lists(&fleet, &here, "b").await;
        let events = fleet.logged().await;
        approves(&fleet, Some(edge()), hello(None, Some("a"), Some("b"))).await;
        assert_eq!(open(&fleet).await, []);
        assert_eq!(fleet.events(events).await, ["plugin.tools.approve"]);
    });
}

#[test]
fn a_change_against_an_edges_own_listing_is_approved_for_that_edge() {
    on_both(|bench| async move {
        let (fleet, here, there) = fleet(bench).await;
        lists(&fleet, &here, "b").await;
        approves(&fleet, Some(edge()), hello(None, Some("a"), Some("b"))).await;
        lists(&fleet, &here, "c").await;
        lists(&fleet, &there, "c").await;
        assert_eq!(open(&fleet).await, [(None, Some(hash("c"))), (Some(edge()), Some(hash("c")))]);
        // Shown against another base, or for the wrong edge: nothing is done.
        for (only, shown) in [
            (None, hello(Some(&edge()), Some("a"), Some("c"))),
            (Some(other()), hello(Some(&edge()), Some("b"), Some("c"))),
            (Some(edge()), hello(None, Some("a"), Some("c"))),
        ] {
            let decided = approves(&fleet, only, shown).await;
            assert_eq!((decided.functions.len(), decided.stale.len()), (0, 1), "{:?}", decided.functions);
        }
        let decided = approves(&fleet, None, hello(Some(&edge()), Some("b"), Some("c"))).await;
        assert_eq!(decided.functions, [hello(Some(&edge()), Some("b"), Some("c"))]);
        assert_eq!(fleet.approved_on(&edge(), V, "hello").await, Some(hash("c")));
        assert_eq!(fleet.approved_on(&other(), V, "hello").await, Some(hash("a")));
    });
}

#[test]
fn a_fleet_wide_approval_names_edges_that_go_their_own_way_and_drops_what_is_equal() {
    on_both(|bench| async move {
        let (fleet, here, there) = fleet(bench).await;
        lists(&fleet, &here, "b").await;
        approves(&fleet, Some(edge()), hello(None, Some("a"), Some("b"))).await;
        lists(&fleet, &there, "c").await;
        let decided = approves(&fleet, None, hello(None, Some("a"), Some("c"))).await;
        let own: Vec<_> = decided.own.into_iter().map(|own| (own.edge, own.hash)).collect();
        assert_eq!(own, [(edge(), Some(hash("b")))]);
        assert_eq!(fleet.approved_on(&edge(), V, "hello").await, Some(hash("b")));
        lists(&fleet, &there, "b").await;
        let decided = approves(&fleet, None, hello(None, Some("c"), Some("b"))).await;
        assert!(decided.own.is_empty(), "as the fleet's, so it is dropped");
        // From here on the edge follows the fleet.
        for node in [&here, &there] {
            lists(&fleet, node, "d").await;
        }
        assert_eq!(open(&fleet).await, [(None, Some(hash("d")))]);
    });
}

#[test]
fn an_edge_may_go_without_a_function_and_clearing_brings_it_back() {
    on_both(|bench| async move {
        let (fleet, here, _) = fleet(bench).await;
        fleet.lists(&here, V, "team", &[]).await;
        fleet.lists(&here, V, "team", &[]).await;
        let decided = approves(&fleet, Some(edge()), hello(None, Some("a"), None)).await;
        assert_eq!(decided.stale, []);
        assert_eq!(fleet.approved_on(&edge(), V, "hello").await, None);
        assert_eq!(fleet.approved_on(&other(), V, "hello").await, Some(hash("a")));
        let by = fleet.by();
        let clear = |approved: Option<&'static str>, seen: Option<&'static str>| {
            let shown = [hello(None, approved, seen)];
            let (fleet, by) = (&fleet, &by);
            async move { clear_own(&fleet.store, by, &plugin("team"), &edge(), (&shown, true)).await.unwrap() }
        };
        assert_eq!(clear(Some("b"), Some("a")).await.stale.len(), 1, "not as it was shown");
        let events = fleet.logged().await;
        let cleared = clear(None, Some("a")).await;
        assert_eq!((cleared.functions.len(), cleared.edges.len()), (1, 1));
        assert_eq!(fleet.approved_on(&edge(), V, "hello").await, Some(hash("a")));
        assert_eq!(fleet.events(events).await, ["plugin.tools.clear", "plugin.tools.changed"]);
        assert_eq!(clear(None, Some("a")).await.stale.len(), 1, "once");
        let nowhere = EdgeName::parse("nowhere").unwrap();
        let refused = clear_own(&fleet.store, &by, &plugin("team"), &nowhere, (&[], true)).await;
        assert_eq!(code(refused), "not_found");
    });
}

#[test]
fn rejecting_is_for_whoever_goes_by_what_was_shown() {
    on_both(|bench| async move {
        let (fleet, here, there) = fleet(bench).await;
        lists(&fleet, &here, "b").await;
        approves(&fleet, Some(edge()), hello(None, Some("a"), Some("b"))).await;
        lists(&fleet, &here, "c").await;
        lists(&fleet, &there, "c").await;
        let own = [hello(Some(&edge()), Some("b"), Some("c"))];
        let decided = reject(&fleet.store, &fleet.by(), &plugin("team"), &own).await.unwrap();
        assert_eq!((decided.functions.len(), decided.stale.len()), (1, 0));
        assert_eq!(open(&fleet).await, [(None, Some(hash("c")))]);
    });
}

#[test]
fn the_newest_approval_is_taken_back_and_then_the_one_before_it() {
    on_both(|bench| async move {
        let (fleet, here, _) = fleet(bench).await;
        for (approved, seen) in [("a", "b"), ("b", "c")] {
            lists(&fleet, &here, seen).await;
            approves(&fleet, None, hello(None, Some(approved), Some(seen))).await;
        }
        let newest = |fleet: &Fleet| {
            let store = fleet.store.clone();
            async move {
                let mut tx = store.read().await.unwrap();
                approvals::latest(&mut tx, &plugin("team")).await.unwrap().map(|act| act.id)
            }
        };
        let undo = |approval| {
            let fleet = &fleet;
            async move { undo_approval(&fleet.store, &fleet.by(), &plugin("team"), approval, true).await }
        };
        let last = newest(&fleet).await.unwrap();
        assert_eq!(code(undo(last - 1).await), "approval_stale", "the newest first");
        let events = fleet.logged().await;
        let undone = undo(last).await.unwrap();
        assert_eq!(undone.functions, [hello(None, Some("c"), Some("b"))]);
        assert_eq!(fleet.approved_on(&other(), V, "hello").await, Some(hash("b")));
        assert_eq!(fleet.events(events).await[..2], ["plugin.tools.undo", "plugin.tools.changed"]);
        assert_eq!(code(undo(last).await), "approval_stale", "once");
        undo(newest(&fleet).await.unwrap()).await.unwrap();
        assert_eq!(fleet.approved_on(&edge(), V, "hello").await, Some(hash("a")));
        assert_eq!(newest(&fleet).await, None);
        assert_eq!(code(undo(1).await), "approval_stale");
    });
}

#[test]
fn what_another_approval_decided_since_stays_when_an_earlier_one_is_taken_back() {
    on_both(|bench| async move {
        let (fleet, here, there) = fleet(bench).await;
        lists(&fleet, &here, "b").await;
        approves(&fleet, Some(edge()), hello(None, Some("a"), Some("b"))).await;
        lists(&fleet, &there, "b").await;
        // Drops the edge's own, since it is equal.
        approves(&fleet, None, hello(None, Some("a"), Some("b"))).await;
        for _ in 0..2 {
            let latest = {
                let mut tx = fleet.store.read().await.unwrap();
                approvals::latest(&mut tx, &plugin("team")).await.unwrap().unwrap().id
            };
            undo_approval(&fleet.store, &fleet.by(), &plugin("team"), latest, true).await.unwrap();
        }
        assert_eq!(fleet.approved_on(&edge(), V, "hello").await, Some(hash("a")));
        assert_eq!(fleet.approved_on(&other(), V, "hello").await, Some(hash("a")));
    });
}

#[test]
fn nobody_decides_for_an_edge_that_is_not_there() {
    on_both(|bench| async move {
        let (fleet, here, _) = fleet(bench).await;
        lists(&fleet, &here, "b").await;
        let approval = Approval {
            plugin: plugin("team"),
            functions: vec![hello(None, Some("a"), Some("b"))],
            origins: Vec::new(),
            edge: Some(EdgeName::parse("nowhere").unwrap()),
            attended: true,
        };
        assert_eq!(code(approve(&fleet.store, &fleet.by(), &approval).await), "not_found");
    });
}
