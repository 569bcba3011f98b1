//! `pintle node join`: makes this machine a node of a fleet.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use crate::context::Context;
use crate::exit::Exit;
use crate::output::{good, shown};

/// Flags of `pintle node join`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle node join pintle1.eyJ2Ijox… --name build-7")]
pub(crate) struct Args {
    /// The string that `pintle node token` printed
    #[arg(value_name = "STRING")]
    pub join: String,
    /// The node's name [default: this machine's]
    #[arg(long)]
    pub name: Option<String>,
    /// What the node keeps [default: node in the data folder]
    #[arg(long, value_name = "DIR", env = "PINTLE_NODE_DATA")]
    pub node_data: Option<PathBuf>,
}

/// Joins. Doing it again with the same folder gives the same node.
///
/// # Errors
/// The string is not one, or the control plane does not take it.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let data = args.node_data.clone().unwrap_or_else(|| context.place.node());
    let name = args.name.clone().unwrap_or_else(machine_name);
    let joined = crate::embed::join(args.join.trim(), &data, &name).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"node_id": joined.node.as_str(), "name": joined.name, "edge": joined.edge.as_str(), "data": data}))?;
        return Ok(Exit::Done);
    }
    out.line(good(format!("This machine is node {} of edge {}.", shown::line(&joined.name), joined.edge)))?;
    out.hint("pintle node run");
    Ok(Exit::Done)
}

/// This machine's name, as far as a node may be called so.
fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::fs::read_to_string("/etc/hostname"))
        .or_else(|_| std::env::var("HOSTNAME").map_err(std::io::Error::other));
    let plain: String = name
        .unwrap_or_default()
        .trim()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        .take(64)
        .collect();
    if plain.starts_with(|c: char| c.is_ascii_alphanumeric()) { plain } else { "node".to_owned() }
}
