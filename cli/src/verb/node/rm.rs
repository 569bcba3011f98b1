//! `pintle node rm`: takes an evicted node off the list.

use anyhow::Result;
use serde_json::Value;

use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{good, shown};

/// Flags of `pintle node rm`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle node evict node-3 && pintle node rm node-3")]
pub(crate) struct Args {
    /// The node's name or id
    #[arg(value_name = "NODE")]
    pub node: String,
}

/// Removes it. Its name is free for another node; the audit log keeps what it did.
///
/// # Errors
/// As the API's; a node that is not evicted stays.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let document: Value = context.client()?.delete(&format!("/nodes/{}", escape(&args.node))).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let name = document.get("name").and_then(Value::as_str).unwrap_or(&args.node);
    out.line(good(format!("Removed node {}.", shown::line(name))))?;
    Ok(Exit::Done)
}
