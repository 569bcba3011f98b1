//! All nodes come and go, and the server is as it was.

use e2e::fleet::Fleet;
use e2e::{eventually, kernel};

use crate::stage::{current, install_greeter};

/// How often all nodes are started again.
const CHURNS: usize = 10;

/// Bytes by which the server may have grown between the second churn and the last: what an allocator keeps.
/// A stream that is not let go takes 40 kB and more at each churn and node, a leaked one of each churn's would
/// be seen by its descriptors first.
const GROWTH: u64 = 6 * 1024 * 1024;

/// Descriptors that come and go by themselves: one request of this test may be kept open or not, and of the store's
/// four readers, two files each, at most three are opened only later. A leak at each restart would be twenty-four.
const SPARE: usize = 1 + 3 * 2;

#[tokio::test]
async fn ten_restarts_of_all_nodes_leave_no_descriptor_memory_or_process_behind() {
    let nodes = 3;
    let mut fleet = Fleet::start(nodes).await.unwrap();
    let team = install_greeter(&fleet).await;
    let api = fleet.api(0).unwrap();
    let server = fleet.server_id().unwrap();
    let mut first = None;
    for churn in 1..=CHURNS {
        for index in 0..nodes {
            // Half of them are killed, the others told to stop.
            if (churn + index) % 2 == 0 {
                fleet.kill_node(index).await.unwrap();
            } else {
                fleet.drain_node(index).await.unwrap();
            }
        }
        for index in 0..nodes {
            fleet.restart_node(index).await.unwrap();
        }
        fleet.callable("team.hello", serde_json::json!({})).await;
        if churn == 2 {
            current(&api, nodes).await;
            first = Some((kernel::open_files(server).unwrap(), kernel::resident_bytes(server).unwrap()));
        }
    }
    let (files, memory) = first.unwrap();
    current(&api, nodes).await;
    eventually("the server to have as many descriptors as before", || async {
        let now = kernel::open_files(server)?;
        anyhow::ensure!(now <= files + SPARE, "{now} descriptors, {files} before");
        Ok(())
    })
    .await;
    let grown = kernel::resident_bytes(server).unwrap().saturating_sub(memory);
    assert!(grown < GROWTH, "the server grew by {grown} bytes");
    eventually("one process of the tool for each node", || async {
        let running = team.running();
        anyhow::ensure!(running.len() == nodes, "{running:?}");
        Ok(())
    })
    .await;
    let ours = fleet.node_ids();
    for tool in team.running() {
        assert!(kernel::descends_from(tool, &ours), "{tool} is no node's");
    }
}
