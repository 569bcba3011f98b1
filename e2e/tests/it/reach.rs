//! Nodes out of reach of the control plane: freshness, strict edges, offline leases.

use e2e::eventually;
use e2e::fleet::{EDGE, Fleet};
use e2e::mutable::Mutable;
use serde_json::json;

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;

async fn stage(policy: &[&str]) -> (Fleet, Mutable) {
    let fleet = Fleet::start(1).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    set(&fleet, policy).await;
    (fleet, team)
}

/// Sets the policy and waits until the node has it durably.
async fn set(fleet: &Fleet, policy: &[&str]) {
    if policy.is_empty() {
        return;
    }
    fleet.cli(&[&["edge", "set", EDGE], policy].concat()).await.unwrap();
    eventually("the policy to be acknowledged", || async {
        let parts = fleet.get("/edges/eu-1/parts").await?;
        let policy = &parts["policy"];
        if policy["acknowledged"] == 1 && policy["waiting"] == json!([]) {
            Ok(())
        } else {
            anyhow::bail!("{policy}")
        }
    })
    .await;
}

#[tokio::test]
async fn an_offline_lease_lets_a_restarted_node_serve_what_it_stored_and_is_shown() {
    let (mut fleet, team) = stage(&["--offline-lease", "24h"]).await;
    let shown = fleet.cli(&["edge", "show", EDGE]).await.unwrap();
    assert!(shown.contains("offline lease") && shown.contains("1day"), "{shown}");
    fleet.kill_server().await.unwrap();
    fleet.kill_node(0).await.unwrap();
    fleet.restart_node(0).await.unwrap();
    fleet.callable("team.hello", json!({})).await;

    // What is refused is refused under a lease too.
    team.list(&[&HELLO.replace("hello.", "bye.")]).unwrap();
    fleet.refused("team.hello", "drifted").await;
    team.list(&[HELLO]).unwrap();
    fleet.callable("team.hello", json!({})).await;

    fleet.start_server().await.unwrap();
    fleet.cli(&["unassign", "greeter", "--edge", EDGE]).await.unwrap();
    fleet.refused("team.hello", "unassigned").await;
    team.observe(&[HELLO.to_owned()].into()).unwrap();
}

#[tokio::test]
async fn a_lease_ends_and_without_one_nothing_stored_is_gone_by() {
    let (mut fleet, team) = stage(&["--offline-lease", "10s"]).await;
    fleet.kill_server().await.unwrap();
    fleet.kill_node(0).await.unwrap();
    fleet.restart_node(0).await.unwrap();
    let sentence = &fleet.refused("team.hello", "no_plugin_set").await[0];
    assert!(sentence.contains("waits for edge eu-1's plugin set"), "{sentence}");
    fleet.start_server().await.unwrap();
    fleet.callable("team.hello", json!({})).await;

    set(&fleet, &["--offline-lease", "off"]).await;
    fleet.kill_server().await.unwrap();
    fleet.kill_node(0).await.unwrap();
    fleet.restart_node(0).await.unwrap();
    let reached = team.calls("hello");
    let refused = fleet.mcp(0).call("team.hello", json!({})).await.unwrap();
    assert_eq!(refused.refusal.as_deref(), Some("no_plugin_set"), "{refused:?}");
    assert_eq!(team.calls("hello"), reached);
}

#[tokio::test]
async fn a_node_of_a_strict_edge_refuses_once_its_set_is_stale_and_serves_again_with_contact() {
    let (mut fleet, team) = stage(&["--fresh-for", "4s", "--strict"]).await;
    fleet.kill_server().await.unwrap();
    let sentence = &fleet.refused("team.hello", "set_stale").await[0];
    assert!(sentence.contains("edge eu-1 is strict"), "{sentence}");
    let (_, command) = sentence.split_once("with: pintle ").unwrap();
    fleet.start_server().await.unwrap();
    fleet.callable("team.hello", json!({})).await;

    // The remedy that the sentence names; then a stale node says so and goes on.
    let words: Vec<&str> = command.split_whitespace().collect();
    set(&fleet, &words[3..]).await;
    fleet.kill_server().await.unwrap();
    eventually("the node to say that it is stale", || async {
        let log = std::fs::read_to_string(fleet.folder().join("node-1.log"))?;
        let said = log.lines().any(|line| line.contains("is stale") && line.contains("refuses=false"));
        if said { Ok(()) } else { anyhow::bail!("{log}") }
    })
    .await;
    let outcome = fleet.mcp(0).call("team.hello", json!({})).await.unwrap();
    assert_eq!(outcome.refusal, None, "{outcome:?}");
    team.observe(&[HELLO.to_owned()].into()).unwrap();
}
