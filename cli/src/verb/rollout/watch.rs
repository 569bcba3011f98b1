//! `pintle rollout watch`: a line for all that changes, until the rollout has ended.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use super::{show, text};
use crate::client::{Client, escape};
use crate::context::Context;
use crate::exit::Exit;
use crate::output::progress::Progress;
use crate::output::{Output, good, shown, waits};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Flags of `pintle rollout watch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id
    #[arg(value_name = "ID")]
    pub id: String,
    /// Longest wait [default: until it has ended]
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    pub timeout: Option<Duration>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let (client, out) = (context.client()?, &context.out);
    let begun = Instant::now();
    let progress = Progress::wait(out, "watching the rollout");
    let mut told = 0;
    loop {
        // The moves after the state: what is said last is what it stands for.
        let document: Value = client.get(&format!("/rollouts/{}", escape(&args.id))).await?;
        let moves = moves(&client, &args.id, &mut told).await?;
        if !out.is_json() {
            for line in &moves {
                progress.suspend(|| out.line(line))?;
            }
        }
        let waits: Vec<&str> = document
            .get("waits")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        progress.say(&shown::line(&waits.join("; ")));
        let ended = match text(&document, "phase").as_str() {
            "completed" => Some(Exit::Done),
            "rolled_back" => Some(Exit::Failed),
            _ => None,
        };
        let is_over = args.timeout.is_some_and(|longest| begun.elapsed() >= longest);
        if let Some(exit) = ended.or_else(|| is_over.then_some(Exit::TimedOut)) {
            progress.end();
            finish(out, &document, exit)?;
            return Ok(exit);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What moved since, a line each: when, and why.
async fn moves(client: &Client, id: &str, told: &mut u64) -> Result<Vec<String>> {
    let path = format!("/audit?subject={}&after={told}", escape(&format!("rollout/{id}")));
    let page: Value = client.get(&path).await?;
    let mut lines = Vec::new();
    for event in page.get("items").and_then(Value::as_array).into_iter().flatten() {
        *told = event.get("seq").and_then(Value::as_u64).unwrap_or(*told);
        let reason =
            event.pointer("/fields/reason").and_then(Value::as_str).map(shown::line).unwrap_or_default();
        let at = text(event, "at");
        let time = at.split('T').nth(1).and_then(|time| time.get(..8)).unwrap_or(&at);
        lines.push(format!("{time}  {reason}"));
    }
    Ok(lines)
}

fn finish(out: &Output, document: &Value, exit: Exit) -> Result<()> {
    if out.is_json() {
        out.json(&json!({ "rollout": document }))?;
        return Ok(());
    }
    show::print(out, document)?;
    match exit {
        Exit::Done => out.line(good("Every edge has it."))?,
        Exit::Failed => out.line(waits("Every edge has what it had before."))?,
        _ => out.note("It goes on without being watched."),
    }
    Ok(())
}
