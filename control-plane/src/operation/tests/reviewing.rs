//! Policies of the whole fleet: new versions that wait, notation, four eyes; and functions that never hold still.

use domain::audit::FunctionDifference;
use domain::id::{EdgeName, NodeId};
use domain::review::Review;

use crate::operation::approve::{Approval, approve};
use crate::operation::create_edge::create_edge;
use crate::operation::set_fleet_policy::{FleetPolicyChange, fleet_policy, set_fleet_policy};
use crate::operation::testing::{Fleet, ORDERED, REORDERED, TEAM, code, edge, hash, plugin, tool, version};
use crate::store::changes::{self, State};
use crate::store::testing::{Bench, on_both};
use crate::store::{assignments, volatile};

const V: &str = "team@1.0.0";
const NEXT: &str = "team@1.1.0";

async fn fleet(bench: Bench) -> (Fleet, NodeId) {
    let fleet = Fleet::new(bench).await;
    fleet.install(TEAM, V).await;
    let node = fleet.node(&edge(), "node-1").await;
    fleet.lists(&node, V, "team", &[("hello", "a"), ("bye", "b")]).await;
    (fleet, node)
}

async fn sets(fleet: &Fleet, change: FleetPolicyChange) -> bool {
    set_fleet_policy(&fleet.store, &fleet.by(), change).await.unwrap().1
}

fn reviews(review: Review) -> FleetPolicyChange {
    FleetPolicyChange { review_new_versions: Some(review), ..FleetPolicyChange::default() }
}

/// Pushes the next version, assigns it to `eu-1`, and has the node list it.
async fn updates(fleet: &Fleet, node: &NodeId) {
    fleet.install(&TEAM.replace("1.0.0", "1.1.0"), NEXT).await;
    fleet.lists(node, NEXT, "team", &[("hello", "a"), ("bye", "c"), ("added", "d")]).await;
}

fn difference(function: &str, approved: Option<&str>, seen: &str) -> FunctionDifference {
    FunctionDifference {
        version: version(NEXT),
        tool: tool("team"),
        function: function.into(),
        edge: Some(edge()),
        approved: approved.map(hash),
        seen: Some(hash(seen)),
    }
}

fn approval(functions: Vec<FunctionDifference>) -> Approval {
    Approval { plugin: plugin("team"), functions, origins: Vec::new(), edge: None, attended: true }
}

#[test]
fn a_fleets_policy_is_off_until_it_is_set_and_each_change_is_audited() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        assert_eq!(fleet_policy(&fleet.store).await.unwrap(), domain::review::FleetPolicy::default());
        let events = fleet.logged().await;
        let change = FleetPolicyChange { four_eyes: Some(true), ..reviews(Review::All) };
        assert!(sets(&fleet, change).await);
        assert!(!sets(&fleet, change).await, "nothing to change");
        let policy = fleet_policy(&fleet.store).await.unwrap();
        assert_eq!(
            (policy.review_new_versions, policy.four_eyes, policy.approve_notation),
            (Review::All, true, false)
        );
        assert_eq!(fleet.events(events).await, ["fleet.policy.set"]);
    });
}

#[test]
fn what_differs_in_a_new_version_waits_and_the_rest_is_called() {
    on_both(|bench| async move {
        let (fleet, node) = fleet(bench).await;
        sets(&fleet, reviews(Review::Changed)).await;
        let events = fleet.logged().await;
        updates(&fleet, &node).await;
        assert_eq!(fleet.approved_on(&edge(), NEXT, "hello").await, Some(hash("a")));
        assert_eq!(fleet.approved_on(&edge(), NEXT, "bye").await, Some(hash("b")), "as the version before");
        assert_eq!(fleet.approved_on(&edge(), NEXT, "added").await, None);
        let names = fleet.events(events).await;
        let came: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| name.starts_with("plugin.tools")).collect();
        assert_eq!(
            came,
            ["plugin.tools.snapshot", "plugin.tools.review", "plugin.tools.changed", "plugin.tools.changed"]
        );
        let shown = vec![difference("bye", Some("b"), "c"), difference("added", None, "d")];
        let decided = approve(&fleet.store, &fleet.by(), &approval(shown)).await.unwrap();
        assert_eq!((decided.functions.len(), decided.stale), (2, vec![]));
        for (function, text) in [("bye", "c"), ("added", "d")] {
            assert_eq!(fleet.approved_on(&edge(), NEXT, function).await, Some(hash(text)));
        }
    });
}

#[test]
fn each_edge_is_judged_by_the_version_that_it_had() {
    on_both(|bench| async move {
        let (fleet, node) = fleet(bench).await;
        let fresh = EdgeName::parse("fresh").unwrap();
        create_edge(&fleet.store, &fleet.by(), &fresh).await.unwrap();
        sets(&fleet, reviews(Review::Changed)).await;
        updates(&fleet, &node).await;
        fleet.assign(&fresh, NEXT).await.unwrap();
        assert_eq!(fleet.approved_on(&fresh, NEXT, "bye").await, Some(hash("c")), "it had no version before");
        sets(&fleet, reviews(Review::All)).await;
        let last = EdgeName::parse("last").unwrap();
        create_edge(&fleet.store, &fleet.by(), &last).await.unwrap();
        fleet.assign(&last, NEXT).await.unwrap();
        assert_eq!(fleet.approved_on(&last, NEXT, "hello").await, None, "all of it waits");
        assert_eq!(fleet.approved_on(&edge(), NEXT, "hello").await, Some(hash("a")), "judged before");
    });
}

#[test]
fn going_back_and_coming_again_needs_no_second_review() {
    on_both(|bench| async move {
        let (fleet, node) = fleet(bench).await;
        sets(&fleet, reviews(Review::Changed)).await;
        updates(&fleet, &node).await;
        let shown = vec![difference("bye", Some("b"), "c")];
        approve(&fleet.store, &fleet.by(), &approval(shown)).await.unwrap();
        fleet.assign(&edge(), V).await.unwrap();
        assert_eq!(fleet.approved_on(&edge(), V, "bye").await, Some(hash("b")));
        fleet.assign(&edge(), NEXT).await.unwrap();
        assert_eq!(fleet.approved_on(&edge(), NEXT, "bye").await, Some(hash("c")));
    });
}

#[test]
fn a_change_of_notation_is_approved_by_the_rule_once_nodes_agree() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let nodes = [fleet.node(&edge(), "node-1").await, fleet.node(&edge(), "node-2").await];
        for node in &nodes {
            fleet.lists(node, V, "team", &[("hello", ORDERED), ("bye", "b")]).await;
        }
        let on = FleetPolicyChange { approve_notation: Some(true), ..FleetPolicyChange::default() };
        sets(&fleet, on).await;
        fleet.lists(&nodes[0], V, "team", &[("hello", REORDERED), ("bye", "c")]).await;
        assert_eq!(fleet.approved(V, "team", "hello").await, Some(hash(ORDERED)), "a node shows it still");
        let events = fleet.logged().await;
        fleet.lists(&nodes[1], V, "team", &[("hello", REORDERED), ("bye", "c")]).await;
        assert_eq!(fleet.approved(V, "team", "hello").await, Some(hash(REORDERED)));
        assert_eq!(
            fleet.approved(V, "team", "bye").await,
            Some(hash("b")),
            "a text is never approved by a rule"
        );
        assert_eq!(fleet.events(events).await, ["plugin.tools.approve"]);
    });
}

#[test]
fn without_the_rule_notation_waits_like_anything_else() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let node = fleet.node(&edge(), "node-1").await;
        for text in [ORDERED, REORDERED] {
            fleet.lists(&node, V, "team", &[("hello", text)]).await;
        }
        assert_eq!(fleet.approved(V, "team", "hello").await, Some(hash(ORDERED)));
    });
}

#[test]
fn with_four_eyes_nobody_approves_what_they_pushed_or_assigned() {
    on_both(|bench| async move {
        let (fleet, node) = fleet(bench).await;
        let on = FleetPolicyChange { four_eyes: Some(true), ..FleetPolicyChange::default() };
        sets(&fleet, on).await;
        fleet.lists(&node, V, "team", &[("hello", "c"), ("bye", "b")]).await;
        let shown =
            FunctionDifference { version: version(V), edge: None, ..difference("hello", Some("a"), "c") };
        let wanted = approval(vec![shown]);
        let refused = approve(&fleet.store, &fleet.by(), &wanted).await;
        assert_eq!(code(refused), "four_eyes");
        assert_eq!(fleet.approved(V, "team", "hello").await, Some(hash("a")));
        // Who assigned it counts like who pushed it.
        let assigner = fleet.by_other("assigner");
        let mut tx = fleet.store.begin_write().await.unwrap();
        let assignment = assignments::Assignment {
            edge: edge(),
            version: version(V),
            assigned_at: assigner.now,
            assigned_by: assigner.origin.actor.clone(),
        };
        assignments::put(tx.tx(), &assignment).await.unwrap();
        tx.commit(assigner.now).await.unwrap();
        assert_eq!(code(approve(&fleet.store, &assigner, &wanted).await), "four_eyes");
        let decided = approve(&fleet.store, &fleet.by_other("second"), &wanted).await.unwrap();
        assert_eq!(decided.functions.len(), 1);
    });
}

// C03
#[test]
fn a_function_that_never_holds_still_is_volatile_after_eight_forms_and_asked_for_no_more() {
    on_both(|bench| async move {
        let (fleet, node) = fleet(bench).await;
        for text in ["0", "1", "2", "3", "4", "5", "6"] {
            fleet.lists(&node, V, "team", &[("hello", text), ("bye", "b")]).await;
        }
        let events = fleet.logged().await;
        fleet.lists(&node, V, "team", &[("hello", "7"), ("bye", "b")]).await;
        assert_eq!(fleet.events(events).await.last().unwrap(), "plugin.tools.volatile");
        let marked = of_tool(&fleet).await;
        assert_eq!(marked.len(), 1);
        assert_eq!((&*marked[0].function, &marked[0].parts[..]), ("hello", &["/description".to_owned()][..]));
        // Texts of "8" and "9" are not here, and are not asked for.
        let events = fleet.logged().await;
        for text in ["8", "9"] {
            let report = fleet.report(V, "team", &[("hello", text), ("bye", "b")]);
            assert_eq!(fleet.sends(&node, &report).await, crate::operation::record_listing::Recorded::Done);
        }
        assert_eq!(fleet.events(events).await, Vec::<String>::new(), "one event, not one for each form");
        assert_eq!(open(&fleet).await, 1, "it waits on, in the newest form that is kept");
        // The approved form is called again at once, and what other functions do is told as ever.
        fleet.lists(&node, V, "team", &[("hello", "a"), ("bye", "c")]).await;
        assert_eq!(fleet.events(events).await, ["plugin.tools.restored", "plugin.tools.changed"]);
        assert_eq!(open(&fleet).await, 1, "bye");
    });
}

#[test]
fn a_function_whose_forms_people_approve_is_not_volatile() {
    on_both(|bench| async move {
        let (fleet, node) = fleet(bench).await;
        let mut before = "a";
        for text in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] {
            fleet.lists(&node, V, "team", &[("hello", text), ("bye", "b")]).await;
            let shown = FunctionDifference {
                version: version(V),
                edge: None,
                ..difference("hello", Some(before), text)
            };
            let decided = approve(&fleet.store, &fleet.by(), &approval(vec![shown])).await.unwrap();
            assert_eq!(decided.functions.len(), 1, "{text}: {:?}", decided.stale);
            before = text;
        }
        assert!(of_tool(&fleet).await.is_empty());
    });
}

#[test]
fn a_volatile_function_that_held_still_for_an_hour_is_told_of_again() {
    on_both(|bench| async move {
        let (fleet, node) = fleet(bench).await;
        for text in ["0", "1", "2", "3", "4", "5", "6", "7"] {
            fleet.lists(&node, V, "team", &[("hello", text), ("bye", "b")]).await;
        }
        fleet.pass(domain::review::VOLATILE_WITHIN_MS);
        let events = fleet.logged().await;
        fleet.lists(&node, V, "team", &[("hello", "8"), ("bye", "b")]).await;
        assert_eq!(fleet.events(events).await, ["plugin.tools.restored", "plugin.tools.changed"]);
        assert!(of_tool(&fleet).await.is_empty());
    });
}

async fn of_tool(fleet: &Fleet) -> Vec<volatile::Volatile> {
    let mut tx = fleet.store.read().await.unwrap();
    volatile::of_tool(&mut tx, &version(V), &tool("team")).await.unwrap()
}

async fn open(fleet: &Fleet) -> usize {
    let mut tx = fleet.store.read().await.unwrap();
    let variants = changes::of_plugin(&mut tx, &plugin("team")).await.unwrap();
    variants.into_iter().filter(|one| one.state == State::Open).count()
}
