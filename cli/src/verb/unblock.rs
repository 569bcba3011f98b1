//! `pintle unblock`: lifts blocks.

use anyhow::Result;
use serde_json::Value;

use super::block::{What, tell, there};
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::shown;

/// Flags of `pintle unblock`.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).multiple(false).args(["id", "function", "tool", "plugin"]),
    after_help = "Examples:\n  pintle unblock --function mail.send\n  pintle unblock 5f0c9a1b2c3d4e5f\n\nIt lifts exactly what is named: of a block on one edge name the edge too. `pintle blocks` shows what is blocked."
)]
pub(crate) struct Args {
    /// The block's id, as `pintle blocks` shows it
    #[arg(conflicts_with_all = ["function", "tool", "plugin", "edge"])]
    pub id: Option<String>,
    #[command(flatten)]
    pub what: What,
}

/// Lifts, and waits until the connected nodes go by it.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let client = context.client()?;
    let document: Value = match &args.id {
        Some(id) => client.delete(&format!("/blocks/{}", escape(id))).await?,
        None => client.post("/blocks/lift", &Value::Object(args.what.body())).await?,
    };
    tell(&client, &context.out, document, |block, _| {
        format!("Lifted the block of {}{}.", shown::line(&block.target), there(block))
    })
    .await
}
