//! The product's own processes, as the benchmarks start them.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use e2e::fleet::Fleet;
use serde_json::json;

/// A fleet of one node that serves the echo tool over stdio.
pub(crate) struct OneNode {
    /// Where its endpoint is.
    pub(crate) address: SocketAddr,
    /// Its token.
    pub(crate) token: String,
    /// Its process id.
    pub(crate) process: Option<u32>,
    /// Ends with this.
    _fleet: Fleet,
}

/// Starts a control plane and a node with the plugin `echo`, and waits until it is callable.
pub(crate) async fn start_one_node(bench: &str) -> Result<OneNode> {
    let fleet = Fleet::start(1).await?;
    fleet.install("echo", "1.0.0", &json!({"echo": {"command": [bench, "echo-server"]}})).await?;
    fleet.callable("echo.echo", json!({"text": "x"})).await;
    let endpoint = fleet.mcp(0);
    let authority = endpoint.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let address = authority.parse().with_context(|| format!("failed to read the address `{authority}`"))?;
    Ok(OneNode { address, token: endpoint.token.clone(), process: fleet.node_id(0).ok(), _fleet: fleet })
}
