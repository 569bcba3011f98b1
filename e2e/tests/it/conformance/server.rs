//! Scenarios for servers: the same functions directly, and through a node that reaches them over either transport
//! and in either family of revisions.

use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::conformance::{self, Outcome, Outcomes};
use e2e::fleet::Fleet;
use e2e::front::Front;
use e2e::process::{Process, here, python};
use serde_json::{Value, json};
use tokio::process::Command;

use super::check;

/// Those with a handshake and this transport, and the one without.
const REVISIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
/// Of a tool over HTTP that speaks one family of revisions, the newest of each are enough.
const NEWEST: [&str; 2] = ["2025-11-25", "2026-07-28"];
/// What is checked of a tool whose questions belong to no call: over stdio with a handshake. A scenario of the
/// other family leaves calls that wait, and then nothing says which agent is meant.
const WITH_A_HANDSHAKE: [&str; 1] = ["2025-11-25"];

fn fixture(only: Option<&str>) -> Vec<String> {
    let path = |path: PathBuf| path.canonicalize().unwrap().to_string_lossy().into_owned();
    let python = python().parent().unwrap().join("python").to_string_lossy().into_owned();
    let mut command = vec![python, path(here().join("fixtures/conformance_server.py"))];
    command.extend(only.map(|only| format!("--only={only}")));
    command
}

/// The fixture over HTTP; its URL.
async fn over_http(folder: &Path, name: &str, only: Option<&str>) -> (Process, String) {
    let port = folder.join(format!("{name}.port"));
    let words = fixture(only);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--http").arg(&port);
    let process = Process::start(command, &folder.join(format!("{name}.log"))).unwrap();
    let port = e2e::eventually("the fixture to listen", || async { std::fs::read_to_string(&port) }).await;
    (process, format!("http://127.0.0.1:{port}/mcp"))
}

/// Runs the suite for each revision, one after the other: what a scenario changes is for all that talk to the tool.
async fn runs(url: &str, name: &str, folder: &Path, revisions: &[&str]) -> Vec<(String, Outcomes)> {
    let mut runs = Vec::new();
    for revision in revisions {
        let run = format!("{name} {revision}");
        let folder = folder.join(&run);
        std::fs::create_dir(&folder).unwrap();
        runs.push((run, conformance::server(url, revision, &folder).await.unwrap()));
    }
    runs
}

async fn through_a_node(fleet: &Fleet, tool: &str, revisions: &[&str]) -> Vec<(String, Outcomes)> {
    fleet.callable(&format!("{tool}.test_simple_text"), json!({})).await;
    let front = Front::of(fleet.mcp(0), tool).await.unwrap();
    runs(&front.url, tool, fleet.folder(), revisions).await
}

/// Approves whatever a tool changes, as a person would who takes it all: scenarios change what their server lists
/// and expect it to be announced, which a node does once it is approved.
async fn approve_all(fleet: &Fleet) {
    loop {
        let waiting = fleet.get("/plugins/conformance/changes").await.unwrap();
        let functions: Vec<Value> = waiting["changes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|change| {
                let mut function =
                    json!({"approved": change["approved"]["hash"], "seen": change["variants"][0]["hash"]});
                for name in ["version", "tool", "function"] {
                    function[name] = change[name].clone();
                }
                function
            })
            .collect();
        if functions.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        } else {
            let body = json!({"functions": functions, "origins": [], "attended": true});
            fleet.post("/plugins/conformance/approve", &body).await.unwrap();
        }
    }
}

/// Each check that is made at the server itself is made through a node too, but those behind one that fails there.
fn none_is_passed_over(alone: &[(String, Outcomes)], through: &[(String, Outcomes)]) {
    let scenario = |check: &str| check.split(':').next().unwrap().to_owned();
    for (run, outcomes) in through {
        let revision = run.rsplit(' ').next().unwrap();
        let (_, alone) = alone.iter().find(|(run, _)| run.ends_with(revision)).unwrap();
        for check in alone.keys().filter(|check| !outcomes.contains_key(*check)) {
            let mut of_it = outcomes.iter().filter(|(other, _)| scenario(other) == scenario(check));
            assert!(
                of_it.any(|(_, outcome)| matches!(outcome, Outcome::Fails(_))),
                "[{run}] {check} was not made"
            );
        }
    }
}

#[tokio::test]
async fn what_holds_of_a_server_holds_of_a_node_with_that_server_behind_it() {
    let fleet = Fleet::start(1).await.unwrap();
    let folder = fleet.folder();
    let (_direct, direct) = over_http(folder, "direct", None).await;
    let (_modern, modern) = over_http(folder, "modern", Some("modern")).await;
    let (_handshake, handshake) = over_http(folder, "handshake", Some("handshake")).await;
    let tools = json!({
        "modern-stdio": {"command": fixture(Some("modern"))},
        "modern-http": {"url": modern},
        "handshake-stdio": {"command": fixture(Some("handshake"))},
        "handshake-http": {"url": handshake},
    });
    fleet.install("conformance", "1.0.0", &tools).await.unwrap();
    let all = async {
        tokio::join!(
            runs(&direct, "direct", folder, &REVISIONS),
            through_a_node(&fleet, "modern-stdio", &REVISIONS),
            through_a_node(&fleet, "modern-http", &NEWEST),
            through_a_node(&fleet, "handshake-stdio", &WITH_A_HANDSHAKE),
            through_a_node(&fleet, "handshake-http", &NEWEST),
        )
    };
    tokio::select! {
        (alone, one, two, three, four) = all => {
            let through = [one, two, three, four].concat();
            check(&[&*alone, &*through].concat());
            none_is_passed_over(&alone, &through);
        }
        () = approve_all(&fleet) => {}
    }
}
