//! What each node last said that it runs.

use std::collections::HashMap;

use domain::id::{EdgeName, NodeId, PluginVersion};

use super::super::Error;
use super::super::plugins::read_version;
use super::super::sql::{Row, Transaction, args, json_statements, statements};

statements! {
    ALL_VERSIONS = "select plugin, version, state, reason, tools, node from node_versions order by node";
    VERSIONS = "select plugin, version, state, reason, tools from node_versions where node = $1 order by plugin, version";
    OF_PLUGIN = "select node_versions.plugin, version, state, reason, tools, nodes.name, nodes.edge from node_versions \
                 join nodes on nodes.id = node_versions.node where plugin = $1 order by version, nodes.name";
    OF_EDGE = "select distinct plugin, version from node_versions \
               where node in (select id from nodes where edge = $1) order by plugin, version";
    PUT_VERSION = "insert into node_versions (node, plugin, version, state, reason, tools) values ($1, $2, $3, $4, $5, $6) \
                   on conflict (node, plugin, version) do update \
                   set state = excluded.state, reason = excluded.reason, tools = excluded.tools";
    DROP_VERSION = "delete from node_versions where node = $1 and plugin = $2 and version = $3";
    DELETE_VERSIONS = "delete from node_versions where node = $1";
}

json_statements! {
    /// Of the nodes of these identities.
    OF_NODES = "select plugin, version, state, reason, tools, node from node_versions \
                where node in (select value ->> 0 from " rows("$1") ")";
}

/// How one version stands on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeVersion {
    pub(crate) version: PluginVersion,
    pub(crate) state: String,
    pub(crate) reason: String,
    /// JSON array of `{tool, state, reason, confined}`.
    pub(crate) tools: String,
}

/// What each last said that it runs.
pub(crate) async fn all(tx: &mut Transaction) -> Result<HashMap<NodeId, Vec<NodeVersion>>, Error> {
    by_node(&tx.rows(ALL_VERSIONS, args![]).await?)
}

/// The same of some.
pub(crate) async fn of_nodes(
    tx: &mut Transaction,
    which: &[NodeId],
) -> Result<HashMap<NodeId, Vec<NodeVersion>>, Error> {
    let rows: serde_json::Value = which.iter().map(|node| serde_json::json!([node.as_str()])).collect();
    by_node(&tx.rows(OF_NODES.of(tx), args![rows.to_string()]).await?)
}

/// What it last said that it runs.
pub(crate) async fn of(tx: &mut Transaction, id: &NodeId) -> Result<Vec<NodeVersion>, Error> {
    tx.rows(VERSIONS, args![id]).await?.iter().map(read_node_version).collect()
}

/// What all nodes last said of a plugin, with the node's name and edge.
pub(crate) async fn of_plugin(
    tx: &mut Transaction,
    plugin: &str,
) -> Result<Vec<(NodeVersion, String, String)>, Error> {
    let rows = tx.rows(OF_PLUGIN, args![plugin]).await?;
    rows.iter().map(|row| Ok((read_node_version(row)?, row.text(5)?, row.text(6)?))).collect()
}

/// The versions that any node of an edge last said that it runs.
pub(crate) async fn of_edge(tx: &mut Transaction, edge: &EdgeName) -> Result<Vec<PluginVersion>, Error> {
    tx.rows(OF_EDGE, args![edge]).await?.iter().map(|row| read_version(row, 0)).collect()
}

/// Notes how a version stands on a node.
pub(crate) async fn put(tx: &mut Transaction, id: &NodeId, version: &NodeVersion) -> Result<(), Error> {
    let args = args![
        id,
        &version.version.plugin,
        &version.version.version,
        &version.state,
        &version.reason,
        &version.tools
    ];
    tx.execute(PUT_VERSION, args).await.map(|_| ())
}

/// Notes that a node has a version no longer.
pub(crate) async fn drop(tx: &mut Transaction, id: &NodeId, version: &PluginVersion) -> Result<(), Error> {
    tx.execute(DROP_VERSION, args![id, &version.plugin, &version.version]).await.map(|_| ())
}

/// Forgets what it said.
pub(crate) async fn forget(tx: &mut Transaction, id: &NodeId) -> Result<(), Error> {
    tx.execute(DELETE_VERSIONS, args![id]).await.map(|_| ())
}

fn by_node(rows: &[Row]) -> Result<HashMap<NodeId, Vec<NodeVersion>>, Error> {
    let mut all: HashMap<NodeId, Vec<NodeVersion>> = HashMap::new();
    for row in rows {
        all.entry(row.parsed(5, NodeId::parse)?).or_default().push(read_node_version(row)?);
    }
    Ok(all)
}

fn read_node_version(row: &Row) -> Result<NodeVersion, Error> {
    Ok(NodeVersion {
        version: read_version(row, 0)?,
        state: row.text(2)?,
        reason: row.text(3)?,
        tools: row.text(4)?,
    })
}
