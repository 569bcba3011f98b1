//! `pintle mcp`: a node's MCP endpoint over stdio, for any MCP client.

use anyhow::Result;

use crate::context::Context;
use crate::embed::{Endpoint, NodeFlags};
use crate::exit::Exit;

/// Flags of `pintle mcp`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example (Claude Code):\n  claude mcp add pintle -- pintle mcp")]
pub(crate) struct Args {
    /// Which node
    #[command(flatten)]
    pub node: NodeFlags,
}

/// Forwards until stdin ends. Nothing but MCP messages goes to stdout.
///
/// # Errors
/// No node answers.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    Endpoint::find(&args.node, &context.place)?.bridge().await?;
    Ok(Exit::Done)
}
