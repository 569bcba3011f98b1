//! `pintle node show`: one node.

use anyhow::Result;
use serde_json::Value;

use crate::api::Node;
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Table, shown, waits};

/// Flags of `pintle node show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle node show node-1")]
pub(crate) struct Args {
    /// The node, by name or id
    #[arg(value_name = "NODE")]
    pub name: String,
}

/// Prints what the node is, has and is granted, and what is wrong with it.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let document: Value = context.client()?.get(&format!("/nodes/{}", escape(&args.name))).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let node: Node = serde_json::from_value(document)?;
    let connected = if node.connected { "connected" } else { "not connected" };
    out.line(format_args!(
        "{} of edge {}: {}, {connected}, last seen {}, agent {}, id {}",
        shown::line(&node.name),
        shown::line(&node.edge),
        shown::line(node.standing()),
        node.last_seen.as_deref().unwrap_or("never"),
        shown::line(node.agent_version.as_deref().unwrap_or("-")),
        shown::line(&node.id),
    ))?;
    let until = node.certificate.as_ref().and_then(|certificate| certificate.until.as_deref());
    out.line(format_args!("  labels {}, certificate until {}", node.labels(), until.unwrap_or("-")))?;
    let mut table = Table::new(&["PLUGIN", "VERSION", "STATE", "GRANTED", "REASON"]);
    for one in &node.versions {
        let is_granted =
            node.grants.iter().any(|grant| grant.plugin == one.plugin && grant.version == one.version);
        let reason = one.reason.as_deref().unwrap_or_default();
        table.row([&*one.plugin, &*one.version, &*one.state, if is_granted { "yes" } else { "" }, reason]);
    }
    for grant in node.grants.iter().filter(|grant| {
        !node.versions.iter().any(|one| one.plugin == grant.plugin && one.version == grant.version)
    }) {
        table.row([&*grant.plugin, &*grant.version, "waiting", "yes", ""]);
    }
    table.print(out)?;
    for tool in node.versions.iter().flat_map(|one| &one.tools) {
        let reason =
            if tool.reason.is_empty() { String::new() } else { format!(" ({})", shown::line(&tool.reason)) };
        let confined = if tool.confined.is_empty() {
            String::new()
        } else {
            format!("; confined {}", shown::line(&tool.confined))
        };
        out.line(format_args!(
            "  tool {}: {}{reason}{confined}",
            shown::line(&tool.tool),
            shown::line(&tool.state)
        ))?;
    }
    for problem in node.problems.iter().cloned().chain(node.standing_problem()) {
        out.line(waits(format!("  {}", shown::line(&problem))))?;
    }
    if !node.sessions.is_empty() {
        let mut sessions = Table::new(&["SESSION", "ADDRESS", "RUN", "LAST SEEN"]);
        for session in &node.sessions {
            let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let number = session.session.to_string();
            sessions.row([number, text(&session.address), text(&session.boot), session.last_seen.clone()]);
        }
        sessions.print(out)?;
        out.hint(format_args!("pintle node keep {} --session SESSION", shown::line(&node.name)));
    }
    Ok(Exit::Done)
}
