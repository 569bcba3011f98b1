//! What a fleet costs that does nothing: database writes, processor time and memory.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use e2e::fleet::Fleet;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::crowd::Crowd;
use super::figures::{self, per, processor_time, resident_bytes};
use super::sim;

/// Flags of `bench idle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Simulated nodes, all of one edge.
    #[arg(long, default_value_t = 1_000)]
    nodes: usize,
    /// How long it is looked at, in seconds: two batches of "last seen" and more.
    #[arg(long, default_value_t = 130)]
    seconds: u64,
    /// How often all nodes go and come back, to see whether memory grows.
    #[arg(long, default_value_t = 10)]
    churns: usize,
    /// Functions of the plugin that they hold.
    #[arg(long, default_value_t = 50)]
    functions: usize,
}

/// Runs it and prints the figures.
pub(crate) async fn run(options: &Options, json: bool) -> Result<()> {
    let mut crowd = Crowd::join(options.nodes, 1).await?;
    let server = crowd.server;
    let before = resident_bytes(server).unwrap_or_default();
    let (_listing, listings) = watch::channel(sim::listing(options.functions, 0));
    crowd.connect(Some(listings.clone())).await?;
    crowd.settled(0).await?;
    let connected = resident_bytes(server).unwrap_or_default().saturating_sub(before);

    let (begin, writes) = (Instant::now(), written(&crowd.fleet).await?);
    let (processor, disk) = (processor_time(server).unwrap_or_default(), disk_bytes(server));
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    let span = begin.elapsed().as_secs_f64();
    let writes = written(&crowd.fleet).await?.saturating_sub(writes);
    let processor = processor_time(server).unwrap_or_default().saturating_sub(processor);
    let disk = disk_bytes(server).saturating_sub(disk);
    let idle = resident_bytes(server).unwrap_or_default().saturating_sub(before);

    let mut churned = Vec::new();
    for _ in 0..options.churns {
        crowd.nodes.clear();
        while crowd.inbox.try_recv().is_ok() {}
        crowd.connect(Some(listings.clone())).await?;
        churned.push(per(resident_bytes(server).unwrap_or_default().saturating_sub(before), options.nodes));
    }
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let result = json!({
        "benchmark": "idle", "machine": figures::machine(), "nodes": options.nodes, "seconds": span,
        "database_writes_per_s": (writes as f64 / span * 100.0).round() / 100.0,
        "disk_bytes_per_s": (disk as f64 / span).round(),
        "server_cpu_percent": (processor.as_secs_f64() / span * 1_000.0).round() / 10.0,
        "server_kib_per_node_connected": per(connected, options.nodes),
        "server_kib_per_node_idle": per(idle, options.nodes),
        "server_kib_per_node_after_churns": churned,
    });
    if json {
        figures::print(&serde_json::to_string_pretty(&result)?);
        return Ok(());
    }
    for key in [
        "database_writes_per_s",
        "disk_bytes_per_s",
        "server_cpu_percent",
        "server_kib_per_node_connected",
        "server_kib_per_node_idle",
        "server_kib_per_node_after_churns",
    ] {
        figures::print(&format!("{key:>34}  {}", result.get(key).unwrap_or(&Value::Null)));
    }
    Ok(())
}

/// Transactions that the server wrote since it started.
async fn written(fleet: &Fleet) -> Result<u64> {
    let status = fleet.get("/status").await?;
    status.pointer("/database/writes").and_then(Value::as_u64).context("failed to read the writes")
}

/// Bytes that a process caused to be written to the disk.
fn disk_bytes(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or_default()
}
