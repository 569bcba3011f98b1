//! `pintle node evict`: takes a node out of the fleet; it must join again.

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::Stands;
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{good, shown};

/// Flags of `pintle node evict`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle node evict node-3 --reason 'the laptop was stolen'")]
pub(crate) struct Args {
    /// The node's name or id
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Why, for the audit log and the node's own people
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub reason: String,
}

/// Evicts it. It stops within a second if it is connected, else when it connects next.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let path = format!("/nodes/{}/evict", escape(&args.node));
    let document: Value = context.client()?.post(&path, &json!({"reason": args.reason})).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let stands: Stands = serde_json::from_value(document)?;
    out.line(good(format!(
        "Node {} is evicted: it stops within a second, or when it connects next.",
        shown::line(&stands.name)
    )))?;
    out.hint(format_args!("pintle node token --edge {}   # to let it join again", stands.edge));
    Ok(Exit::Done)
}
