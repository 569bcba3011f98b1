//! The link between a server and its `PostgreSQL` stalls, is lost, is cut.

use std::time::Duration;

use e2e::eventually;
use e2e::fleet::{Fleet, Plan};
use e2e::postgres::Postgres;
use e2e::proxy::Proxy;
use serde_json::json;

use crate::stage::{BYE, approve, current, drift, hello, install_greeter, waiting};

#[tokio::test]
async fn a_server_whose_database_link_is_cut_stalled_and_lost_serves_on_and_loses_nothing() {
    let postgres = Postgres::start().await.unwrap();
    let proxy = Proxy::start().await.unwrap();
    proxy.point_to(&[&postgres.address()]).unwrap();
    let database = Some(postgres.url(&proxy.address().to_string()));
    let fleet = Fleet::start_as(Plan { database, nodes: 2, ..Plan::default() }).await.unwrap();
    let team = install_greeter(&fleet).await;
    let api = fleet.api(0).unwrap();

    // Cut: connections are made anew, at once.
    let body = drift(&fleet, &team, 1).await;
    proxy.cut();
    eventually("the approval over a new connection", || approve_once(&api, &body, 1)).await;
    fleet.callable("team.hello", json!({})).await;

    // Stalled: what was asked waits, calls go on, and it is done when the link is healed.
    let body = drift(&fleet, &team, 2).await;
    proxy.stall();
    let asked = tokio::spawn({
        let (api, body) = (api.clone(), body.clone());
        async move { approve(&api, &body).await }
    });
    let bye = fleet.mcp(0).call("team.bye", json!({})).await.unwrap();
    assert_eq!(bye.refusal, None, "calls need no database");
    proxy.heal();
    asked.await.unwrap().unwrap();
    fleet.callable("team.hello", json!({})).await;

    // Lost: every connection is dead and nobody says so.
    let body = drift(&fleet, &team, 3).await;
    proxy.lose();
    eventually("the approval over a new connection", || approve_once(&api, &body, 3)).await;
    fleet.callable("team.hello", json!({})).await;

    // Slow.
    let body = drift(&fleet, &team, 4).await;
    proxy.delay(Duration::from_millis(30));
    approve(&api, &body).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    proxy.heal();

    current(&api, 2).await;
    fleet.cli(&["audit", "verify"]).await.unwrap();
    team.observe(&[hello(0), hello(1), hello(2), hello(3), hello(4), BYE.to_owned()].into()).unwrap();
}

/// Approves, unless an earlier try of it was done although its answer did not arrive.
async fn approve_once(api: &e2e::api::Api, body: &serde_json::Value, form: usize) -> anyhow::Result<()> {
    let Err(error) = approve(api, body).await else { return Ok(()) };
    let changes = api.get("/plugins/greeter/changes").await?;
    if waiting(api, form).await.is_err() && changes["changes"] == json!([]) {
        return Ok(());
    }
    Err(error)
}
