//! The server is killed and started again: how long until every node holds what the fleet goes by, and
//! what the nodes that were current cost.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use tokio::sync::watch;

use super::crowd::Crowd;
use super::figures::{self, millis, per, processor_time, quantile, resident_bytes};
use super::sim;

/// Flags of `bench storm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Simulated nodes, all of one edge.
    #[arg(long, default_value_t = 1_000)]
    nodes: usize,
    /// How often the server is killed.
    #[arg(long, default_value_t = 3)]
    kills: usize,
    /// Functions of the plugin that they hold.
    #[arg(long, default_value_t = 50)]
    functions: usize,
}

/// Runs it and prints the figures.
pub(crate) async fn run(options: &Options, json: bool) -> Result<()> {
    let mut crowd = Crowd::join(options.nodes, 1).await?;
    let (_listing, listings) = watch::channel(sim::listing(options.functions, 0));
    crowd.connect(Some(listings)).await?;
    crowd.settled(0).await?;
    let mut rows = Vec::new();
    for kill in 1..=options.kills {
        crowd.fleet.kill_server().await?;
        while crowd.inbox.try_recv().is_ok() {}
        let begin = Instant::now();
        crowd.fleet.start_server().await?;
        let ready = begin.elapsed();
        crowd.server = crowd.fleet.server_id().unwrap_or_default();
        let (times, mut bytes) = crowd.all_current(begin).await?;
        bytes.sort_unstable();
        rows.push(json!({
            "kill": kill,
            "listens_ms": millis(ready),
            "p50_ms": millis(quantile(&times, 0.5)),
            "p99_ms": millis(quantile(&times, 0.99)),
            "all_ms": millis(quantile(&times, 1.0)),
            "bytes_p50": bytes.get(bytes.len() / 2),
            "bytes_most": bytes.last(),
            "server_cpu_us_per_node": per(
                u64::try_from(processor_time(crowd.server).unwrap_or_default().as_micros())? * 1_024,
                options.nodes,
            ),
            "server_kib_per_node": per(resident_bytes(crowd.server).unwrap_or_default(), options.nodes),
        }));
    }
    let result = json!({
        "benchmark": "storm", "machine": figures::machine(), "nodes": options.nodes,
        "joined_s": crowd.joined_after.as_secs_f64(), "rows": rows,
    });
    if json {
        figures::print(&serde_json::to_string_pretty(&result)?);
        return Ok(());
    }
    figures::print(&format!(
        "{} nodes; the server is killed, started again at once, and they come back",
        options.nodes
    ));
    let columns = [
        "kill",
        "listens_ms",
        "p50_ms",
        "p99_ms",
        "all_ms",
        "bytes_p50",
        "bytes_most",
        "server_cpu_us_per_node",
        "server_kib_per_node",
    ];
    figures::print_table(&columns, &rows);
    Ok(())
}
