//! A node that is told to stop.

use e2e::eventually;
use e2e::fleet::Fleet;
use e2e::mutable::Mutable;
use serde_json::json;

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;

#[tokio::test]
async fn a_node_that_is_told_to_stop_takes_no_more_calls_finishes_those_under_way_and_leaves_in_order() {
    let mut fleet = Fleet::start(1).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    team.tell(&json!({"entries": [HELLO], "slow_call_ms": 2_000, "silent": true})).unwrap();
    let before = team.calls("hello");
    let node = fleet.mcp(0).clone();
    let under_way = tokio::spawn(async move { node.call("team.hello", json!({"name": "Ada"})).await });
    eventually("the call to reach the tool", || async {
        if team.calls("hello") > before { Ok(()) } else { Err("not yet") }
    })
    .await;
    let pids = team.running();
    let other = fleet.mcp(0).clone();
    fleet.drain_node(0).await.unwrap();
    let finished = under_way.await.unwrap().unwrap();
    assert_eq!(finished.text, r#"hello({"name": "Ada"})"#);
    assert!(other.call("team.hello", json!({})).await.is_err(), "nobody listens any more");
    assert!(!pids.is_empty() && team.running().is_empty(), "{pids:?}");
    eventually("the control plane to see it gone", || async {
        let node = fleet.get("/nodes/node-1").await?;
        if node["connected"] == false { Ok(()) } else { anyhow::bail!("{node}") }
    })
    .await;
    fleet.restart_node(0).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    team.observe(&[HELLO.to_owned()].into()).unwrap();
}
