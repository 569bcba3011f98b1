//! The protocol's own conformance suite (npm `@modelcontextprotocol/conformance`): runs it, reads what its
//! checks came to, and holds that against the file of the failures that are expected.

mod expected;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::process::Command;

use crate::process::{node_js, npm};

pub use expected::hold;

/// For a run of the suite; the longest takes some ten seconds when the machine is free.
const RUN: Duration = Duration::from_mins(3);

/// What the suite puts behind the name of a scenario.
const TIME: &str = "-2026-12-01T00-24-33-123Z";

/// Checks of how late something came: their warnings are about the machine, their failures about us. The second waits a
/// second and a half for what takes an approval first.
const OF_THE_CLOCK: [&str; 2] =
    ["client-sse-retry-timing", "sep-2575-server-sends-tools-list-changed-on-subscription"];

/// What a check came to, the worst where it was made more than once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The suite says that it is about something that is not offered.
    Skipped,
    /// As it should be.
    Holds,
    /// Failed, or warned (what the protocol recommends counts), with what was wrong.
    Fails(String),
}

/// Checks by `SCENARIO:CHECK`.
pub type Outcomes = BTreeMap<String, Outcome>;

/// Runs all scenarios for servers of one revision against that endpoint.
///
/// # Errors
/// The suite cannot be run, or ends without results.
pub async fn server(url: &str, revision: &str, folder: &Path) -> Result<Outcomes> {
    let arguments = ["server", "--url", url, "--suite", "all", "--spec-version", revision];
    run(&arguments, folder).await
}

/// The names of the scenarios for clients of one revision.
///
/// # Errors
/// The suite cannot be run.
pub async fn client_scenarios(revision: &str) -> Result<Vec<String>> {
    let mut command = suite();
    command.args(["list", "--client", "--spec-version", revision]);
    let output = command.output().await.context("failed to run the conformance suite")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of_line = |line: &str| Some(line.trim().strip_prefix("- ")?.split_whitespace().next()?.to_owned());
    let names: Vec<String> = text.lines().filter_map(of_line).collect();
    if names.is_empty() {
        bail!("failed to read the scenarios in {text}");
    }
    Ok(names)
}

/// Runs one scenario for clients: the suite starts a server, and `command` with its URL.
///
/// # Errors
/// As [`server`].
pub async fn client(scenario: &str, command: &str, revision: &str, folder: &Path) -> Result<Outcomes> {
    let arguments = ["client", "--scenario", scenario, "--command", command, "--spec-version", revision];
    run(&arguments, folder).await
}

fn suite() -> Command {
    let mut command = Command::new(node_js());
    command.arg(npm("@modelcontextprotocol/conformance/dist/index.js"));
    command.stdin(std::process::Stdio::null()).kill_on_drop(true);
    command
}

async fn run(arguments: &[&str], folder: &Path) -> Result<Outcomes> {
    let mut command = suite();
    command.args(arguments).arg("-o").arg(folder);
    let output = tokio::time::timeout(RUN, command.output()).await;
    let output = output.context("failed to see the end of the conformance suite")??;
    let outcomes = read(folder).with_context(|| {
        let said = String::from_utf8_lossy(&output.stdout);
        format!("{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr))
    })?;
    if outcomes.is_empty() {
        bail!("{arguments:?} made no checks: {}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(outcomes)
}

/// Reads `checks.json` of each scenario's folder.
fn read(folder: &Path) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    for (scenario, path) in folders(folder)? {
        let text = std::fs::read_to_string(path.join("checks.json")).context("failed to read the checks")?;
        let checks: Vec<Value> = serde_json::from_str(&text)?;
        let field = |check: &Value, name: &str| {
            check.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        for check in &checks {
            let (id, status) = (field(check, "id"), field(check, "status"));
            let message = || {
                let texts = [field(check, "errorMessage"), field(check, "description")];
                texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
            };
            let outcome = match &*status {
                "WARNING" if OF_THE_CLOCK.contains(&&*id) => Outcome::Holds,
                "FAILURE" | "WARNING" => Outcome::Fails(message()),
                "SUCCESS" => Outcome::Holds,
                "SKIPPED" => Outcome::Skipped,
                _ => continue,
            };
            let worst = outcomes.entry(format!("{scenario}:{id}")).or_insert_with(|| outcome.clone());
            if outcome > *worst && !matches!(worst, Outcome::Fails(_)) {
                *worst = outcome;
            }
        }
    }
    Ok(outcomes)
}

/// Folders of scenarios, which are named `server-SCENARIO-TIME` or `SCENARIO-TIME`, some within one more.
fn folders(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next)? {
            let path = entry?.path();
            if path.join("checks.json").exists() {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                let name =
                    name.len().checked_sub(TIME.len()).and_then(|end| name.get(..end)).unwrap_or(&name);
                found.push((name.strip_prefix("server-").unwrap_or(name).to_owned(), path.clone()));
            } else if path.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(found)
}
