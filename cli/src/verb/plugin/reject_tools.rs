//! `pintle plugin reject-tools`: keeps a changed listing refused and out of the alerts.

use anyhow::Result;
use serde_json::{Value, json};

use super::open::{self, Filter, Item};
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{good, shown};

/// Flags of `pintle plugin reject-tools`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  pintle plugin reject-tools team --function team.hello --hash v1:sha256:5f0c…\n\nNodes refused it before and go on doing so; it can still be approved later."
)]
pub(crate) struct Args {
    /// The plugin
    pub name: String,
    /// What to reject
    #[command(flatten)]
    pub filter: Filter,
    /// Shows each of many changes whole
    #[arg(long)]
    pub full: bool,
    /// Rejects all that the flags name without asking
    #[arg(long)]
    pub yes: bool,
}

/// Shows, asks, rejects.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let (client, out) = (context.client()?, &context.out);
    let all = open::load(&client, &args.name, &args.filter, out.is_coloured()).await?;
    let items: Vec<Item> = all.into_iter().filter(|item| item.origin.is_none()).collect();
    if items.is_empty() {
        return Err(Failure::new(
            Exit::Open,
            format!("no changed function of {} is as you name it", shown::line(&args.name)),
        )
        .remedy(format!("pintle plugin approve-tools {} shows what waits", args.name))
        .into());
    }
    if !args.yes {
        if !out.is_json() {
            open::show(out, &items, args.full)?;
        }
        if !out.is_attended() {
            out.tell("Nothing was changed. Add --yes to reject all of it.");
            return Ok(Exit::Open);
        }
        let answer = out.ask(&format!("Reject {} of it? [y/N]", items.len()))?.unwrap_or_default();
        if !matches!(answer.to_lowercase().as_str(), "y" | "yes") {
            out.note("Nothing was changed.");
            return Ok(Exit::Open);
        }
    }
    let body = json!({"functions": open::decision(&items).get("functions")});
    let rejected: Value = client.post(&format!("/plugins/{}/reject", escape(&args.name)), &body).await?;
    if out.is_json() {
        out.json(&rejected)?;
        return Ok(Exit::Done);
    }
    let stale = rejected.get("stale").and_then(Value::as_array).map_or(0, Vec::len);
    out.line(good(format!("Rejected {}; nodes go on refusing it.", items.len().saturating_sub(stale))))?;
    if stale > 0 {
        out.note(format_args!("{stale} changed meanwhile and was not rejected; look again."));
        return Ok(Exit::Open);
    }
    Ok(Exit::Done)
}
