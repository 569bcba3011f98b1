//! The protocol's own conformance suite: against a server that offers what its scenarios expect, against a node
//! with that server behind it, and against servers of the suite with a node as their client.

mod client;
mod server;

use std::path::PathBuf;

use e2e::conformance::{Outcomes, hold};
use e2e::process::here;

/// What fails, and why.
fn expected() -> PathBuf {
    here().join("conformance.expected")
}

/// Fails with each check that did not come out as it is expected.
#[expect(clippy::print_stdout, reason = "figures for `--nocapture`")]
fn check(runs: &[(String, Outcomes)]) {
    for (run, outcomes) in runs {
        let failed = outcomes.values().filter(|outcome| outcome.failed).count();
        println!("[{run}] {} checks hold, {failed} do not", outcomes.len() - failed);
    }
    let wrong = runs.iter().flat_map(|(run, outcomes)| hold(outcomes, &expected(), run).unwrap());
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
