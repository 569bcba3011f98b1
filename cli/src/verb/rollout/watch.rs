//! `pintle rollout watch`: a line for all that changes, until the rollout has ended.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use super::{phase, show, text};
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::progress::Progress;
use crate::output::{good, shown, waits};

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
    let mut told = String::new();
    loop {
        let document: Value = client.get(&format!("/rollouts/{}", escape(&args.id))).await?;
        let lines: Vec<&str> = document
            .get("waits")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let reason = text(&document, "reason");
        let now = format!("{}: {reason}", phase(&document));
        if now != told && !out.is_json() {
            progress.suspend(|| out.line(shown::line(&now)))?;
            told = now;
        }
        progress.say(&shown::line(&lines.join("; ")));
        let ended = match text(&document, "phase").as_str() {
            "completed" => Some(Exit::Done),
            "rolled_back" => Some(Exit::Failed),
            _ => None,
        };
        let is_over = args.timeout.is_some_and(|longest| begun.elapsed() >= longest);
        if let Some(exit) = ended.or_else(|| is_over.then_some(Exit::TimedOut)) {
            progress.end();
            if out.is_json() {
                out.json(&json!({ "rollout": document }))?;
                return Ok(exit);
            }
            show::print(out, &document)?;
            match exit {
                Exit::Done => out.line(good("Every edge has it."))?,
                Exit::Failed => out.line(waits("Every edge has what it had before."))?,
                _ => out.note("It goes on without being watched."),
            }
            return Ok(exit);
        }
        tokio::time::sleep(LOOK).await;
    }
}
