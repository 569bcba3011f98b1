//! `pintle demo-tool`, hidden: the MCP server of the demo.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};

use crate::demo_tool::{GOODBYE, HELLO, Log, Server, TODAY, control, http, stdio};
use crate::exit::Exit;
use crate::failure::Failure;

/// Flags of `pintle demo-tool`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle demo-tool --control listed.json --log calls.jsonl")]
pub(crate) struct Args {
    /// What to list, as {"tools": […]}; watched for changes [default: all functions as built]
    #[arg(long, value_name = "FILE")]
    pub control: Option<PathBuf>,
    /// Appends one line per call
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Serves streamable HTTP at /mcp of this loopback address instead of stdio; prints its URL
    #[arg(long, value_name = "ADDR")]
    pub http: Option<SocketAddr>,
    /// With --http: ends when stdin does, so that it never outlives who started it
    #[arg(long, requires = "http")]
    pub until_stdin_ends: bool,
    /// Answers only the handshake revisions of the protocol
    #[arg(long)]
    pub handshake_only: bool,
}

/// Serves until stdin ends, or for ever over HTTP.
///
/// # Errors
/// The address is not this machine's own or in use, or a message cannot be read.
pub(crate) async fn run(args: Args) -> Result<Exit> {
    let first = control::parse(&format!(r#"{{"tools":[{HELLO},{GOODBYE},{TODAY}]}}"#))
        .context("read the built-in list")?;
    let listed = control::watch(args.control, Arc::clone(&first));
    let server = Server { handshake_only: args.handshake_only, log: Log(args.log) };
    let Some(address) = args.http else {
        stdio::serve(&server, listed, tokio::io::stdin(), tokio::io::stdout())
            .await
            .context("serve over stdio")?;
        return Ok(Exit::Done);
    };
    if !address.ip().is_loopback() {
        return Err(Failure::usage(format!("{address} is not a loopback address"))
            .remedy("use 127.0.0.1:0, which takes a free port")
            .into());
    }
    let listener = http::bind(address).await.with_context(|| format!("listen on {address}"))?;
    let address = listener.local_addr().context("learn the port")?;
    crate::output::print_line(&format!("http://{address}/mcp")).context("print the address")?;
    let serving = http::serve(server, listed, listener);
    if !args.until_stdin_ends {
        serving.await.context("serve over HTTP")?;
        return Ok(Exit::Done);
    }
    let (mut stdin, mut nowhere) = (tokio::io::stdin(), tokio::io::sink());
    tokio::select! {
        served = serving => served.context("serve over HTTP")?,
        ended = tokio::io::copy(&mut stdin, &mut nowhere) => {
            ended.context("read stdin")?;
        }
    }
    Ok(Exit::Done)
}
