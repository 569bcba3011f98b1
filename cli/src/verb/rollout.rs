//! `pintle rollout`: moves a version over edges in waves, and over their nodes in steps.

mod show;
mod start;
mod watch;

use anyhow::Result;
use serde_json::{Value, json};

use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Table, good, shown};

/// Verbs of `pintle rollout`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Shows what a rollout will do, and starts it
    Start(Box<start::Args>),
    /// Rollouts, the newest first
    List,
    /// How one stands: its edges, what it waits for, why it moved last
    Show(Named),
    /// Follows one until it has ended
    Watch(watch::Args),
    /// Nothing is done until it is resumed, and its clocks stop
    Pause(Named),
    /// It goes on where it was
    Resume(Named),
    /// The steps that hold now have held long enough
    Advance(Named),
    /// Every edge goes back to what it had; outranks all else
    Abort(AbortArgs),
    /// Every edge goes back to what it had, though the rollout has completed, within 7 days
    Undo(AbortArgs),
}

/// Which rollout.
#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Its id
    #[arg(value_name = "ID")]
    pub id: String,
}

/// Flags of `pintle rollout abort` and `undo`.
#[derive(Debug, clap::Args)]
pub(crate) struct AbortArgs {
    #[command(flatten)]
    pub named: Named,
    /// Why; it stands in the audit log and in `rollout show`
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

/// Carries out one of them.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit> {
    match command {
        Command::Start(args) => start::run(&args, context).await,
        Command::List => list(context).await,
        Command::Show(named) => show::run(&named, context).await,
        Command::Watch(args) => watch::run(&args, context).await,
        Command::Pause(named) => say(&named.id, "pause", &json!({}), context).await,
        Command::Resume(named) => say(&named.id, "resume", &json!({}), context).await,
        Command::Advance(named) => say(&named.id, "advance", &json!({}), context).await,
        Command::Undo(args) => say(&args.named.id, "undo", &json!({ "reason": args.reason }), context).await,
        Command::Abort(args) => {
            say(&args.named.id, "abort", &json!({ "reason": args.reason }), context).await
        }
    }
}

fn text(document: &Value, member: &str) -> String {
    document.get(member).and_then(Value::as_str).map(shown::line).unwrap_or_default()
}

/// The word of a phase, as people say it.
fn phase(document: &Value) -> String {
    text(document, "phase").replace('_', " ")
}

async fn say(id: &str, verb: &str, body: &Value, context: &Context) -> Result<Exit> {
    let (client, out) = (context.client()?, &context.out);
    let answer: Value = client.post(&format!("/rollouts/{}/{verb}", escape(id)), body).await?;
    if out.is_json() {
        out.json(&answer)?;
        return Ok(Exit::Done);
    }
    let what = format!("{}@{}", text(&answer, "plugin"), text(&answer, "version"));
    let is_changed = answer.get("changed") == Some(&Value::Bool(true));
    if is_changed {
        out.line(good(format!("The rollout of {what} is {}: {}.", phase(&answer), text(&answer, "reason"))))?;
    } else {
        out.line(format!("The rollout of {what} was {} before.", phase(&answer)))?;
    }
    out.hint(format_args!("pintle rollout watch {}", shown::line(id)));
    Ok(Exit::Done)
}

async fn list(context: &Context) -> Result<Exit> {
    let out = &context.out;
    let items: Vec<Value> = context.client()?.list("/rollouts").await?;
    if out.is_json() {
        out.json(&json!({ "items": items }))?;
        return Ok(Exit::Done);
    }
    if items.is_empty() {
        out.line("No version was rolled out yet.")?;
        out.hint("pintle rollout start --help");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["ID", "VERSION", "PHASE", "STARTED", "BY", "WHY"]);
    for item in &items {
        table.row([
            text(item, "id"),
            format!("{}@{}", text(item, "plugin"), text(item, "version")),
            phase(item),
            text(item, "started_at"),
            text(item, "started_by"),
            text(item, "reason"),
        ]);
    }
    table.print(out)?;
    Ok(Exit::Done)
}
