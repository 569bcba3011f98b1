//! What a call through a node's gateway adds: the same closed loop of calls against the tool itself over
//! HTTP, a bare raw hop, mcp-proxy and a node, in turns within one run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::figures::{machine, quantile};
use super::load::{self, Target};

/// Flags of `bench gateway`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Numbers of sessions that call at once.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32")]
    sessions: Vec<usize>,
    /// Seconds that each path is called for, in each of the rounds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds: in each, every path takes its turn, so that a slow moment falls on all.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The `mcp-proxy` binary; `scripts/bench-peers` installs it where this looks by itself.
    #[arg(long)]
    mcp_proxy: Option<PathBuf>,
}

struct Measured {
    path: &'static str,
    sessions: usize,
    times: Vec<Duration>,
}

/// Runs it and prints the figures.
pub(crate) async fn run(options: &Options, json: bool) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let mut children = Vec::new();
    let bench = std::env::current_exe()?;
    let bench = bench.to_str().context("failed to read this program's own path")?;
    let node = super::fleet::start_one_node(bench).await?;
    let targets = start_all(options, scratch.path(), bench, &node, &mut children).await?;
    let span = Duration::from_secs_f64(options.seconds);
    let mut measured = Vec::new();
    for &sessions in &options.sessions {
        let mut of_paths: Vec<Measured> =
            targets.iter().map(|(path, _)| Measured { path, sessions, times: Vec::new() }).collect();
        for round in 0..options.rounds.max(1) {
            for step in 0..targets.len() {
                // Each round begins with another path, so that none always follows the same one.
                let index = (round + step) % targets.len();
                let (Some((path, target)), Some(into)) = (targets.get(index), of_paths.get_mut(index)) else {
                    continue;
                };
                let times =
                    load::run(target, sessions, span).await.with_context(|| format!("failed on {path}"))?;
                into.times.extend(times);
            }
        }
        measured.extend(of_paths);
    }
    for entry in &mut measured {
        entry.times.sort_unstable();
    }
    report(options, &measured, json)
}

async fn start_all(
    options: &Options,
    scratch: &Path,
    bench: &str,
    node: &super::fleet::OneNode,
    children: &mut Vec<Child>,
) -> anyhow::Result<Vec<(&'static str, Target)>> {
    let mut start = Command::new(bench);
    start.args(["echo-server", "--http", "127.0.0.1:0"]);
    let direct = first_line_address(start, children).await?;
    let mut start = Command::new(bench);
    start.args(["raw-hop", "--listen", "127.0.0.1:0", "--", bench, "echo-server"]);
    let hop = first_line_address(start, children).await?;
    let target =
        |address, path, function: &str| Target { address, path, token: None, function: function.to_owned() };
    let mut targets =
        vec![("direct", target(direct, "/mcp", "echo")), ("raw hop", target(hop, "/mcp", "echo"))];
    targets.push((
        "pintle",
        Target {
            address: node.address,
            path: "/mcp",
            token: Some(node.token.clone()),
            function: "echo__echo".to_owned(),
        },
    ));
    if let Some(program) = mcp_proxy(options) {
        let address = start_mcp_proxy(&program, scratch, bench, children).await?;
        targets.push(("mcp-proxy", target(address, "/", "echo/echo")));
    } else {
        tracing::warn!(
            "mcp-proxy is not compared: run scripts/bench-peers first, or name it with --mcp-proxy"
        );
    }
    Ok(targets)
}

/// Starts a process that prints its address as its first line.
async fn first_line_address(mut command: Command, children: &mut Vec<Child>) -> anyhow::Result<SocketAddr> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let stdout = child.stdout.take().context("failed to read a child's output")?;
    let line = BufReader::new(stdout).lines().next_line().await?.context("failed to have a child start")?;
    children.push(child);
    line.parse().with_context(|| format!("failed to read the address `{line}`"))
}

fn mcp_proxy(options: &Options) -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/bench/bin/mcp-proxy");
    options.mcp_proxy.clone().or_else(|| installed.exists().then_some(installed))
}

async fn start_mcp_proxy(
    program: &Path,
    scratch: &Path,
    bench: &str,
    children: &mut Vec<Child>,
) -> anyhow::Result<SocketAddr> {
    let address = free_address()?;
    let config = scratch.join("mcp-proxy.toml");
    let text = format!(
        "[proxy]\nname = \"bench\"\nseparator = \"/\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {}\n\
         [[backends]]\nname = \"echo\"\ntransport = \"stdio\"\ncommand = \"{bench}\"\nargs = [\"echo-server\"]\n\
         [observability]\nlog_level = \"error\"\n",
        address.port()
    );
    std::fs::write(&config, text)?;
    let child = Command::new(program)
        .arg("--config")
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // What it logs is nothing of the figures.
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("failed to start {}", program.display()))?;
    children.push(child);
    wait_for_port(address).await?;
    Ok(address)
}

/// An address on the loopback interface that was free a moment ago.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

async fn wait_for_port(address: SocketAddr) -> anyhow::Result<()> {
    for _ in 0..200 {
        if tokio::net::TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("failed to reach {address} within 10 s");
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn report(options: &Options, measured: &[Measured], json: bool) -> anyhow::Result<()> {
    let direct = |sessions: usize, share: f64| {
        let of = measured.iter().find(|entry| entry.path == "direct" && entry.sessions == sessions);
        of.map_or(0.0, |entry| micros(quantile(&entry.times, share)))
    };
    let rows: Vec<serde_json::Value> = measured
        .iter()
        .map(|entry| {
            let (p50, p99) = (micros(quantile(&entry.times, 0.5)), micros(quantile(&entry.times, 0.99)));
            #[expect(clippy::cast_precision_loss, reason = "counts of calls are small")]
            let per_second = entry.times.len() as f64 / (options.seconds * options.rounds.max(1) as f64);
            serde_json::json!({
                "path": entry.path,
                "sessions": entry.sessions,
                "calls": entry.times.len(),
                "calls_per_s": per_second.round(),
                "p50_us": p50.round(),
                "p99_us": p99.round(),
                "added_p50_us": (p50 - direct(entry.sessions, 0.5)).round(),
                "added_p99_us": (p99 - direct(entry.sessions, 0.99)).round(),
            })
        })
        .collect();
    let result = serde_json::json!({ "benchmark": "gateway", "machine": machine(), "rows": rows });
    if json {
        super::figures::print(&serde_json::to_string_pretty(&result)?);
        return Ok(());
    }
    let columns = ["path", "sessions", "calls_per_s", "p50_us", "p99_us", "added_p50_us", "added_p99_us"];
    super::figures::print_table(&columns, &rows);
    Ok(())
}
