//! `pintle node list`: every node.

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::Node;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Table, shown, waits};

/// Flags of `pintle node list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle node list --edge eu-1")]
pub(crate) struct Args {
    /// Only the nodes of this edge
    #[arg(long)]
    pub edge: Option<String>,
}

/// Prints the table, then what is wrong with each node that has a problem.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let mut items: Vec<Value> = context.client()?.list("/nodes").await?;
    if let Some(edge) = &args.edge {
        items.retain(|node| node.get("edge").and_then(Value::as_str) == Some(edge));
    }
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"items": items}))?;
        return Ok(Exit::Done);
    }
    let nodes: Vec<Node> = serde_json::from_value(Value::Array(items))?;
    if nodes.is_empty() {
        out.note("There is no node yet.");
        out.hint("pintle node token --edge EDGE");
        return Ok(Exit::Done);
    }
    let mut table =
        Table::new(&["NODE", "EDGE", "STANDING", "CONNECTED", "LAST SEEN", "AGENT", "LABELS", "ID"]);
    for node in &nodes {
        let connected = if node.connected { "yes" } else { "no" };
        let seen = node.last_seen.as_deref().unwrap_or("-");
        let agent = node.agent_version.as_deref().unwrap_or("-");
        let (standing, labels) = (node.standing(), node.labels());
        table.row([node.name.as_str(), &node.edge, standing, connected, seen, agent, &labels, &node.id]);
    }
    table.print(out)?;
    for node in &nodes {
        for problem in node.problems.iter().cloned().chain(node.standing_problem()) {
            out.line(waits(format!("  {}: {}", shown::line(&node.name), shown::line(&problem))))?;
        }
    }
    Ok(Exit::Done)
}
