//! `pintle node evict` and `pintle node ban`: take a node out of the fleet, until it joins again or for ever.

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::Stands;
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{good, shown};

/// Which of both.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// It must join again.
    Evict,
    /// It never comes back.
    Ban,
}

/// Flags of both.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The node's name or id
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Why, for the audit log and the node's own people
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub reason: String,
}

/// Takes it out. It stops within a second if it is connected, else when it connects next.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(way: Way, args: &Args, context: &Context) -> Result<Exit> {
    let verb = match way {
        Way::Evict => "evict",
        Way::Ban => "ban",
    };
    let path = format!("/nodes/{}/{verb}", escape(&args.node));
    let document: Value = context.client()?.post(&path, &json!({"reason": args.reason})).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let stands: Stands = serde_json::from_value(document)?;
    let name = shown::line(&stands.name);
    let stops = "it stops within a second, or when it connects next";
    match way {
        Way::Ban => out.line(good(format!("Node {name} is banned: {stops}, and never comes back.")))?,
        Way::Evict => {
            out.line(good(format!("Node {name} is evicted: {stops}.")))?;
            out.hint(format_args!("pintle node token --edge {}   # to let it join again", stands.edge));
        }
    }
    Ok(Exit::Done)
}
