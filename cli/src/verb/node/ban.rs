//! `pintle node ban`: takes a node out of the fleet for ever.

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::Stands;
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{good, shown};

/// Flags of `pintle node ban`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle node ban node-3 --reason 'the laptop was stolen'")]
pub(crate) struct Args {
    /// The node's name or id
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Why, for the audit log and the node's own people
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub reason: String,
}

/// Bans it. It stops within a second if it is connected, else when it connects next.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let path = format!("/nodes/{}/ban", escape(&args.node));
    let document: Value = context.client()?.post(&path, &json!({"reason": args.reason})).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let stands: Stands = serde_json::from_value(document)?;
    out.line(good(format!(
        "Node {} is banned: it stops within a second, or when it connects next, and never comes back.",
        shown::line(&stands.name)
    )))?;
    Ok(Exit::Done)
}
