//! `pintle node token`: makes a join token.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;

/// Flags of `pintle node token`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle node token --edge eu-1 --ttl 1h --uses 50")]
pub(crate) struct Args {
    /// The edge that the node will belong to
    #[arg(long)]
    pub edge: String,
    /// How long it may be used
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub ttl: Duration,
    /// How many nodes may join with it
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub uses: u64,
}

/// Prints the join string alone on stdout, so that scripts can take it as it is.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let ttl_ms = u64::try_from(args.ttl.as_millis()).unwrap_or(u64::MAX);
    let body = json!({"edge": args.edge, "uses": args.uses, "ttl_ms": ttl_ms});
    let token: Value = context.client()?.post("/join-tokens", &body).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&token)?;
        return Ok(Exit::Done);
    }
    let Some(join) = token.get("join").and_then(Value::as_str) else {
        return Err(Failure::failed("the control plane answered without a join string").into());
    };
    out.line(join)?;
    out.note(format_args!(
        "Shown this once; admits {} node(s) to edge {} within {}.",
        args.uses,
        args.edge,
        humantime::format_duration(args.ttl)
    ));
    out.hint("on the node's machine: pintle node join STRING && pintle node run");
    Ok(Exit::Done)
}
