//! From an approval to its acknowledgement by every node of an edge: simulated nodes (real gRPC, real mTLS,
//! real acknowledgements, no tools and no disk) against a real server process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use e2e::fleet::{EDGE, Fleet};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::figures::{machine, processor_time, quantile, resident_bytes};
use super::node::{self, Acked};

/// Flags of `bench push`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Simulated nodes, all of one edge.
    #[arg(long, default_value_t = 1_000)]
    nodes: usize,
    /// Approvals that are measured.
    #[arg(long, default_value_t = 5)]
    approvals: usize,
    /// Functions of the plugin that is approved.
    #[arg(long, default_value_t = 50)]
    functions: usize,
}

/// Nodes that join or connect at a time: the server admits so many, and this process shares its cores.
const AT_ONCE: usize = 32;

/// Longest wait for all nodes.
const WAIT: Duration = Duration::from_mins(2);

struct Round {
    times: Vec<Duration>,
    processor: Duration,
}

/// Runs it and prints the figures.
pub(crate) async fn run(options: &Options, json: bool) -> Result<()> {
    let fleet = Fleet::start(0).await?;
    let folder = fleet.write_plugin("bench", "1.0.0", &json!({"team": {"command": ["/bin/true"]}}))?;
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await?;
    fleet.cli(&["assign", "bench@1.0.0", "--edge", EDGE]).await?;
    let server = fleet.server_id().context("failed to find the server's process")?;
    let before = resident_bytes(server).context("failed to read the server's memory")?;

    let (acked, mut inbox) = mpsc::unbounded_channel::<Acked>();
    let (listing, listings) = watch::channel(node::listing(options.functions, 0));
    let begin = Instant::now();
    let identities = join_all(&fleet, options.nodes).await?;
    let joined_after = begin.elapsed();
    let begin = Instant::now();
    let _nodes: Vec<node::Node> = stream::iter(identities.into_iter().enumerate())
        .map(|(index, identity)| {
            // One node lists for all: what the others list is not what this measures.
            let listings = (index == 0).then(|| listings.clone());
            node::Node::connect(identity, listings, acked.clone())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let connected_after = begin.elapsed();
    let mut generation = settled(&fleet, &mut inbox, options.nodes).await?;
    let memory = resident_bytes(server).unwrap_or_default().saturating_sub(before);

    let mut rounds = Vec::new();
    for round in 1..=options.approvals {
        listing.send(node::listing(options.functions, round))?;
        let body = approval(&fleet).await?;
        let processor = processor_time(server).unwrap_or_default();
        let begin = Instant::now();
        let (status, answer) = fleet.post("/plugins/bench/approve", &body).await?;
        if status != 200 {
            bail!("failed to approve: {status} {answer}");
        }
        let times = acknowledgements(&mut inbox, generation, options.nodes, begin).await?;
        generation += 1;
        let processor = processor_time(server).unwrap_or_default().saturating_sub(processor);
        rounds.push(Round { times, processor });
    }
    let facts = json!({
        "joined_s": joined_after.as_secs_f64(), "connected_s": connected_after.as_secs_f64(),
        "server_bytes": memory,
    });
    report(options, &rounds, &facts, json)
}

async fn join_all(fleet: &Fleet, nodes: usize) -> Result<Vec<Arc<node::Identity>>> {
    let uses = nodes.to_string();
    let token = fleet.cli_json(&["node", "token", "--edge", EDGE, "--uses", &uses, "--ttl", "1h"]).await?;
    let join = token.get("join").and_then(Value::as_str).context("failed to find the join string")?;
    stream::iter(0..nodes)
        .map(|index| node::Identity::join(join, fleet.folder().join(format!("sim-{index}"))))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Waits until every node acknowledged the newest `trust`; its generation.
async fn settled(fleet: &Fleet, inbox: &mut mpsc::UnboundedReceiver<Acked>, nodes: usize) -> Result<u64> {
    let begin = Instant::now();
    loop {
        while inbox.try_recv().is_ok() {}
        let changed = fleet.get("/catalog").await?.to_string().contains("team.f0");
        let parts = fleet.get(&format!("/edges/{EDGE}/parts")).await?;
        let number =
            |key: &str| parts.pointer(&format!("/trust/{key}")).and_then(Value::as_u64).unwrap_or_default();
        if changed && number("acknowledged") == nodes as u64 {
            return Ok(number("generation"));
        }
        if begin.elapsed() > WAIT {
            bail!("failed to have {nodes} nodes settle: {parts}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for the open change, and makes the approval of all of it.
async fn approval(fleet: &Fleet) -> Result<Value> {
    let begin = Instant::now();
    loop {
        let changes = fleet.get("/plugins/bench/changes").await?;
        let list = changes.get("changes").or_else(|| changes.get("items")).and_then(Value::as_array);
        let functions: Vec<Value> = list
            .into_iter()
            .flatten()
            .map(|change| {
                let at = |pointer: &str| change.pointer(pointer).cloned().unwrap_or_default();
                json!({
                    "version": at("/version"), "tool": at("/tool"), "function": at("/function"),
                    "approved": at("/approved/hash"), "seen": at("/variants/0/hash"),
                })
            })
            .collect();
        if !functions.is_empty() {
            return Ok(json!({"functions": functions, "origins": [], "attended": true}));
        }
        if begin.elapsed() > WAIT {
            bail!("failed to see the change: {changes}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The time of each node's acknowledgement of a later generation than `generation`.
async fn acknowledgements(
    inbox: &mut mpsc::UnboundedReceiver<Acked>,
    generation: u64,
    nodes: usize,
    begin: Instant,
) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(nodes);
    while times.len() < nodes {
        let next = tokio::time::timeout(WAIT, inbox.recv()).await;
        let Ok(Some(acked)) = next else {
            bail!("failed to have {nodes} nodes acknowledge: {} did", times.len())
        };
        if acked.generation > generation {
            times.push(acked.at.saturating_duration_since(begin));
        }
    }
    times.sort_unstable();
    Ok(times)
}

fn report(options: &Options, rounds: &[Round], facts: &Value, json: bool) -> Result<()> {
    let millis = |time: Duration| (time.as_secs_f64() * 10_000.0).round() / 10.0;
    #[expect(clippy::cast_precision_loss, reason = "counts of nodes are small")]
    let nodes = options.nodes as f64;
    let rows: Vec<Value> = rounds
        .iter()
        .enumerate()
        .map(|(index, round)| {
            json!({
                "approval": index + 1,
                "p50_ms": millis(quantile(&round.times, 0.5)),
                "p99_ms": millis(quantile(&round.times, 0.99)),
                "last_ms": millis(quantile(&round.times, 1.0)),
                "server_cpu_us_per_node": (round.processor.as_secs_f64() * 1e6 / nodes).round(),
            })
        })
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "bytes of memory, for people")]
    let per_node = facts["server_bytes"].as_u64().unwrap_or_default() as f64 / nodes / 1024.0;
    let per_node = (per_node * 10.0).round() / 10.0;
    let result = json!({
        "benchmark": "push", "machine": machine(), "nodes": options.nodes, "functions": options.functions,
        "server_memory_kib_per_node": per_node, "facts": facts, "rows": rows,
    });
    if json {
        super::figures::print(&serde_json::to_string_pretty(&result)?);
        return Ok(());
    }
    super::figures::print(&format!(
        "{} nodes, {} functions; joined in {:.1} s, connected in {:.1} s; server memory {per_node} KiB per node",
        options.nodes,
        options.functions,
        facts["joined_s"].as_f64().unwrap_or_default(),
        facts["connected_s"].as_f64().unwrap_or_default(),
    ));
    super::figures::print_table(
        &["approval", "p50_ms", "p99_ms", "last_ms", "server_cpu_us_per_node"],
        &rows,
    );
    Ok(())
}
