//! A disk without space: of the server, of a node. What was good stays, the error names it, and all goes on
//! when there is space again.

use anyhow::ensure;
use e2e::eventually;
use e2e::fleet::{EDGE, Fleet, Plan};
use e2e::mutable::Mutable;
use serde_json::json;

use crate::stage::{BYE, approve, current, drift, hello, install_greeter, serving, standing};

/// Space of the small disk: many times what the tests need of it.
const SPACE: u64 = 24 * 1024 * 1024;

/// Enough for the parts of the plugin set, too little for a version.
const PARTS: u64 = 40 * 1024;

#[tokio::test]
async fn a_server_whose_disk_is_full_says_so_loses_nothing_and_goes_on_with_space() {
    let plan = Plan { nodes: 1, small: Some(("control", SPACE)), ..Plan::default() };
    let mut fleet = Fleet::start_as(plan).await.unwrap();
    let team = install_greeter(&fleet).await;
    let api = fleet.api(0).unwrap();
    let body = drift(&fleet, &team, 1).await;
    let tools = json!({"team": {"command": team.command()}});
    let folder = fleet.write_plugin("greeter", "2.0.0", &tools).unwrap();
    std::fs::write(folder.join("ballast"), vec![b'x'; 64 * 1024]).unwrap();
    let folder = folder.to_string_lossy().into_owned();

    fleet.disk().fill().unwrap();
    let (status, answer) = api.post("/plugins/greeter/approve", &body).await.unwrap();
    assert_eq!((status, &answer["code"]), (507, &json!("disk_full")), "{answer}");
    let detail = answer["detail"].as_str().unwrap();
    assert!(detail.contains("database") && detail.contains("nothing was changed"), "{detail}");
    let output = fleet.cli_output(&["plugin", "push", &folder]).await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("disk is full") && text.contains("blobs"), "{text}");
    // Reading and calling go on.
    assert_eq!(api.get("/status").await.unwrap()["nodes"]["connected"], 1);
    assert_eq!(fleet.mcp(0).call("team.bye", json!({})).await.unwrap().refusal, None);
    let refused = fleet.mcp(0).call("team.hello", json!({})).await.unwrap();
    assert_eq!(refused.refusal.as_deref(), Some("drifted"), "nothing was approved");

    fleet.disk().free().unwrap();
    eventually("the approval", || approve(&api, &body)).await;
    fleet.callable("team.hello", json!({})).await;
    fleet.cli(&["plugin", "push", &folder]).await.unwrap();
    fleet.cli(&["assign", "greeter@2.0.0", "--edge", EDGE]).await.unwrap();
    serving(&api, "node-1", "greeter@2.0.0").await;

    // Killed without space, it comes back once there is some.
    fleet.disk().fill().unwrap();
    fleet.kill_server().await.unwrap();
    fleet.disk().free().unwrap();
    fleet.start_server().await.unwrap();
    current(&fleet.api(0).unwrap(), 1).await;
    fleet.cli(&["audit", "verify"]).await.unwrap();
    team.observe(&[hello(0), hello(1), BYE.to_owned()].into()).unwrap();
}

#[tokio::test]
async fn a_node_whose_disk_is_full_keeps_what_runs_says_so_and_installs_with_space() {
    let (mut fleet, team) = small_node().await;
    let api = fleet.api(0).unwrap();
    let folder =
        fleet.write_plugin("greeter", "2.0.0", &json!({"team": {"command": team.command()}})).unwrap();
    std::fs::write(folder.join("ballast"), vec![b'x'; 64 * 1024]).unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();
    fleet.disk().fill_but(PARTS).unwrap();
    fleet.cli(&["assign", "greeter@2.0.0", "--edge", EDGE]).await.unwrap();
    eventually("the node to say why it does not install it", || async {
        let one = standing(&api, "node-1", "greeter@2.0.0").await?;
        ensure!(one["reason"].as_str().is_some_and(|reason| reason.contains("are free")), "{one}");
        Ok(())
    })
    .await;
    fleet.callable("team.hello", json!({})).await;
    assert_eq!(standing(&api, "node-1", "greeter@1.0.0").await.unwrap()["state"], "outgoing");

    // Killed and started without space, it goes on as any node does whose update is pending.
    fleet.disk().fill().unwrap();
    fleet.kill_node(0).await.unwrap();
    fleet.restart_node(0).await.unwrap();
    fleet.refused("team.hello", "installing").await;
    fleet.disk().free().unwrap();
    serving(&api, "node-1", "greeter@2.0.0").await;
    fleet.callable("team.hello", json!({})).await;
    team.observe(&[hello(0), BYE.to_owned()].into()).unwrap();
}

/// A fleet whose one node has little space, and the tool that it runs.
async fn small_node() -> (Fleet, Mutable) {
    let plan = Plan { nodes: 1, small: Some(("node-1", SPACE)), ..Plan::default() };
    let fleet = Fleet::start_as(plan).await.unwrap();
    let team = install_greeter(&fleet).await;
    (fleet, team)
}

#[tokio::test]
async fn what_a_node_cannot_make_durable_it_does_not_go_by_until_it_can() {
    let (fleet, team) = small_node().await;
    let api = fleet.api(0).unwrap();
    let body = drift(&fleet, &team, 1).await;
    fleet.disk().fill().unwrap();
    approve(&api, &body).await.unwrap();
    eventually("the node to say so", || async {
        let log = fleet.node_log(0);
        ensure!(log.contains("cannot be made durable"), "{log}");
        Ok(())
    })
    .await;
    let refused = fleet.mcp(0).call("team.hello", json!({})).await.unwrap();
    assert_eq!(refused.refusal.as_deref(), Some("drifted"), "{refused:?}");
    assert_eq!(fleet.mcp(0).call("team.bye", json!({})).await.unwrap().refusal, None);
    let parts = api.get(&format!("/edges/{EDGE}/parts")).await.unwrap();
    assert_eq!(parts["trust"]["waiting"], json!(["node-1"]), "{parts}");
    fleet.disk().free().unwrap();
    fleet.callable("team.hello", json!({})).await;
    current(&api, 1).await;
    team.observe(&[hello(0), hello(1), BYE.to_owned()].into()).unwrap();
}
