//! Servers and nodes that end without notice.

use std::process::Command;

use e2e::eventually;
use e2e::fleet::Fleet;
use e2e::mutable::Mutable;
use serde_json::json;

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;

/// A new database on the cluster that `scripts/test` starts.
pub(crate) fn postgres_database() -> String {
    let cluster = std::env::var("PINTLE_TEST_POSTGRES")
        .expect("PINTLE_TEST_POSTGRES names a PostgreSQL cluster: run the tests with scripts/test");
    let name = format!("e2e_{}", uuid::Uuid::new_v4().simple());
    let made =
        Command::new("psql").args([&cluster, "-qc", &format!("create database {name}")]).status().unwrap();
    assert!(made.success());
    let (base, _) = cluster.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

// R3.25 R3.27
#[tokio::test]
async fn a_node_restarted_while_the_server_is_down_calls_nothing_says_why_and_serves_again() {
    let mut fleet = Fleet::start(2).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.callable("team.hello", json!({})).await;

    fleet.kill_server().await.unwrap();
    let running = fleet.mcp(1).call("team.hello", json!({})).await.unwrap();
    assert_eq!(running.refusal, None, "a node that runs goes on while the control plane is away");
    fleet.kill_node(0).await.unwrap();
    fleet.restart_node(0).await.unwrap();
    let reached = team.calls("hello");
    let refused = fleet.mcp(0).call("team.hello", json!({})).await.unwrap();
    assert_eq!(refused.refusal.as_deref(), Some("no_plugin_set"), "{refused:?}");
    assert!(refused.text.contains("waits for edge eu-1's plugin set from 127.0.0.1:"), "{}", refused.text);
    assert_eq!(team.calls("hello"), reached);

    fleet.start_server().await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    team.observe(&[HELLO.to_owned()].into()).unwrap();
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_killed_server() {
    let mut fleet = Fleet::start(1).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    let folder =
        fleet.write_plugin("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();
    fleet.kill_server().await.unwrap();
    fleet.start_server().await.unwrap();
    fleet.cli(&["assign", "greeter@1.0.0", "--edge", "eu-1"]).await.unwrap();
    fleet.kill_server().await.unwrap();
    fleet.start_server().await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    fleet.cli(&["audit", "verify"]).await.unwrap();
}

#[tokio::test]
async fn a_tool_that_crashes_is_started_and_listed_again_before_it_is_called() {
    let fleet = Fleet::start(1).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    let pid = rustix::process::Pid::from_raw(team.running()[0].cast_signed()).unwrap();
    // It says something else after its restart: the node must list it before it calls it.
    team.tell(&json!({"entries": [HELLO.replace("hello.", "nothing.")], "silent": true})).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    eventually("the refusal", || async {
        let outcome = fleet.mcp(0).call("team.hello", json!({})).await?;
        if outcome.refusal.as_deref() == Some("drifted") { Ok(()) } else { anyhow::bail!("{outcome:?}") }
    })
    .await;
    team.observe(&[HELLO.to_owned()].into()).unwrap();
}

// Case C30.
#[tokio::test]
async fn a_killed_node_takes_its_tools_along_with_daemons_that_ignore_term() {
    let mut fleet = Fleet::start(1).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    let (launcher, daemon) = (fleet.folder().join("launch.sh"), fleet.folder().join("daemon"));
    let script = format!(
        "(trap '' TERM; exec setsid sleep 600) </dev/null >/dev/null 2>&1 &\necho $! > '{}'\nexec \"$@\"\n",
        daemon.display()
    );
    std::fs::write(&launcher, script).unwrap();
    let mut command = vec!["bash".to_owned(), launcher.to_string_lossy().into_owned()];
    command.extend(team.command());
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": command}})).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    let daemon: u64 = std::fs::read_to_string(daemon).unwrap().trim().parse().unwrap();
    let pids = [u64::from(team.running()[0]), daemon];
    let runs = |pid: &u64| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
    };
    assert!(pids.iter().all(runs), "{pids:?}");
    fleet.kill_node(0).await.unwrap();
    eventually("their end", || async {
        if pids.iter().any(runs) {
            anyhow::bail!("they run: {pids:?}")
        }
        Ok(())
    })
    .await;
    // A folder that names a node names its endpoint and its tools' words.
    let data = fleet.folder().join(&fleet.nodes()[0].name).to_string_lossy().into_owned();
    fleet.restart_node(0).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    fleet.cli(&["call", "team.hello", "--node-data", &data]).await.unwrap();
    fleet.cli(&["node", "logs", "team", "--node-data", &data]).await.unwrap();
}
