//! `pintle unassign`: takes a plugin from an edge.

use anyhow::Result;
use serde_json::{Value, json};

use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{good, shown};

/// Flags of `pintle unassign`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle unassign team --edge eu-1")]
pub(crate) struct Args {
    /// The plugin
    pub name: String,
    /// The edge
    #[arg(long)]
    pub edge: String,
}

/// Unassigns; nodes stop its tools.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let path = format!("/edges/{}/assignments/{}", escape(&args.edge), escape(&args.name));
    let answer: Value = context.client()?.delete(&path).await?;
    let out = &context.out;
    if out.is_json() {
        let answer = if answer.is_null() { json!({"plugin": args.name, "edge": args.edge}) } else { answer };
        out.json(&answer)?;
    } else {
        out.line(good(format!(
            "{} is no longer assigned to edge {}.",
            shown::line(&args.name),
            shown::line(&args.edge)
        )))?;
    }
    Ok(Exit::Done)
}
