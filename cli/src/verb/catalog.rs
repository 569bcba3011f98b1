//! `pintle catalog`: every function that the fleet knows, with its state.

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::CatalogEntry;
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Table, shown};

/// Characters of a description in a cell.
const DESCRIPTION: usize = 120;

/// Flags of `pintle catalog`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  pintle catalog --edge eu-1\n  pintle catalog --json | jq '.items[].seen'"
)]
pub(crate) struct Args {
    /// Only what is installed on this edge
    #[arg(long)]
    pub edge: Option<String>,
    /// Only this plugin's functions
    #[arg(long)]
    pub plugin: Option<String>,
}

/// Prints the table.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let asked = [("edge", &args.edge), ("plugin", &args.plugin)];
    let query: Vec<String> = asked
        .iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={}", escape(value))))
        .collect();
    let path = if query.is_empty() { "/catalog".to_owned() } else { format!("/catalog?{}", query.join("&")) };
    let items: Vec<Value> = context.client()?.list(&path).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"items": items}))?;
        return Ok(Exit::Done);
    }
    let entries: Vec<CatalogEntry> = serde_json::from_value(Value::Array(items))?;
    if entries.is_empty() {
        out.note("No function is known yet: a version has to be assigned to an edge with a node.");
        out.hint("pintle plugin list");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["FUNCTION", "STATE", "PLUGIN", "EDGE", "DESCRIPTION"]);
    for entry in &entries {
        let plugin = format!("{}@{}", entry.plugin, entry.version);
        table.row([&entry.id, &entry.state, &plugin, &entry.edge, &description(entry)]);
    }
    table.print(out)?;
    if entries.iter().any(|entry| matches!(entry.state.as_str(), "drifted" | "new" | "gone" | "moved")) {
        out.hint("pintle plugin list   says what waits for approval");
    }
    Ok(Exit::Done)
}

fn description(entry: &CatalogEntry) -> String {
    let listing = entry.listing.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let text = listing.as_ref().and_then(|listing| listing.get("description")).and_then(Value::as_str);
    shown::cut(text.unwrap_or_default(), DESCRIPTION)
}
