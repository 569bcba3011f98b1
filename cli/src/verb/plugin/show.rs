//! `pintle plugin show`: one plugin, its versions, what its nodes do, what needs attention.

use anyhow::Result;
use serde_json::Value;

use super::notices::notices;
use crate::api::Plugin;
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Table, bold, shown, waits};

/// Flags of `pintle plugin show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle plugin show team")]
pub(crate) struct Args {
    /// The plugin
    pub name: String,
}

/// Prints it.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let document: Value = context.client()?.get(&format!("/plugins/{}", escape(&args.name))).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let plugin: Plugin = serde_json::from_value(document)?;
    out.line(bold(shown::line(&plugin.name)))?;
    let mut versions = Table::new(&["VERSION", "INSTALLED ON", "PUSHED", "CONTENT DIGEST"]);
    for version in &plugin.versions {
        let edges = if version.edges.is_empty() { "-".to_owned() } else { version.edges.join(", ") };
        versions.row([
            version.version.clone(),
            edges,
            version.pushed_at.clone(),
            version.content_digest.clone(),
        ]);
    }
    versions.print(out)?;
    if !plugin.nodes.is_empty() {
        let mut nodes = Table::new(&["NODE", "EDGE", "VERSION", "STATE", "REASON"]);
        for node in &plugin.nodes {
            let reason = node.reason.clone().unwrap_or_default();
            nodes.row([&node.node, &node.edge, &node.version, &node.state, &reason]);
        }
        out.line("")?;
        nodes.print(out)?;
    }
    for line in notices(&plugin) {
        out.line(format_args!("  {}", waits(line)))?;
    }
    if plugin.versions.iter().all(|version| version.edges.is_empty())
        && let Some(newest) = plugin.versions.last()
    {
        out.hint(format_args!("pintle assign {}@{} --edge EDGE", plugin.name, newest.version));
    }
    Ok(Exit::Done)
}
