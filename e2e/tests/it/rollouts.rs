//! Versions that move over edges in waves, and over their nodes in steps.

use e2e::eventually;
use e2e::fleet::{EDGE, Fleet};
use e2e::mutable::Mutable;
use serde_json::{Value, json};

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;
const OTHER: &str = r#"{"name":"hello","description":"Say hello to all.","inputSchema":{"type":"object"}}"#;

struct Stage {
    fleet: Fleet,
    tools: Mutable,
}

impl Stage {
    /// Three nodes on the first edge, one on `us-1`, with version 1.0.0 on both.
    async fn new() -> Self {
        let mut fleet = Fleet::start(3).await.unwrap();
        fleet.cli(&["edge", "create", "us-1"]).await.unwrap();
        fleet.add_node_to("us-1", "node-9").await.unwrap();
        let tools = Mutable::new(fleet.folder(), "team");
        tools.list(&[HELLO]).unwrap();
        let stage = Self { fleet, tools };
        stage.push("1.0.0", &json!(stage.tools.command())).await;
        for edge in [EDGE, "us-1"] {
            stage.cli(&["assign", "team@1.0.0", "--edge", edge]).await.unwrap();
        }
        stage.runs("1.0.0", 4).await;
        stage
    }

    async fn cli(&self, words: &[&str]) -> anyhow::Result<String> {
        self.fleet.cli(words).await
    }

    async fn push(&self, version: &str, command: &Value) {
        let folder =
            self.fleet.write_plugin("team", version, &json!({"team": {"command": command}})).unwrap();
        self.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();
    }

    async fn start(&self, words: &[&str]) -> String {
        let started = self.fleet.cli_json(&[&["rollout", "start"], words].concat()).await.unwrap();
        started["id"].as_str().unwrap().to_owned()
    }

    async fn show(&self, id: &str) -> Value {
        self.fleet.cli_json(&["rollout", "show", id]).await.unwrap()
    }

    /// How many nodes call the version.
    async fn serving(&self, version: &str) -> anyhow::Result<usize> {
        let nodes = self.fleet.get("/nodes").await?;
        let serves = |node: &&Value| {
            let versions = node["versions"].as_array().into_iter().flatten();
            versions.into_iter().any(|one| one["version"] == version && one["state"] == "serving")
        };
        Ok(nodes["items"].as_array().into_iter().flatten().filter(serves).count())
    }

    async fn runs(&self, version: &str, nodes: usize) {
        eventually(&format!("{version} on {nodes} nodes"), || async {
            let serving = self.serving(version).await?;
            anyhow::ensure!(serving == nodes, "{serving} nodes serve it");
            Ok(())
        })
        .await;
    }

    async fn reaches(&self, id: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("rollout: {what}"), || async {
            let shown = self.show(id).await;
            anyhow::ensure!(is(&shown), "{shown}");
            Ok(())
        })
        .await;
        self.show(id).await
    }

    async fn installed(&self, edge: &str) -> String {
        let shown = self.fleet.get(&format!("/edges/{edge}")).await.unwrap();
        let assigned = shown["assignments"].as_array().unwrap().iter().find(|one| one["plugin"] == "team");
        assigned.unwrap()["version"].as_str().unwrap().to_owned()
    }

    /// Every node answers calls.
    async fn all_call(&self) {
        self.fleet.callable("team.hello", json!({})).await;
    }
}

#[tokio::test]
async fn a_version_goes_step_by_step_and_wave_by_wave_and_is_installed_last() {
    let stage = Stage::new().await;
    stage.push("1.1.0", &json!(stage.tools.command())).await;
    let words = ["team@1.1.0", "--edges", EDGE, "--edges", "us-1", "--canary", "1", "--hold", "1h"];
    let will = stage.cli(&[&["rollout", "start"], &words[..], &["--dry-run"]].concat()).await.unwrap();
    assert!(will.contains("1 for 1h, 100%") && will.contains("2h at the earliest"), "{will}");
    assert!(stage.cli(&["rollout", "list"]).await.unwrap().contains("No version was rolled out yet"));

    let id = stage.start(&words).await;
    let holding = |edge: usize| move |shown: &Value| shown["edges"][edge]["part"] == "holding";
    let shown = stage.reaches(&id, "the first step holds", holding(0)).await;
    assert!(shown["waits"][0].as_str().unwrap().contains("holding, "), "{shown}");
    assert_eq!((stage.serving("1.1.0").await.unwrap(), stage.serving("1.0.0").await.unwrap()), (1, 3));
    assert_eq!(stage.installed(EDGE).await, "1.0.0");
    // What a rollout moves is moved by nobody else.
    for words in [
        ["assign", "team@1.1.0", "--edge", EDGE].as_slice(),
        &["unassign", "team", "--edge", "us-1"],
        &["assign", "team@1.1.0", "--edge", "us-1", "--candidate", "--nodes", "node-9"],
    ] {
        let fault = stage.cli(words).await.unwrap_err().to_string();
        assert!(fault.contains("pintle rollout abort"), "{words:?}: {fault}");
    }
    let fault = stage.cli(&[&["rollout", "start"], &words[..]].concat()).await.unwrap_err().to_string();
    assert!(fault.contains("is in rollout"), "{fault}");

    stage.cli(&["rollout", "advance", &id]).await.unwrap();
    stage.reaches(&id, "the second wave's first step holds", holding(1)).await;
    stage.runs("1.1.0", 4).await;
    assert_eq!(stage.installed(EDGE).await, "1.1.0");
    assert_eq!(stage.installed("us-1").await, "1.0.0");
    stage.cli(&["rollout", "advance", &id]).await.unwrap();
    let watched = stage.cli(&["rollout", "watch", &id, "--timeout", "1m"]).await.unwrap();
    assert!(watched.contains("Every edge has it."), "{watched}");
    stage.runs("1.1.0", 4).await;
    assert_eq!(stage.installed("us-1").await, "1.1.0");
    stage.all_call().await;
    let moves = stage.fleet.get(&format!("/audit?subject=rollout/{id}")).await.unwrap();
    let reasons: Vec<&str> = moves["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["fields"]["reason"].as_str())
        .collect();
    assert!(reasons.iter().any(|why| why.contains("is its installed version")), "{reasons:?}");
    let undone = stage.cli(&["rollout", "undo", &id, "--reason", "it leaks"]).await.unwrap();
    assert!(undone.contains("it leaks"), "{undone}");
    stage.reaches(&id, "back", |shown| shown["phase"] == "rolled_back").await;
    stage.runs("1.0.0", 4).await;
    assert_eq!(
        (stage.installed(EDGE).await, stage.installed("us-1").await),
        ("1.0.0".into(), "1.0.0".into())
    );
    stage.all_call().await;
    stage.cli(&["audit", "verify"]).await.unwrap();
}

#[tokio::test]
async fn a_version_that_does_not_start_goes_back_from_the_first_node_and_is_not_tried_again_by_accident() {
    let stage = Stage::new().await;
    stage.push("1.1.0", &json!(["false"])).await;
    let words = ["team@1.1.0", "--edges", &format!("{EDGE},us-1"), "--steps", "1,100%", "--hold", "1h"];
    let id = stage.start(&words).await;
    let watched = stage.fleet.cli_output(&["rollout", "watch", &id, "--timeout", "1m"]).await.unwrap();
    let text = String::from_utf8_lossy(&watched.stdout).into_owned();
    assert!(!watched.status.success() && text.contains("Every edge has what it had before."), "{text}");
    let shown = stage.show(&id).await;
    assert_eq!(shown["phase"], "rolled_back");
    assert!(shown["reason"].as_str().unwrap().contains("does not run"), "{shown}");
    stage.runs("1.0.0", 4).await;
    stage.runs("1.1.0", 0).await;
    stage.all_call().await;
    let fault = stage.cli(&[&["rollout", "start"], &words[..]].concat()).await.unwrap_err().to_string();
    assert!(fault.contains("was rolled back by rollout") && fault.contains("--force"), "{fault}");
    let again = stage.start(&[&words[..], &["--force", "the machine is mended"]].concat()).await;
    let aborted = stage.cli(&["rollout", "abort", &again, "--reason", "enough"]).await;
    // It may have failed by itself before.
    assert!(aborted.is_ok() || aborted.unwrap_err().to_string().contains("it has ended"));
    stage.reaches(&again, "back", |shown| shown["phase"] == "rolled_back").await;
    stage.all_call().await;
}

#[tokio::test]
async fn a_version_whose_functions_changed_waits_for_approval_and_one_that_is_aborted_is_nowhere() {
    let stage = Stage::new().await;
    let changed = Mutable::new(stage.fleet.folder(), "changed");
    changed.list(&[HELLO]).unwrap();
    stage.push("1.1.0", &json!(changed.command())).await;
    let id = stage.start(&["team@1.1.0", "--edges", EDGE, "--steps", "1,100%", "--hold", "1h"]).await;
    stage.reaches(&id, "the first step holds", |shown| shown["edges"][0]["part"] == "holding").await;
    // The candidate drifts: the rollout waits with the command, the installed version goes on.
    changed.list(&[OTHER]).unwrap();
    let is_waiting = |shown: &Value| shown["waits"].to_string().contains("waiting for approval: team.hello");
    stage.reaches(&id, "it waits for approval", is_waiting).await;
    let shown = stage.fleet.cli_output(&["rollout", "show", &id]).await.unwrap();
    let hint = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(hint.contains("pintle plugin approve-tools team"), "{hint}");
    stage.cli(&["rollout", "advance", &id]).await.unwrap();
    stage.reaches(&id, "it still waits", is_waiting).await;
    assert_eq!(stage.serving("1.1.0").await.unwrap(), 1);
    let changes = stage.fleet.get("/plugins/team/changes").await.unwrap();
    let seen = changes["changes"][0]["variants"][0]["hash"].as_str().unwrap();
    stage.cli(&["plugin", "approve-tools", "team", "--yes", seen]).await.unwrap();
    stage.reaches(&id, "the second step", |shown| shown["phase"] == "completed").await;
    stage.runs("1.1.0", 3).await;

    stage.push("1.2.0", &json!(stage.tools.command())).await;
    let id = stage.start(&["team@1.2.0", "--edges", EDGE, "--steps", "2,100%", "--hold", "1h"]).await;
    stage.reaches(&id, "two nodes hold", |shown| shown["edges"][0]["part"] == "holding").await;
    assert_eq!(stage.serving("1.2.0").await.unwrap(), 2);
    stage.cli(&["rollout", "pause", &id]).await.unwrap();
    let said = stage.cli(&["rollout", "abort", &id, "--reason", "it burns"]).await.unwrap();
    assert!(said.contains("it burns"), "{said}");
    stage.reaches(&id, "back", |shown| shown["phase"] == "rolled_back").await;
    stage.runs("1.2.0", 0).await;
    stage.runs("1.1.0", 3).await;
    assert_eq!(stage.installed(EDGE).await, "1.1.0");
    let fault = stage.cli(&["rollout", "resume", &id]).await.unwrap_err().to_string();
    assert!(fault.contains("it has ended"), "{fault}");
}

#[tokio::test]
async fn a_rollout_goes_on_where_it_was_whenever_its_server_is_killed() {
    let mut stage = Stage::new().await;
    stage.push("1.1.0", &json!(stage.tools.command())).await;
    let id = stage.start(&["team@1.1.0", "--edges", EDGE, "--steps", "1,2,100%", "--hold", "1h"]).await;
    for step in 1..=3 {
        stage.fleet.kill_server().await.unwrap();
        stage.fleet.start_server().await.unwrap();
        if step == 3 {
            break;
        }
        let shown = stage
            .reaches(&id, "the step holds", |shown| {
                shown["edges"][0]["step"] == step && shown["edges"][0]["part"] == "holding"
            })
            .await;
        assert_eq!(shown["edges"][0]["granted"], step, "not one node more");
        stage.fleet.kill_server().await.unwrap();
        stage.fleet.start_server().await.unwrap();
        let again = stage.show(&id).await;
        assert_eq!(
            again["edges"][0]["since"], shown["edges"][0]["since"],
            "a hold is neither shorter nor begun anew"
        );
        stage.cli(&["rollout", "advance", &id]).await.unwrap();
    }
    stage.reaches(&id, "its end", |shown| shown["phase"] == "completed").await;
    stage.runs("1.1.0", 3).await;
    let moves = stage.fleet.get(&format!("/audit?subject=rollout/{id}&limit=1000")).await.unwrap();
    let promoted = moves["items"].as_array().unwrap().iter().filter(|one| {
        one["fields"]["reason"].as_str().is_some_and(|why| why.contains("is its installed version"))
    });
    assert_eq!(promoted.count(), 1, "{moves}");
    stage.cli(&["audit", "verify"]).await.unwrap();
}
