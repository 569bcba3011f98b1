//! A tool server with one function, `echo`, as fast as it can be written: what it costs is what every path
//! of a comparison pays alike.

use std::net::SocketAddr;

use anyhow::Context as _;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// Flags of `bench echo-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Serve streamable HTTP on this address instead of stdio; the address is printed.
    #[arg(long)]
    http: Option<SocketAddr>,
}

#[derive(Deserialize)]
struct Incoming<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "protocolVersion")]
    version: Option<&'a str>,
}

/// The answer to one message; `None` for a notification.
fn answer(message: &str) -> Option<String> {
    let message: Incoming<'_> = serde_json::from_str(message).ok()?;
    let id = message.id?.get();
    let result = match message.method? {
        // Whatever is asked for: some clients know no newer one.
        "initialize" => format!(
            r#"{{"protocolVersion":"{}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1"}}}}"#,
            message.params.and_then(|params| params.version).unwrap_or("2025-11-25")
        ),
        "tools/list" => r#"{"tools":[{"name":"echo","description":"Answers with its arguments.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}"#.to_owned(),
        "tools/call" => {
            let arguments = message.params.and_then(|params| params.arguments).map_or("{}", RawValue::get);
            let text = serde_json::to_string(arguments).ok()?;
            format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#)
        }
        "ping" => "{}".to_owned(),
        _ => {
            return Some(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
            ));
        }
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// Serves until its input or its parent ends.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match options.http {
        Some(address) => serve_http(address).await,
        None => serve_stdio().await,
    }
}

async fn serve_stdio() -> anyhow::Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut out = tokio::io::stdout();
    while let Some(line) = lines.next_line().await? {
        if let Some(mut reply) = answer(&line) {
            reply.push('\n');
            out.write_all(reply.as_bytes()).await?;
            out.flush().await?;
        }
    }
    Ok(())
}

async fn serve_http(address: SocketAddr) -> anyhow::Result<()> {
    let router = axum::Router::new().route("/mcp", axum::routing::post(post)).with_state(());
    let listener = tokio::net::TcpListener::bind(address).await.context("failed to listen")?;
    announce(listener.local_addr()?).await?;
    axum::serve(listener, router).await?;
    Ok(())
}

/// Prints the address, which is how the parent learns the port.
pub(crate) async fn announce(address: SocketAddr) -> anyhow::Result<()> {
    let mut out = tokio::io::stdout();
    out.write_all(format!("{address}\n").as_bytes()).await?;
    out.flush().await?;
    Ok(())
}

async fn post(State(()): State<()>, body: String) -> Response {
    match answer(&body) {
        Some(reply) => ([(header::CONTENT_TYPE, "application/json")], reply).into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}
