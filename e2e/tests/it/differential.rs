//! What agents and tools say to each other arrives through a node as it does directly.

use std::path::Path;

use e2e::differential::{self, Plan};
use e2e::fleet::Fleet;

/// Of the long form's 100,000.
const EXCHANGES: u64 = 1_500;

#[tokio::test]
async fn what_agents_and_tools_say_arrives_through_a_node_as_it_does_directly() {
    let fleet = Fleet::start(1).await.unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_wire-diff"));
    let plan = Plan { exchanges: EXCHANGES, seed: 1, only: None, workers: 4 };
    let report = differential::run(&fleet, program, plan).await.unwrap();
    assert!(report.differences.is_empty(), "{}", report.differences.join("\n"));
    assert_eq!((report.played, report.lists), (EXCHANGES, 4));
}
