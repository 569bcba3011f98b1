//! A bare raw hop: HTTP in front, one stdio tool behind, ids swapped, nothing else. It is the least that any
//! gateway of this shape can cost, and so what ours is measured against.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{mpsc, oneshot};

/// Flags of `bench raw-hop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to serve; the address is printed.
    #[arg(long)]
    listen: SocketAddr,
    /// The tool server's program and arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

struct Hop {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<String>>>,
    lines: mpsc::Sender<String>,
}

/// Serves until it is killed.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let (program, arguments) = options.command.split_first().context("failed to find a command")?;
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take().context("failed to open the tool's input")?;
    let stdout = child.stdout.take().context("failed to open the tool's output")?;
    let (lines, mut outgoing) = mpsc::channel::<String>(256);
    let hop = Arc::new(Hop { next: AtomicU64::new(1), waiting: Mutex::default(), lines });
    tokio::spawn(async move {
        while let Some(line) = outgoing.recv().await {
            if stdin.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    });
    let answers = Arc::clone(&hop);
    tokio::spawn(async move {
        let mut reader = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = reader.next_line().await {
            deliver(&answers, line);
        }
    });
    let router = axum::Router::new().route("/mcp", axum::routing::post(post)).with_state(hop);
    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    super::echo::announce(listener.local_addr()?).await?;
    axum::serve(listener, router).await?;
    Ok(())
}

fn deliver(hop: &Hop, line: String) {
    let id = serde_json::from_str::<Envelope<'_>>(&line).ok().and_then(|m| m.id?.get().parse().ok());
    let waiting = id.and_then(|id| hop.waiting.lock().ok()?.remove(&id));
    if let Some(waiting) = waiting {
        waiting.send(line).ok();
    }
}

async fn post(State(hop): State<Arc<Hop>>, body: String) -> Response {
    match forward(&hop, &body).await {
        Some(reply) => ([(header::CONTENT_TYPE, "application/json")], reply).into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

async fn forward(hop: &Hop, body: &str) -> Option<String> {
    let message: Envelope<'_> = serde_json::from_str(body).ok()?;
    let id = message.id?;
    let ours = hop.next.fetch_add(1, Ordering::Relaxed);
    let (sender, receiver) = oneshot::channel();
    hop.waiting.lock().ok()?.insert(ours, sender);
    let params = message.params.map_or("{}", RawValue::get);
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{ours},\"method\":\"{}\",\"params\":{params}}}\n",
        message.method?
    );
    hop.lines.send(line).await.ok()?;
    let answer = receiver.await.ok()?;
    let answer: Envelope<'_> = serde_json::from_str(&answer).ok()?;
    let (member, value) = match (answer.result, answer.error) {
        (Some(result), _) => ("result", result),
        (None, error) => ("error", error?),
    };
    Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"{member}\":{}}}", id.get(), value.get()))
}
