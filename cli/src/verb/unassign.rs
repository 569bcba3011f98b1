//! `pintle unassign`: takes a plugin, or the candidate of one, from an edge.

use anyhow::Result;
use serde_json::{Value, json};

use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{good, shown};

/// Flags of `pintle unassign`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle unassign team --edge eu-1\n  pintle unassign team --edge eu-1 --candidate"
)]
pub(crate) struct Args {
    /// The plugin
    pub name: String,
    /// The edge
    #[arg(long)]
    pub edge: String,
    /// Only the candidate; its nodes go back to the installed version
    #[arg(long)]
    pub candidate: bool,
}

/// Unassigns; nodes stop its tools, or those of the candidate.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let what = if args.candidate { "candidates" } else { "assignments" };
    let path = format!("/edges/{}/{what}/{}", escape(&args.edge), escape(&args.name));
    let answer: Value = context.client()?.delete(&path).await?;
    let out = &context.out;
    if out.is_json() {
        let answer = if answer.is_null() { json!({"plugin": args.name, "edge": args.edge}) } else { answer };
        out.json(&answer)?;
    } else {
        let (name, edge) = (shown::line(&args.name), shown::line(&args.edge));
        let sentence = if args.candidate {
            format!("Edge {edge} tries no candidate of {name} any longer.")
        } else {
            format!("{name} is no longer assigned to edge {edge}.")
        };
        out.line(good(sentence))?;
    }
    Ok(Exit::Done)
}
