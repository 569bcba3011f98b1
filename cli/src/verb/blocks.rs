//! `pintle blocks`: what is blocked, by whom and why.

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::Block;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Table, shown};

/// Flags of `pintle blocks`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  pintle blocks\n  pintle blocks --lifted --json")]
pub(crate) struct Args {
    /// Those that were lifted too
    #[arg(long)]
    pub lifted: bool,
}

/// Lists them.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let path = if args.lifted { "/blocks?lifted=true" } else { "/blocks" };
    let items: Vec<Value> = context.client()?.list(path).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"items": items}))?;
        return Ok(Exit::Done);
    }
    let blocks: Vec<Block> = serde_json::from_value(Value::Array(items))?;
    if blocks.is_empty() {
        out.note("Nothing is blocked.");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["ID", "TARGET", "EDGE", "SINCE", "BY", "STATE", "REASON"]);
    for block in &blocks {
        let state = match (&block.lifted_by, &block.lifted_at) {
            (Some(by), Some(at)) => format!("lifted by {} at {at}", shown::line(by)),
            _ => "in force".to_owned(),
        };
        let edge = block.edge.as_deref().map_or_else(|| "every".to_owned(), shown::line);
        table.row([
            block.id.clone(),
            shown::line(&block.target),
            edge,
            block.blocked_at.clone(),
            shown::line(&block.blocked_by),
            state,
            shown::line(&block.reason),
        ]);
    }
    table.print(out)?;
    Ok(Exit::Done)
}
