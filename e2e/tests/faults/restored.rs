//! Several servers whose `PostgreSQL` is put back to an older copy under them, as by a restored backup or by a
//! standby that lagged behind when it took over.

use e2e::eventually;
use e2e::fleet::{Fleet, Plan};
use e2e::postgres::Postgres;
use e2e::proxy::Proxy;
use serde_json::{Value, json};

use crate::stage::{BYE, approve, drift, hello, install_greeter};

const NODES: usize = 2;

/// R0: nothing goes back in silence, whichever server is asked, and no server has to be started again.
#[tokio::test]
async fn servers_notice_that_their_database_was_put_back_and_what_it_lost_is_listed_and_adopted() {
    let mut postgres = Postgres::start().await.unwrap();
    let proxy = Proxy::start().await.unwrap();
    let database = Some(postgres.url(&postgres.address()));
    let plan = Plan { database, node_address: Some(proxy.address()), ..Plan::default() };
    let mut fleet = Fleet::start_as(plan).await.unwrap();
    fleet.add_replica().await.unwrap();
    proxy.point_to(&fleet.node_ports()).unwrap();
    for number in 1..=NODES {
        fleet.add_node(&format!("node-{number}")).await.unwrap();
    }
    let team = install_greeter(&fleet).await;

    // A copy, and after it a change and its approval; then the copy is put back.
    postgres.copy_aside().await.unwrap();
    let body = eventually("the database to be back", || async {
        fleet.api(0)?.get("/status").await?;
        anyhow::Ok(drift(&fleet, &team, 1).await)
    })
    .await;
    approve(&fleet.api(1).unwrap(), &body).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    postgres.put_back().await.unwrap();

    let orphan = eventually("the lost approval to be listed", || async {
        // It exits with another code than 0, since there is something to do.
        let doctor = fleet.cli_output(&["doctor", "--json"]).await?;
        let doctor: Value = serde_json::from_slice(&doctor.stdout)?;
        let orphans = doctor["orphans"].as_array().cloned().unwrap_or_default();
        anyhow::ensure!(orphans.len() == 1 && doctor["status"]["fleet"]["epoch"] == 2, "{doctor}");
        Ok(orphans[0]["id"].as_str().unwrap_or_default().to_owned())
    })
    .await;
    let audit = fleet.get("/audit?name=fleet.store.rewound").await.unwrap();
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "noticed once, by whichever server: {audit}");
    fleet.refused("team.hello", "drifted").await;

    fleet.cli(&["doctor", "--adopt", &orphan, "--yes"]).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    // Both servers go by the new epoch: what is approved at one is in force at all nodes.
    let body = drift(&fleet, &team, 2).await;
    approve(&fleet.api(1).unwrap(), &body).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    fleet.cli(&["audit", "verify"]).await.unwrap();
    team.observe(&[hello(0), hello(1), hello(2), BYE.to_owned()].into()).unwrap();
}
