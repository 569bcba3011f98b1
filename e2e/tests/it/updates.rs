//! Updates on nodes that run, and on nodes that were started again in the middle.

use std::io::Write as _;
use std::time::{Duration, Instant};

use e2e::eventually;
use e2e::fleet::{EDGE, Fleet, Plan};
use e2e::holding::Holding;
use e2e::mutable::Mutable;
use serde_json::{Value, json};

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;
const PAINT: &str = r#"{"name":"paint","description":"Paint.","inputSchema":{"type":"object"}}"#;

/// A fleet with one node and two plugins: `greeter`, which stays as it is, and `painter`, which is updated.
struct Stage {
    fleet: Fleet,
    downloads: Holding,
    team: Mutable,
    brush: Mutable,
}

impl Stage {
    async fn set() -> Self {
        let downloads = Holding::start().await.unwrap();
        let plan = Plan { node_address: Some(downloads.address()), ..Plan::default() };
        let mut fleet = Fleet::prepare(&plan).await.unwrap();
        fleet.start_server().await.unwrap();
        downloads.lead_to(fleet.node_port().parse().unwrap());
        fleet.cli(&["edge", "create", EDGE]).await.unwrap();
        fleet.add_node("node-1").await.unwrap();
        let (team, brush) = (Mutable::new(fleet.folder(), "team"), Mutable::new(fleet.folder(), "brush"));
        team.list(&[HELLO]).unwrap();
        brush.list(&[PAINT]).unwrap();
        fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
        fleet.install("painter", "1.0.0", &json!({"brush": {"command": brush.command()}})).await.unwrap();
        fleet.callable("team.hello", json!({})).await;
        fleet.callable("brush.paint", json!({})).await;
        Self { fleet, downloads, team, brush }
    }

    /// What the node says of a version.
    async fn version(&self, version: &str) -> Option<Value> {
        let node = self.fleet.get("/nodes/node-1").await.unwrap();
        let versions = node["versions"].as_array().unwrap().clone();
        versions.into_iter().find(|one| one["plugin"] == "painter" && one["version"] == version)
    }

    async fn until_state(&self, version: &str, state: &str) -> Value {
        eventually(&format!("painter@{version} to be {state}"), || async {
            match self.version(version).await {
                Some(found) if found["state"] == state => Ok(found),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    async fn paints(&self) {
        let outcome = self.fleet.mcp(0).call("brush.paint", json!({})).await.unwrap();
        assert_eq!(outcome.refusal, None, "{outcome:?}");
    }

    fn bundles(&self) -> usize {
        std::fs::read_dir(self.fleet.folder().join("node-1/bundles")).unwrap().count()
    }
}

/// How long the tool's own start takes: process, handshake and list, by hand.
async fn own_start(tool: &Mutable) -> Duration {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let began = Instant::now();
    let command = tool.command();
    let mut child = tokio::process::Command::new(&command[0])
        .args(&command[1..])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for method in ["initialize", "tools/list"] {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
        stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        lines.next_line().await.unwrap().unwrap();
    }
    began.elapsed()
}

// R3.30 R3.31 R3.32 R3.33 R3.34
#[tokio::test]
async fn a_restarted_node_serves_what_is_unchanged_while_an_update_of_another_plugin_is_stuck() {
    let mut stage = Stage::set().await;
    stage.downloads.hold(true);
    stage
        .fleet
        .install("painter", "1.1.0", &json!({"brush": {"command": stage.brush.command()}}))
        .await
        .unwrap();
    eventually("the stuck download", || async {
        if stage.downloads.held() > 0 { Ok(()) } else { Err("none") }
    })
    .await;
    stage.paints().await;

    let own = own_start(&stage.team).await;
    stage.fleet.kill_node(0).await.unwrap();
    let began = Instant::now();
    stage.fleet.restart_node(0).await.unwrap();
    stage.fleet.callable("team.hello", json!({})).await;
    let served = began.elapsed();
    eventually("the download to be stuck again", || async {
        if stage.downloads.held() > 0 { Ok(()) } else { Err("none") }
    })
    .await;
    let mut out = std::io::stderr();
    writeln!(out, "a restarted node answered after {served:?}; its tool's own start takes {own:?}").unwrap();

    let sentence = &stage.fleet.refused("brush.paint", "installing").await[0];
    assert!(sentence.starts_with("painter@1.1.0 "), "{sentence}");
    let back = "painter@1.0.0 is not called since the node started again; to go back to it, ask an operator to assign \
                it again with: pintle assign painter@1.0.0 --edge eu-1";
    assert!(sentence.ends_with(back), "{sentence}");
    let (_, command) = sentence.split_once(": pintle ").unwrap();
    let words: Vec<&str> = command.split_whitespace().collect();
    stage.fleet.cli(&words).await.unwrap();
    stage.fleet.callable("brush.paint", json!({})).await;
    assert!(stage.version("1.1.0").await.is_none_or(|it| it["state"] != "serving"));

    // The update goes on where it is wanted again and nothing is in the way.
    stage.downloads.hold(false);
    stage.fleet.cli(&["assign", "painter@1.1.0", "--edge", EDGE]).await.unwrap();
    stage.until_state("1.1.0", "serving").await;
    stage.fleet.callable("brush.paint", json!({})).await;
    stage.team.observe(&[HELLO.to_owned()].into()).unwrap();
    stage.brush.observe(&[PAINT.to_owned()].into()).unwrap();
}

// R3.32
#[tokio::test]
async fn an_update_that_does_not_start_leaves_what_is_called_and_its_files_and_the_other_plugins_alone() {
    let stage = Stage::set().await;
    let greeter = stage.team.running();
    let broken = json!({"brush": {"command": ["sh", "-c", "echo no brush >&2; exit 3"]}});
    stage.fleet.install("painter", "1.1.0", &broken).await.unwrap();
    let starting = stage.until_state("1.1.0", "starting").await;
    assert_eq!(stage.bundles(), 3, "{starting}");
    eventually("the reason", || async {
        let found = stage.version("1.1.0").await.unwrap_or_default();
        let reason = found["tools"][0]["reason"].as_str().unwrap_or_default().to_owned();
        if reason.contains("no brush") { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    stage.paints().await;
    stage.until_state("1.0.0", "outgoing").await;

    // A newer version mends it; the files of both earlier ones go once it serves.
    let whole = json!({"brush": {"command": stage.brush.command()}});
    stage.fleet.install("painter", "1.2.0", &whole).await.unwrap();
    stage.until_state("1.2.0", "serving").await;
    eventually("the files of earlier versions to go", || async {
        if stage.bundles() == 2 { Ok(()) } else { Err(stage.bundles()) }
    })
    .await;
    stage.paints().await;
    assert_eq!(stage.team.running(), greeter, "the other plugin's tool was not touched");
    stage.brush.observe(&[PAINT.to_owned()].into()).unwrap();
}

#[tokio::test]
async fn a_kind_that_the_edge_does_not_run_is_stopped_at_once_and_runs_again_when_it_may() {
    let stage = Stage::set().await;
    stage.fleet.cli(&["edge", "set", EDGE, "--forbid-kinds", "command"]).await.unwrap();
    let sentence = &stage.fleet.refused("brush.paint", "kind_off").await[0];
    assert!(sentence.contains("edge eu-1 does not run command tools"), "{sentence}");
    eventually("its end", || async {
        let left = stage.brush.running();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    stage.fleet.cli(&["edge", "set", EDGE, "--forbid-kinds", "none"]).await.unwrap();
    stage.fleet.callable("brush.paint", json!({})).await;
    let events = stage.fleet.cli_json(&["audit", "list"]).await.unwrap().to_string();
    assert!(events.contains("edge.policy.set"), "{events}");
    stage.brush.observe(&[PAINT.to_owned()].into()).unwrap();
}
