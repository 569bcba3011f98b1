//! The protocol's own conformance suite: against a server that offers what its scenarios expect, against a node
//! with that server behind it, and against servers of the suite with a node as their client.

mod client;
mod server;

use std::path::PathBuf;

use e2e::conformance::{Outcome, Outcomes, hold};
use e2e::process::here;

/// What fails, and why.
fn expected() -> PathBuf {
    here().join("conformance.expected")
}

/// Fails with each check that did not come out as it is expected.
#[expect(clippy::print_stdout, reason = "figures for `--nocapture`")]
fn check(runs: &[(String, Outcomes)]) {
    for (run, outcomes) in runs {
        let hold = outcomes.values().filter(|outcome| **outcome == Outcome::Holds).count();
        let fail = outcomes.values().filter(|outcome| matches!(outcome, Outcome::Fails(_))).count();
        println!("[{run}] {hold} checks hold, {fail} do not");
    }
    let wrong = runs.iter().flat_map(|(run, outcomes)| hold(outcomes, &expected(), run).unwrap());
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
