//! Three servers on one `PostgreSQL`: started again one after the other, and one of them killed, under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use e2e::eventually;
use e2e::fleet::{Fleet, Plan};
use e2e::mcp::Endpoint;
use e2e::postgres::Postgres;
use e2e::proxy::Proxy;
use serde_json::json;

use crate::stage::{BYE, approve, drift, hello, install_greeter, serving};

const SERVERS: usize = 3;
const NODES: usize = 3;

/// Calls of one function at every node, one after the other, until it is told to stop. None may fail.
struct Calls {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Calls {
    fn start(fleet: &Fleet) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let tasks = fleet.nodes().iter().map(|node| {
            let calling = call_until(node.mcp.clone(), Arc::clone(&stop), Arc::clone(&done));
            tokio::spawn(calling)
        });
        let tasks = tasks.collect();
        Self { stop, done, tasks }
    }

    /// How many succeeded; all did.
    async fn end(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.done.load(Ordering::SeqCst)
    }
}

async fn call_until(endpoint: Endpoint, stop: Arc<AtomicBool>, done: Arc<AtomicUsize>) {
    while !stop.load(Ordering::SeqCst) {
        let outcome = endpoint.call("team.bye", json!({})).await.expect("every call is answered");
        assert!(outcome.refusal.is_none() && !outcome.is_error, "a call failed: {outcome:?}");
        done.fetch_add(1, Ordering::SeqCst);
        // The machine has other things to do as well.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn three_replicas_are_restarted_in_turn_and_one_is_killed_without_one_failed_call() {
    let postgres = Postgres::start().await.unwrap();
    let proxy = Proxy::start().await.unwrap();
    let database = Some(postgres.url(&postgres.address()));
    let plan = Plan { database, node_address: Some(proxy.address()), ..Plan::default() };
    let mut fleet = Fleet::start_as(plan).await.unwrap();
    for _ in 1..SERVERS {
        fleet.add_replica().await.unwrap();
    }
    proxy.point_to(&fleet.node_ports()).unwrap();
    for number in 1..=NODES {
        fleet.add_node(&format!("node-{number}")).await.unwrap();
    }
    let team = install_greeter(&fleet).await;
    let calls = Calls::start(&fleet);

    let mut approved = vec![hello(0), BYE.to_owned()];
    for round in 0..2 * SERVERS {
        let form = round + 1;
        let (server, other) = (round % SERVERS, (round + 1) % SERVERS);
        let body = drift(&fleet, &team, form).await;
        // In the first round each is told to stop, in the second each is killed.
        if round < SERVERS {
            fleet.drain_replica(server).await.unwrap();
        } else {
            fleet.kill_replica(server).await.unwrap();
        }
        approve(&fleet.api(other).unwrap(), &body).await.unwrap();
        approved.push(hello(form));
        fleet.callable("team.hello", json!({})).await;
        fleet.restart_replica(server).await.unwrap();
    }
    // What one took, all give: a version pushed to one is installed from whichever serves the node.
    let folder =
        fleet.write_plugin("greeter", "2.0.0", &json!({"team": {"command": team.command()}})).unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();
    fleet.cli(&["assign", "greeter@2.0.0", "--edge", e2e::fleet::EDGE]).await.unwrap();
    for number in 1..=NODES {
        serving(&fleet.api(1).unwrap(), &format!("node-{number}"), "greeter@2.0.0").await;
    }
    assert!(calls.end().await > 100, "there was load");
    // Each node is connected to exactly one of them, and all of them know.
    eventually("all servers to see all nodes connected", || async {
        for server in 0..SERVERS {
            let api = fleet.api(server)?;
            let status = api.get("/status").await?;
            anyhow::ensure!(status["nodes"]["connected"] == NODES, "{status}");
            for number in 1..=NODES {
                let node = api.get(&format!("/nodes/node-{number}")).await?;
                anyhow::ensure!(node["connected"] == true, "{node}");
            }
            let trust = api.get(&format!("/edges/{}/parts", e2e::fleet::EDGE)).await?["trust"].clone();
            let seen = trust["connected"].as_u64().zip(trust["elsewhere"].as_u64());
            anyhow::ensure!(seen.is_some_and(|(here, there)| here + there == NODES as u64), "{trust}");
        }
        Ok(())
    })
    .await;
    fleet.cli(&["audit", "verify"]).await.unwrap();
    team.observe(&approved.into_iter().collect()).unwrap();
}
