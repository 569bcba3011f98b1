//! From an approval to its acknowledgement by every node: simulated nodes against a real server process,
//! beside a real node's durable write, a bare tonic fan-out of the same bytes, and etcd's watch.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::crowd::{Crowd, WAIT};
use super::figures::{self, millis, per, processor_time, quantile, resident_bytes};
use super::sim::{self, Event};
use super::{bare, etcd};

/// Flags of `bench push`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Simulated nodes.
    #[arg(long, default_value_t = 1_000)]
    nodes: usize,
    /// Edges that they are of, in turn.
    #[arg(long, default_value_t = 1)]
    edges: usize,
    /// Approvals that are measured.
    #[arg(long, default_value_t = 5)]
    approvals: usize,
    /// Functions of the plugin that is approved.
    #[arg(long, default_value_t = 50)]
    functions: usize,
    /// Leaves out the bare fan-out.
    #[arg(long)]
    no_bare: bool,
    /// Compares with etcd's watch; scripts/bench-etcd installs it.
    #[arg(long)]
    etcd: bool,
}

/// One push, however it was made.
pub(crate) struct Round {
    /// Of each node, sorted.
    pub(crate) times: Vec<Duration>,
    /// Of the server.
    pub(crate) processor: Duration,
    /// To one node.
    pub(crate) bytes: usize,
    /// The real node's, if there was one.
    pub(crate) real: Option<Duration>,
}

/// Runs it and prints the figures.
pub(crate) async fn run(options: &Options, json: bool) -> Result<()> {
    let mut crowd = Crowd::join(options.nodes, options.edges).await?;
    crowd.fleet.add_node("real").await?;
    let before = resident_bytes(crowd.server).unwrap_or_default();
    let (listing, listings) = watch::channel(sim::listing(options.functions, 0));
    let connected_after = crowd.connect(Some(listings)).await?;
    let mut generations = crowd.settled(1).await?;
    let memory = resident_bytes(crowd.server).unwrap_or_default().saturating_sub(before);

    let mut rounds = Vec::new();
    for round in 1..=options.approvals {
        listing.send(sim::listing(options.functions, round))?;
        let body = approval(&crowd).await?;
        rounds.push(approve(&mut crowd, &body, &generations).await?);
        for generation in &mut generations {
            *generation += 1;
        }
    }
    let bytes = rounds.iter().map(|round| round.bytes).max().unwrap_or_default();
    let mut rows = vec![row("pintle", &rounds, options.nodes)];
    crowd.nodes.clear();
    if !options.no_bare {
        rows.push(row(
            "bare tonic",
            &bare::rounds(&mut crowd, bytes, options.approvals).await?,
            options.nodes,
        ));
    }
    if options.etcd {
        rows.push(row(
            "etcd watch",
            &etcd::rounds(options.nodes, bytes, options.approvals).await?,
            options.nodes,
        ));
    }
    let result = json!({
        "benchmark": "push", "machine": figures::machine(), "nodes": options.nodes, "edges": options.edges,
        "functions": options.functions, "approvals": options.approvals,
        "joined_s": crowd.joined_after.as_secs_f64(), "connected_s": connected_after.as_secs_f64(),
        "server_memory_kib_per_node": per(memory, options.nodes),
        "rows": rows,
    });
    if json {
        figures::print(&serde_json::to_string_pretty(&result)?);
        return Ok(());
    }
    figures::print(&format!(
        "{} nodes on {} edges, {} functions; joined in {:.1} s, connected in {:.1} s; server memory {} KiB per node",
        options.nodes,
        options.edges,
        options.functions,
        crowd.joined_after.as_secs_f64(),
        connected_after.as_secs_f64(),
        per(memory, options.nodes),
    ));
    let columns = [
        "what",
        "p50_ms",
        "p99_ms",
        "last_ms",
        "worst_last_ms",
        "bytes",
        "server_cpu_us_per_node",
        "real_node_ms",
    ];
    figures::print_table(&columns, &rows);
    Ok(())
}

/// The medians of all rounds.
fn row(what: &str, rounds: &[Round], nodes: usize) -> Value {
    let median = |of: &dyn Fn(&Round) -> Duration| {
        let mut all: Vec<Duration> = rounds.iter().map(of).collect();
        all.sort_unstable();
        quantile(&all, 0.5)
    };
    let lasts = rounds.iter().map(|round| quantile(&round.times, 1.0));
    let real: Vec<Duration> = rounds.iter().filter_map(|round| round.real).collect();
    #[expect(clippy::cast_precision_loss, reason = "counts of nodes are small")]
    let nodes = nodes as f64;
    json!({
        "what": what,
        "p50_ms": millis(median(&|round| quantile(&round.times, 0.5))),
        "p99_ms": millis(median(&|round| quantile(&round.times, 0.99))),
        "last_ms": millis(median(&|round| quantile(&round.times, 1.0))),
        "worst_last_ms": millis(lasts.max().unwrap_or_default()),
        "bytes": rounds.iter().map(|round| round.bytes).max(),
        "server_cpu_us_per_node": (median(&|round| round.processor).as_secs_f64() * 1e6 / nodes * 10.0).round() / 10.0,
        "real_node_ms": (!real.is_empty()).then(|| millis(median(&|round| round.real.unwrap_or_default()))),
    })
}

/// Waits for the open change, and makes the approval of all of it.
async fn approval(crowd: &Crowd) -> Result<Value> {
    let begin = Instant::now();
    loop {
        let changes = crowd.fleet.get("/plugins/bench/changes").await?;
        let list = changes.get("changes").and_then(Value::as_array);
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

/// Approves, and waits for each node's acknowledgement of what follows the generations of before.
async fn approve(crowd: &mut Crowd, body: &Value, generations: &[u64]) -> Result<Round> {
    let processor = processor_time(crowd.server).unwrap_or_default();
    let begin = Instant::now();
    let first = generations.first().copied().unwrap_or_default();
    let (answer, real) = {
        let real = real_node(crowd, begin, first);
        let fleet = &crowd.fleet;
        tokio::join!(fleet.post("/plugins/bench/approve", body), real)
    };
    let (status, answer) = answer?;
    if status != 200 {
        bail!("failed to approve: {status} {answer}");
    }
    let nodes = crowd.identities.len();
    let (mut times, mut bytes) = (Vec::with_capacity(nodes), 0);
    while times.len() < nodes {
        let Ok(Some(event)) = tokio::time::timeout(WAIT, crowd.inbox.recv()).await else {
            bail!("failed to have {nodes} nodes acknowledge: {} did", times.len())
        };
        if let Event::Acked { node, generation, at, bytes: came } = event {
            let before = generations.get(crowd.edge_of(node)).copied().unwrap_or_default();
            if generation > before {
                times.push(at.saturating_duration_since(begin));
                bytes = bytes.max(came);
            }
        }
    }
    times.sort_unstable();
    let processor = processor_time(crowd.server).unwrap_or_default().saturating_sub(processor);
    Ok(Round { times, processor, bytes, real: real? })
}

/// When the control plane has the real node's acknowledgement, which follows its durable write.
async fn real_node(crowd: &Crowd, begin: Instant, generation: u64) -> Result<Option<Duration>> {
    while begin.elapsed() < WAIT {
        let node = crowd.fleet.get("/nodes/real").await?;
        let held = node.pointer("/held/trust/generation").and_then(Value::as_u64);
        if held > Some(generation) {
            return Ok(Some(begin.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(None)
}
