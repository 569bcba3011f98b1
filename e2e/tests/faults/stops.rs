//! A server or a node stands still for a while, as a machine does that is suspended or swaps.

use e2e::fleet::Fleet;
use e2e::{eventually, kernel};
use serde_json::json;

use crate::stage::{BYE, approve, current, drift, hello, install_greeter, list, waiting};

#[tokio::test]
async fn a_node_that_stood_still_is_given_up_and_comes_back_current() {
    let fleet = Fleet::start(2).await.unwrap();
    let team = install_greeter(&fleet).await;
    let api = fleet.api(0).unwrap();
    let body = drift(&fleet, &team, 1).await;
    let node = fleet.node_id(0).unwrap();
    kernel::pause(node).unwrap();
    approve(&api, &body).await.unwrap();
    let other = fleet.mcp(1).clone();
    eventually("the other node to call it again", || async {
        let outcome = other.call("team.hello", json!({})).await?;
        anyhow::ensure!(outcome.refusal.is_none(), "{outcome:?}");
        Ok(())
    })
    .await;
    // What it does not acknowledge, nor answer for, ends its stream.
    eventually("the control plane to give the node up", || async {
        let node = api.get("/nodes/node-1").await?;
        anyhow::ensure!(node["connected"] == false, "{node}");
        Ok(())
    })
    .await;
    // Its tool changes meanwhile to what nobody approved.
    list(&team, 2);
    eventually("the other node to see that", || waiting(&api, 2)).await;
    kernel::resume(node).unwrap();
    fleet.refused("team.hello", "drifted").await;
    let body = eventually("the change to wait for a person", || waiting(&api, 2)).await;
    approve(&api, &body).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    current(&api, 2).await;
    team.observe(&[hello(0), hello(1), hello(2), BYE.to_owned()].into()).unwrap();
}

#[tokio::test]
async fn a_server_that_stood_still_is_given_up_and_goes_on_where_it_was() {
    let fleet = Fleet::start(1).await.unwrap();
    let team = install_greeter(&fleet).await;
    let api = fleet.api(0).unwrap();
    drift(&fleet, &team, 1).await;
    let server = fleet.server_id().unwrap();
    kernel::pause(server).unwrap();
    eventually("the node to give the server up", || async {
        let bye = fleet.mcp(0).call("team.bye", json!({})).await?;
        assert_eq!(bye.refusal, None, "calls need no control plane");
        let log = fleet.node_log(0);
        if log.contains("fell silent") { Ok(()) } else { anyhow::bail!("{log}") }
    })
    .await;
    // While it stands still the tool changes once more.
    list(&team, 2);
    kernel::resume(server).unwrap();
    let body = eventually("the change to wait for a person", || waiting(&api, 2)).await;
    approve(&api, &body).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    current(&api, 1).await;
    team.observe(&[hello(0), hello(2), BYE.to_owned()].into()).unwrap();
    fleet.cli(&["audit", "verify"]).await.unwrap();
}
