//! `pintle node token`: makes a join token, lists them, revokes one.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::JoinToken;
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Table, good, shown};

/// Flags of `pintle node token`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example:\n  pintle node token --edge eu-1 --ttl 1h --uses 50 --label role=test\n  pintle node token list"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The edge that the node will belong to
    #[arg(long, required = true)]
    pub edge: Option<String>,
    /// How long it may be used
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub ttl: Duration,
    /// How many nodes may join with it
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub uses: u64,
    /// A label of the nodes that join with it; may be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
}

/// What else is done with join tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Every join token, and what became of it
    #[command(after_help = "Example:\n  pintle node token list")]
    List,
    /// Ends a join token; nodes that joined with it stay
    #[command(after_help = "Example:\n  pintle node token revoke 5f0c9a1b2c3d4e5f")]
    Revoke {
        /// The token's id, as `pintle node token list` shows it
        id: String,
    },
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "write it as KEY=VALUE, such as role=test".to_owned())
}

/// Carries it out.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    match &args.command {
        None => make(args, context).await,
        Some(Command::List) => list(context).await,
        Some(Command::Revoke { id }) => revoke(id, context).await,
    }
}

/// Prints the join string alone on stdout, so that scripts can take it as it is.
async fn make(args: &Args, context: &Context) -> Result<Exit> {
    let ttl_ms = u64::try_from(args.ttl.as_millis()).unwrap_or(u64::MAX);
    let edge = args.edge.as_deref().unwrap_or_default();
    let labels: BTreeMap<&str, &str> =
        args.label.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    // A server of an earlier release refuses the member.
    let body = if labels.is_empty() {
        json!({"edge": edge, "uses": args.uses, "ttl_ms": ttl_ms})
    } else {
        json!({"edge": edge, "uses": args.uses, "ttl_ms": ttl_ms, "labels": labels})
    };
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
        "Shown this once; admits {} node(s) to edge {edge} within {}.",
        args.uses,
        humantime::format_duration(args.ttl)
    ));
    out.hint("on the node's machine: pintle node join STRING && pintle node run");
    Ok(Exit::Done)
}

async fn list(context: &Context) -> Result<Exit> {
    let items: Vec<Value> = context.client()?.list("/join-tokens").await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"items": items}))?;
        return Ok(Exit::Done);
    }
    let tokens: Vec<JoinToken> = serde_json::from_value(Value::Array(items))?;
    if tokens.is_empty() {
        out.note("There is no join token yet.");
        out.hint("pintle node token --edge EDGE");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["ID", "EDGE", "STATE", "USED", "EXPIRES", "LABELS", "MADE BY"]);
    for token in &tokens {
        let used = format!("{}/{}", token.used, token.uses);
        let labels: Vec<String> = token.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let (labels, expires) = (labels.join(","), &token.expires_at);
        table.row([&*token.id, &token.edge, &token.state, &used, expires, &labels, &token.created_by]);
    }
    table.print(out)?;
    Ok(Exit::Done)
}

async fn revoke(id: &str, context: &Context) -> Result<Exit> {
    let revoked: Value = context.client()?.delete(&format!("/join-tokens/{}", escape(id))).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&revoked)?;
        return Ok(Exit::Done);
    }
    out.line(good(format!("Revoked the join token {}; nodes that joined with it stay.", shown::line(id))))?;
    Ok(Exit::Done)
}
