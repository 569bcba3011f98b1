//! The link between a node and the control plane stalls, is lost, is cut, is slow.

use std::time::{Duration, Instant};

use e2e::eventually;
use e2e::fleet::{EDGE, Fleet, Plan};
use e2e::proxy::Proxy;
use e2e::random::Random;
use serde_json::json;

use crate::stage::{BYE, approve, drift, hello, install_greeter, serving};

/// What an approval over a half-open link may cost by design is 8 s; the rest is for a machine that is busy
/// with other tests.
const HALF_OPEN: Duration = Duration::from_secs(20);

/// A fleet whose one node reaches the control plane through a proxy.
async fn behind_proxy() -> (Fleet, Proxy) {
    let proxy = Proxy::start().await.unwrap();
    let plan = Plan { node_address: Some(proxy.address()), ..Plan::default() };
    let mut fleet = Fleet::start_as(plan).await.unwrap();
    proxy.point_to(&[fleet.node_port()]).unwrap();
    fleet.add_node("node-1").await.unwrap();
    (fleet, proxy)
}

#[tokio::test]
async fn an_approval_over_a_half_open_link_arrives_by_a_new_one() {
    let (fleet, proxy) = behind_proxy().await;
    let team = install_greeter(&fleet).await;
    let body = drift(&fleet, &team, 1).await;
    let connections = proxy.connections();
    proxy.lose();
    let begin = Instant::now();
    approve(&fleet.api(0).unwrap(), &body).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    assert!(proxy.connections() > connections, "over the lost link nothing can have come");
    assert!(begin.elapsed() < HALF_OPEN, "it took {:?}", begin.elapsed());
    team.observe(&[hello(0), hello(1), BYE.to_owned()].into()).unwrap();
}

#[tokio::test]
async fn an_approval_that_a_stalled_link_holds_back_arrives_when_it_is_healed() {
    let (fleet, proxy) = behind_proxy().await;
    let team = install_greeter(&fleet).await;
    let api = fleet.api(0).unwrap();
    let body = drift(&fleet, &team, 1).await;
    proxy.stall();
    approve(&api, &body).await.unwrap();
    let outcome = fleet.mcp(0).call("team.hello", json!({})).await.unwrap();
    assert_eq!(outcome.refusal.as_deref(), Some("drifted"), "nothing passes: {outcome:?}");
    let bye = fleet.mcp(0).call("team.bye", json!({})).await.unwrap();
    assert_eq!(bye.refusal, None, "calls need no control plane");
    proxy.heal();
    fleet.callable("team.hello", json!({})).await;

    // So long that both ends give the connection up, and new ones stall as well.
    let body = drift(&fleet, &team, 2).await;
    proxy.stall();
    approve(&api, &body).await.unwrap();
    eventually("the node to give the link up", || async {
        let log = fleet.node_log(0);
        if log.contains("fell silent") { Ok(()) } else { anyhow::bail!("{log}") }
    })
    .await;
    proxy.heal();
    fleet.callable("team.hello", json!({})).await;
    team.observe(&[hello(0), hello(1), hello(2), BYE.to_owned()].into()).unwrap();
}

#[tokio::test]
async fn a_download_that_is_cut_goes_on_from_where_it_was() {
    let (fleet, proxy) = behind_proxy().await;
    let team = install_greeter(&fleet).await;
    let tools = json!({"team": {"command": team.command()}});
    let folder = fleet.write_plugin("greeter", "2.0.0", &tools).unwrap();
    let (seed, size) = (7, 4 * 1024 * 1024);
    std::fs::write(folder.join("ballast"), noise(seed, size)).unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();

    // Slow enough that it is under way when it is cut, in the middle, and once more near its end.
    proxy.throttle(4 * size as u64);
    let before = proxy.carried();
    proxy.cut_after(size as u64 / 2);
    fleet.cli(&["assign", "greeter@2.0.0", "--edge", EDGE]).await.unwrap();
    eventually("the link to be cut", || async {
        if proxy.carried() - before >= size as u64 / 2 { Ok(()) } else { Err("not yet") }
    })
    .await;
    proxy.cut_after(size as u64 / 3);
    serving(&fleet.api(0).unwrap(), "node-1", "greeter@2.0.0").await;
    let carried = proxy.carried() - before;
    assert!(carried < size as u64 * 5 / 4, "{carried} bytes came for {size}: it began anew");
    fleet.callable("team.hello", json!({})).await;
}

#[tokio::test]
async fn over_a_slow_link_everything_only_takes_longer() {
    let (fleet, proxy) = behind_proxy().await;
    proxy.delay(Duration::from_millis(300));
    proxy.throttle(64 * 1024);
    let team = install_greeter(&fleet).await;
    let body = drift(&fleet, &team, 1).await;
    approve(&fleet.api(0).unwrap(), &body).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    team.observe(&[hello(0), hello(1), BYE.to_owned()].into()).unwrap();
}

/// Bytes that nothing makes smaller.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..size / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}
