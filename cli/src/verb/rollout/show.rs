//! `pintle rollout show`.

use anyhow::Result;
use serde_json::Value;

use super::{Named, phase, text};
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Output, Table, shown};

pub(super) async fn run(named: &Named, context: &Context) -> Result<Exit> {
    let out = &context.out;
    let document: Value = context.client()?.get(&format!("/rollouts/{}", escape(&named.id))).await?;
    if out.is_json() {
        out.json(&document)?;
    } else {
        print(out, &document)?;
    }
    Ok(Exit::Done)
}

/// How a rollout stands.
pub(super) fn print(out: &Output, document: &Value) -> Result<()> {
    out.line(format!(
        "{}@{} is {}: {}",
        text(document, "plugin"),
        text(document, "version"),
        phase(document),
        text(document, "reason")
    ))?;
    out.line(format!(
        "Started {} by {}, moved last {}.",
        text(document, "started_at"),
        text(document, "started_by"),
        text(document, "moved_at")
    ))?;
    let mut table =
        Table::new(&["WAVE", "EDGE", "STEP", "STATE", "NODES", "HAVE IT", "RUN IT", "AWAY", "FAILED"]);
    for edge in document.get("edges").and_then(Value::as_array).into_iter().flatten() {
        let number = |member: &str| edge.get(member).and_then(Value::as_u64).unwrap_or_default();
        let step = edge.get("step").and_then(Value::as_u64);
        let failed = edge.get("failed").and_then(Value::as_array).map_or(0, Vec::len);
        table.row([
            text(edge, "wave"),
            text(edge, "edge"),
            step.map_or_else(|| "-".to_owned(), |step| format!("{step} of {}", number("steps"))),
            text(edge, "part"),
            number("nodes").to_string(),
            number("granted").to_string(),
            number("serving").to_string(),
            number("away").to_string(),
            failed.to_string(),
        ]);
    }
    table.print(out)?;
    for edge in document.get("edges").and_then(Value::as_array).into_iter().flatten() {
        for failed in edge.get("failed").and_then(Value::as_array).into_iter().flatten() {
            out.note(format_args!(
                "{} of {}: {}",
                text(failed, "node"),
                text(edge, "edge"),
                text(failed, "reason")
            ));
        }
    }
    for line in document.get("waits").and_then(Value::as_array).into_iter().flatten() {
        out.line(format!("  {}", line.as_str().map(shown::line).unwrap_or_default()))?;
    }
    if document.get("waits").and_then(Value::as_array).is_some_and(|waits| {
        waits.iter().filter_map(Value::as_str).any(|line| line.contains("waiting for approval"))
    }) {
        out.hint(format_args!("pintle plugin approve-tools {}", text(document, "plugin")));
    }
    Ok(())
}
