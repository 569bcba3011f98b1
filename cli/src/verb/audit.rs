//! `pintle audit …`: what happened, and whether the record is whole.

use anyhow::Result;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::{Event, Verified};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Table, good};

/// Verbs of `pintle audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Events, the newest last
    #[command(
        after_help = "Example:\n  pintle audit list --limit 20\n  pintle audit list --after 120 --json"
    )]
    List {
        /// Only events after this number
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
        /// How many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000), value_name = "N")]
        limit: u64,
    },
    /// Checks that each event follows from the one before it
    #[command(after_help = "Example:\n  pintle audit verify")]
    Verify,
}

/// Carries out one of them.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit> {
    match command {
        Command::List { after, limit } => list(after, limit, context).await,
        Command::Verify => verify(context).await,
    }
}

async fn list(after: Option<u64>, limit: u64, context: &Context) -> Result<Exit> {
    let path = match after {
        Some(after) => format!("/audit?after={after}&limit={limit}"),
        None => format!("/audit?limit={limit}"),
    };
    let mut page: Value = context.client()?.get(&path).await?;
    // Without a place to begin at, the newest come first; people read downwards.
    if after.is_none()
        && let Some(items) = page.get_mut("items").and_then(Value::as_array_mut)
    {
        items.reverse();
    }
    let out = &context.out;
    if out.is_json() {
        out.json(&page)?;
        return Ok(Exit::Done);
    }
    let events: Vec<Event> = serde_json::from_value(page.get("items").cloned().unwrap_or(json!([])))?;
    if events.is_empty() {
        out.note("No event after that.");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["SEQ", "AT", "WHO", "WHAT", "TO"]);
    for event in &events {
        table.row([&event.seq.to_string(), &event.at, &event.actor, &event.name, &event.subject]);
    }
    table.print(out)?;
    Ok(Exit::Done)
}

async fn verify(context: &Context) -> Result<Exit> {
    let document: Value = context.client()?.get("/audit/verify").await?;
    let verified: Verified = serde_json::from_value(document.clone())?;
    let out = &context.out;
    if out.is_json() {
        out.json(&document)?;
    } else if verified.ok {
        out.line(good(format!(
            "{} events, each follows from the one before; head {}",
            verified.events, verified.head
        )))?;
    }
    if verified.ok {
        return Ok(Exit::Done);
    }
    let at = verified.first_bad.map_or_else(|| "an unknown place".to_owned(), |seq| format!("event {seq}"));
    Err(Failure::failed(format!("the audit log does not hold at {at}: it was changed after it was written"))
        .remedy("compare it with a backup or an export; nothing after that place can be trusted")
        .into())
}
