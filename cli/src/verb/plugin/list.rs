//! `pintle plugin list`: every plugin, and beneath it what needs attention.

use anyhow::Result;
use serde_json::{Value, json};

use super::notices::notices;
use crate::api::Plugin;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Table, bold, waits};

/// Flags of `pintle plugin list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle plugin list --json | jq '.items[].changed'")]
pub(crate) struct Args {}

/// Prints the table, then the notices of each plugin that has any.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(_args: &Args, context: &Context) -> Result<Exit> {
    let items: Vec<Value> = context.client()?.list("/plugins").await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"items": items}))?;
        return Ok(Exit::Done);
    }
    let plugins: Vec<Plugin> = serde_json::from_value(Value::Array(items))?;
    if plugins.is_empty() {
        out.note("There is no plugin yet.");
        out.hint("pintle plugin init greeter && pintle plugin push greeter");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["PLUGIN", "VERSIONS", "INSTALLED ON", "WAITS"]);
    for plugin in &plugins {
        let versions: Vec<&str> = plugin.versions.iter().map(|version| version.version.as_str()).collect();
        let waiting = plugin.changed.len() + plugin.moved.len();
        let waiting = if waiting == 0 { "-".to_owned() } else { waiting.to_string() };
        table.row([plugin.name.clone(), versions.join(", "), installed(plugin), waiting]);
    }
    table.print(out)?;
    for plugin in &plugins {
        let lines = notices(plugin);
        if !lines.is_empty() {
            out.line(format_args!("\n{}", bold(&plugin.name)))?;
        }
        for line in lines {
            out.line(format_args!("  {}", waits(line)))?;
        }
    }
    Ok(Exit::Done)
}

/// `EDGE (VERSION), …`, or `-`.
pub(crate) fn installed(plugin: &Plugin) -> String {
    let on: Vec<String> = plugin
        .versions
        .iter()
        .flat_map(|version| version.edges.iter().map(|edge| format!("{edge} ({})", version.version)))
        .collect();
    if on.is_empty() { "-".to_owned() } else { on.join(", ") }
}
