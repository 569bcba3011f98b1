//! `pintle node keep`: of a node that has copies, picks the one that goes on.

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::Stands;
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{good, shown};

/// Flags of `pintle node keep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle node show node-3\n  pintle node keep node-3 --session 48211")]
pub(crate) struct Args {
    /// The node's name or id
    #[arg(value_name = "NODE")]
    pub node: String,
    /// The session of the copy that goes on, as `pintle node show` lists them
    #[arg(long, value_name = "N")]
    pub session: u64,
}

/// Picks it. The others are told to join as nodes of their own.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let path = format!("/nodes/{}/keep", escape(&args.node));
    let document: Value = context.client()?.post(&path, &json!({"session": args.session})).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let stands: Stands = serde_json::from_value(document)?;
    let name = shown::line(&stands.name);
    out.line(good(format!(
        "The copy of session {} goes on as node {name}, within 20 seconds.",
        args.session
    )))?;
    out.note("Its other copies are evicted as they connect; each may join as a node of its own.");
    Ok(Exit::Done)
}
