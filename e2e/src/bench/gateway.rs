//! What a call through a node's gateway adds: the same closed loop of calls against the tool itself over
//! HTTP, a bare raw hop, a node and other gateways, in turns within one run.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::figures::{self, machine, quantile};
use super::load::{self, Load, Target, Transport};
use super::peers;

/// Flags of `bench gateway`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Numbers of sessions that call at once.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32")]
    sessions: Vec<usize>,
    /// Bytes of a request, and about of its answer.
    #[arg(long, value_delimiter = ',', default_value = "200,65536,1048576")]
    bytes: Vec<usize>,
    /// Seconds that each path is called for, in each of the rounds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds: in each, every path takes its turn, so that a slow moment falls on all.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Compares with the tool and the bare hop alone, not with other gateways.
    #[arg(long)]
    no_peers: bool,
}

/// A way to the tool.
struct Path {
    name: &'static str,
    target: Target,
    /// Whose memory is looked at, with that of all its descendants.
    process: Option<u32>,
}

struct Measured {
    path: &'static str,
    load: Load,
    times: Vec<Duration>,
    /// Largest resident size after a round.
    memory: u64,
    /// Why it could not be measured.
    fault: Option<String>,
}

/// Runs it and prints the figures.
pub(crate) async fn run(options: &Options, json: bool) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let mut children = Vec::new();
    let bench = std::env::current_exe()?;
    let bench = bench.to_str().context("failed to read this program's own path")?;
    let node = super::fleet::start_one_node(bench).await?;
    let mut paths = own(bench, &node, &mut children).await?;
    if !options.no_peers {
        let tool = paths.first().context("failed to start the tool")?.target.address;
        let stage = peers::Stage { scratch: scratch.path(), bench, tool };
        for peer in peers::start(&stage).await? {
            paths.push(Path { name: peer.name, target: peer.target, process: peer.child.id() });
            children.push(peer.child);
        }
    }
    let span = Duration::from_secs_f64(options.seconds);
    let mut measured = Vec::new();
    for &bytes in &options.bytes {
        for &sessions in &options.sessions {
            measured.extend(measure(&paths, Load { sessions, bytes, span }, options.rounds.max(1)).await);
            tracing::info!(sessions, bytes, "measured");
        }
    }
    report(options, &measured, json)
}

async fn measure(paths: &[Path], load: Load, rounds: usize) -> Vec<Measured> {
    let none = |path: &Path| Measured { path: path.name, load, times: Vec::new(), memory: 0, fault: None };
    let mut measured: Vec<Measured> = paths.iter().map(none).collect();
    for round in 0..rounds {
        for step in 0..paths.len() {
            // Each round begins with another path, so that none always follows the same one.
            let index = (round + step) % paths.len();
            let (Some(path), Some(into)) = (paths.get(index), measured.get_mut(index)) else { continue };
            if into.fault.is_some() {
                continue;
            }
            match load::run(&path.target, load).await {
                Ok(times) => into.times.extend(times),
                Err(error) => {
                    tracing::warn!("{} failed: {error:#}", path.name);
                    into.fault = Some(format!("{error:#}"));
                }
            }
            into.memory = into.memory.max(path.process.map_or(0, figures::resident_tree_bytes));
        }
    }
    for entry in &mut measured {
        entry.times.sort_unstable();
    }
    measured
}

/// The tool itself, the bare hop and the node.
async fn own(
    bench: &str,
    node: &super::fleet::OneNode,
    children: &mut Vec<Child>,
) -> anyhow::Result<Vec<Path>> {
    let target = |address, function: &str| Target {
        address,
        path: "/mcp",
        token: None,
        function: function.to_owned(),
        transport: Transport::Streamable,
    };
    let mut start = Command::new(bench);
    start.args(["echo-server", "--http", "127.0.0.1:0"]);
    let direct = first_line_address(start, children).await?;
    let direct =
        Path { name: "direct", target: target(direct, "echo"), process: children.last().and_then(Child::id) };
    let mut start = Command::new(bench);
    start.args(["raw-hop", "--listen", "127.0.0.1:0", "--", bench, "echo-server"]);
    let hop = first_line_address(start, children).await?;
    let hop =
        Path { name: "raw hop", target: target(hop, "echo"), process: children.last().and_then(Child::id) };
    let pintle = Target { token: Some(node.token.clone()), ..target(node.address, "echo__echo") };
    let pintle = Path { name: "pintle", target: pintle, process: node.process };
    Ok(vec![direct, hop, pintle])
}

/// Starts a process that prints its address as its first line.
async fn first_line_address(mut command: Command, children: &mut Vec<Child>) -> anyhow::Result<SocketAddr> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let stdout = child.stdout.take().context("failed to read a child's output")?;
    let line = BufReader::new(stdout).lines().next_line().await?.context("failed to have a child start")?;
    children.push(child);
    line.parse().with_context(|| format!("failed to read the address `{line}`"))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn report(options: &Options, measured: &[Measured], json: bool) -> anyhow::Result<()> {
    let direct = |load: Load, share: f64| {
        let is_it = |entry: &&Measured| {
            (entry.path, entry.load.sessions, entry.load.bytes) == ("direct", load.sessions, load.bytes)
        };
        measured.iter().find(is_it).map_or(0.0, |entry| micros(quantile(&entry.times, share)))
    };
    let rows: Vec<Value> = measured
        .iter()
        .map(|entry| {
            let (p50, p99) = (micros(quantile(&entry.times, 0.5)), micros(quantile(&entry.times, 0.99)));
            #[expect(clippy::cast_precision_loss, reason = "counts of calls are small")]
            let per_second = entry.times.len() as f64 / (options.seconds * options.rounds.max(1) as f64);
            let mut row = json!({
                "path": entry.path,
                "bytes": entry.load.bytes,
                "sessions": entry.load.sessions,
                "calls": entry.times.len(),
                "calls_per_s": per_second.round(),
                "p50_us": p50.round(),
                "p99_us": p99.round(),
                "added_p50_us": (p50 - direct(entry.load, 0.5)).round(),
                "added_p99_us": (p99 - direct(entry.load, 0.99)).round(),
                "memory_mib": entry.memory >> 20,
            });
            if let (Some(fault), Some(row)) = (&entry.fault, row.as_object_mut()) {
                row.retain(|key, _| ["path", "bytes", "sessions"].contains(&key.as_str()));
                row.insert("fault".to_owned(), json!(fault));
            }
            row
        })
        .collect();
    let result = json!({ "benchmark": "gateway", "machine": machine(), "rows": rows });
    if json {
        figures::print(&serde_json::to_string_pretty(&result)?);
        return Ok(());
    }
    let columns = [
        "path",
        "bytes",
        "sessions",
        "calls_per_s",
        "p50_us",
        "p99_us",
        "added_p50_us",
        "added_p99_us",
        "memory_mib",
    ];
    figures::print_table(&columns, &rows);
    Ok(())
}
