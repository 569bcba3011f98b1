//! Tools that list by who asks.

use serde_json::Value;

use crate::operation::testing::{Fleet, TEAM, edge, hash};
use crate::store::testing::on_both;

const V: &str = "team@1.0.0";

/// What each function of the case says of itself; `other` is what `repo_read` says to the reader.
const TEXTS: [(&str, &str); 3] = [("repo_read", "a"), ("repo_write", "b"), ("repo_delete", "c")];

fn case() -> Value {
    serde_json::from_str(include_str!("../../../tests/cases/C06-per-user-listing.json")).unwrap()
}

fn of(names: &Value) -> Vec<(&'static str, &'static str)> {
    let names = names.as_array().unwrap();
    TEXTS.into_iter().filter(|(name, _)| names.iter().any(|other| other == name)).collect()
}

// C06
#[test]
fn who_may_see_less_is_no_tool_that_lost_functions() {
    for row in 0..2 {
        on_both(|bench| async move {
            let case = case();
            let fleet = Fleet::new(bench).await;
            fleet.install(TEAM, V).await;
            let node = fleet.node(&edge(), "node-1").await;
            fleet.lists(&node, V, "team", &of(&case["snapshot_has"])).await;
            let events = fleet.logged().await;
            for who in case["expect"][row]["order"].as_array().unwrap() {
                let connections = case["connections"].as_array().unwrap();
                let connection = connections.iter().find(|one| one["connection"] == *who).unwrap();
                let mut report = fleet.report(V, "team", &of(&connection["lists"]));
                report.connection = who.as_str().unwrap().into();
                fleet.sends(&node, &report).await;
            }
            assert_eq!(fleet.logged().await, events, "no change, and nothing approved");
            assert_eq!(fleet.approved(V, "team", "repo_delete").await, Some(hash("c")));
        });
    }
}

// C06
#[test]
fn another_text_for_another_connection_is_a_change_and_the_first_ones_stays_approved() {
    on_both(|bench| async move {
        let case = case();
        assert_ne!(case["same_name_other_text"]["admin"], case["same_name_other_text"]["reader"]);
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let node = fleet.node(&edge(), "node-1").await;
        fleet.lists(&node, V, "team", &TEXTS).await;
        let events = fleet.logged().await;
        let mut report = fleet.report(V, "team", &[("repo_read", "d")]);
        report.connection = "reader".into();
        fleet.sends(&node, &report).await;
        assert_eq!(fleet.events(events).await, ["plugin.tools.changed"]);
        assert_eq!(fleet.approved(V, "team", "repo_read").await, Some(hash("a")));
    });
}
