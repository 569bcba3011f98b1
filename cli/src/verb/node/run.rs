//! `pintle node run`: this machine's node, in the foreground.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use crate::context::Context;
use crate::embed;
use crate::exit::Exit;
use crate::failure::Failure;

const EXAMPLE: &str = "Example:\n  pintle node run --listen 127.0.0.1:7410 --set gateway.call_deadline=20m";

/// Flags of `pintle node run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = embed::settings_help(EXAMPLE))]
pub(crate) struct Args {
    /// What the node keeps [default: node in the data folder]
    #[arg(long, value_name = "DIR", env = "PINTLE_NODE_DATA")]
    pub node_data: Option<PathBuf>,
    /// Where agents reach it
    #[arg(long, default_value = "127.0.0.1:7410", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// A setting of the node; may be given again [`--help` lists them]
    #[arg(long = "set", value_name = "NAME=VALUE", env = "PINTLE_NODE_SET", value_delimiter = ',')]
    pub settings: Vec<String>,
}

/// Runs until Ctrl-C or SIGTERM, then finishes calls in flight and stops.
///
/// # Errors
/// A setting is none, the machine has not joined, or the address is in use.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let data = args.node_data.clone().unwrap_or_else(|| context.place.node());
    let config = embed::node_config(data.clone(), args.listen, &args.settings)?;
    if !data.is_dir() {
        return Err(Failure::failed(format!(
            "this machine has not joined a fleet: there is no `{}`",
            data.display()
        ))
        .remedy("pintle node join STRING, with the string that `pintle node token` printed")
        .into());
    }
    embed::log_to_stderr();
    let out = &context.out;
    let node = embed::start_node(config).await?;
    let endpoint = embed::endpoint(&node);
    if out.is_json() {
        out.json(&json!({"mcp": endpoint}))?;
    } else {
        out.line(format_args!("The node runs; agents reach it at {endpoint}"))?;
        out.hint("Ctrl-C stops it");
    }
    embed::until_told_to_stop().await?;
    out.note("Stopping: finishing calls in flight.");
    node.stop().await;
    Ok(Exit::Done)
}
