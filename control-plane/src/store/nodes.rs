//! Nodes, and what each last said that it runs.

use std::collections::HashMap;

use domain::digest::Digest;
use domain::id::{EdgeName, NodeId, NodeName, PluginVersion};
use domain::time::Timestamp;

use super::Error;
use super::plugins::read_version;
use super::sql::{Row, Statement, Transaction, args, statements};

statements! {
    INSERT = "insert into nodes (id, name, edge, public_key_sha256, join_token, agent_version, joined_at) \
              values ($1, $2, $3, $4, $5, $6, $7)";
    BY_ID = "select id, name, edge, public_key_sha256, agent_version, joined_at, last_seen_at from nodes where id = $1";
    BY_NAME = "select id, name, edge, public_key_sha256, agent_version, joined_at, last_seen_at from nodes where name = $1";
    BY_KEY = "select id, name, edge, public_key_sha256, agent_version, joined_at, last_seen_at from nodes \
              where public_key_sha256 = $1";
    LIST = "select id, name, edge, public_key_sha256, agent_version, joined_at, last_seen_at from nodes \
            where name > $1 and ($2 = '' or edge = $2) order by name limit $3";
    COUNT = "select count(*) from nodes";
    ALL = "select id, name, edge, public_key_sha256, agent_version, joined_at, last_seen_at from nodes order by id";
    ALL_VERSIONS = "select plugin, version, state, reason, tools, node from node_versions order by node";
    SET_AGENT = "update nodes set agent_version = $2 where id = $1 and agent_version <> $2";
    VERSIONS = "select plugin, version, state, reason, tools from node_versions where node = $1 order by plugin, version";
    OF_PLUGIN = "select node_versions.plugin, version, state, reason, tools, nodes.name, nodes.edge from node_versions \
                 join nodes on nodes.id = node_versions.node where plugin = $1 order by version, nodes.name";
    OF_EDGE = "select distinct plugin, version from node_versions \
               where node in (select id from nodes where edge = $1) order by plugin, version";
    PUT_VERSION = "insert into node_versions (node, plugin, version, state, reason, tools) values ($1, $2, $3, $4, $5, $6) \
                   on conflict (node, plugin, version) do update \
                   set state = excluded.state, reason = excluded.reason, tools = excluded.tools";
    DROP_VERSION = "delete from node_versions where node = $1 and plugin = $2 and version = $3";
}

/// When nodes were heard of, from a JSON array of pairs; the engines read JSON each in its way.
macro_rules! seen {
    ($rows:literal) => {
        concat!(
            "update nodes set last_seen_at = seen.at from (select value ->> 0 as id, cast(value ->> 1 as bigint) as at ",
            "from ", $rows, ") as seen where nodes.id = seen.id and (last_seen_at is null or last_seen_at < seen.at)"
        )
    };
}
const SEEN_SQLITE: Statement = Statement { name: "SEEN_SQLITE", sql: seen!("json_each($1)") };
const SEEN_POSTGRES: Statement =
    Statement { name: "SEEN_POSTGRES", sql: seen!("json_array_elements(cast($1 as json)) as rows (value)") };

/// A node as it joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its identity.
    pub id: NodeId,
    /// Its name for people.
    pub name: NodeName,
    /// The edge it belongs to.
    pub edge: EdgeName,
    /// SHA-256 of its `SubjectPublicKeyInfo`.
    pub public_key_sha256: Digest,
    /// What it said when it joined, or connected last.
    pub agent_version: String,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When it was last heard of; written in batches.
    pub last_seen_at: Option<Timestamp>,
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

/// Adds a node that joined with a token.
pub(crate) async fn insert(tx: &mut Transaction, node: &NodeRecord, token: &str) -> Result<(), Error> {
    let args = args![
        &node.id,
        &node.name,
        &node.edge,
        &node.public_key_sha256,
        token,
        &node.agent_version,
        node.joined_at
    ];
    tx.execute(INSERT, args).await.map(|_| ())
}

/// By its identity.
pub(crate) async fn get(tx: &mut Transaction, id: &NodeId) -> Result<Option<NodeRecord>, Error> {
    tx.row(BY_ID, args![id]).await?.as_ref().map(read).transpose()
}

/// By its name.
pub(crate) async fn by_name(tx: &mut Transaction, name: &str) -> Result<Option<NodeRecord>, Error> {
    tx.row(BY_NAME, args![name]).await?.as_ref().map(read).transpose()
}

/// By its public key.
pub(crate) async fn by_key(tx: &mut Transaction, key: &Digest) -> Result<Option<NodeRecord>, Error> {
    tx.row(BY_KEY, args![key]).await?.as_ref().map(read).transpose()
}

/// Nodes after a name, by name; of one edge unless `edge` is empty.
pub(crate) async fn list(
    tx: &mut Transaction,
    after: &str,
    edge: &str,
    limit: u64,
) -> Result<Vec<NodeRecord>, Error> {
    tx.rows(LIST, args![after, edge, limit]).await?.iter().map(read).collect()
}

/// How many there are.
pub(crate) async fn count(tx: &mut Transaction) -> Result<u64, Error> {
    tx.row(COUNT, args![]).await?.map_or(Ok(0), |row| row.count(0))
}

/// Notes when nodes were heard of, all in one statement.
pub(crate) async fn seen(tx: &mut Transaction, batch: &[(NodeId, Timestamp)]) -> Result<(), Error> {
    let rows: serde_json::Value =
        batch.iter().map(|(node, at)| serde_json::json!([node.as_str(), at.as_millis()])).collect();
    tx.execute(seen_statement(tx.is_postgres()), args![rows.to_string()]).await.map(|_| ())
}

/// The engine's statement.
const fn seen_statement(is_postgres: bool) -> Statement {
    if is_postgres { SEEN_POSTGRES } else { SEEN_SQLITE }
}

/// The statements that only this engine takes.
#[cfg(test)]
pub(crate) const fn own_statements(is_postgres: bool) -> [Statement; 1] {
    [seen_statement(is_postgres)]
}

/// All of them, by identity: what a server that starts takes into its memory.
pub(crate) async fn all(tx: &mut Transaction) -> Result<Vec<NodeRecord>, Error> {
    tx.rows(ALL, args![]).await?.iter().map(read).collect()
}

/// What each last said that it runs.
pub(crate) async fn all_versions(tx: &mut Transaction) -> Result<HashMap<NodeId, Vec<NodeVersion>>, Error> {
    let mut all: HashMap<NodeId, Vec<NodeVersion>> = HashMap::new();
    for row in tx.rows(ALL_VERSIONS, args![]).await? {
        all.entry(row.parsed(5, NodeId::parse)?).or_default().push(read_node_version(&row)?);
    }
    Ok(all)
}

/// Notes the version of its agent.
pub(crate) async fn set_agent(tx: &mut Transaction, id: &NodeId, version: &str) -> Result<(), Error> {
    tx.execute(SET_AGENT, args![id, version]).await.map(|_| ())
}

/// What it last said that it runs.
pub(crate) async fn versions(tx: &mut Transaction, id: &NodeId) -> Result<Vec<NodeVersion>, Error> {
    tx.rows(VERSIONS, args![id]).await?.iter().map(read_node_version).collect()
}

/// What all nodes last said of a plugin, with the node's name and edge.
pub(crate) async fn versions_of_plugin(
    tx: &mut Transaction,
    plugin: &str,
) -> Result<Vec<(NodeVersion, String, String)>, Error> {
    let rows = tx.rows(OF_PLUGIN, args![plugin]).await?;
    rows.iter().map(|row| Ok((read_node_version(row)?, row.text(5)?, row.text(6)?))).collect()
}

/// The versions that any node of an edge last said that it runs.
pub(crate) async fn versions_on_edge(
    tx: &mut Transaction,
    edge: &EdgeName,
) -> Result<Vec<PluginVersion>, Error> {
    tx.rows(OF_EDGE, args![edge]).await?.iter().map(|row| read_version(row, 0)).collect()
}

/// Notes how a version stands on a node.
pub(crate) async fn put_version(
    tx: &mut Transaction,
    id: &NodeId,
    version: &NodeVersion,
) -> Result<(), Error> {
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
pub(crate) async fn drop_version(
    tx: &mut Transaction,
    id: &NodeId,
    version: &PluginVersion,
) -> Result<(), Error> {
    tx.execute(DROP_VERSION, args![id, &version.plugin, &version.version]).await.map(|_| ())
}

fn read(row: &Row) -> Result<NodeRecord, Error> {
    Ok(NodeRecord {
        id: row.parsed(0, NodeId::parse)?,
        name: row.parsed(1, NodeName::parse)?,
        edge: row.parsed(2, EdgeName::parse)?,
        public_key_sha256: row.digest(3)?,
        agent_version: row.text(4)?,
        joined_at: row.time(5)?,
        last_seen_at: row.integer_or_null(6)?.map(Timestamp::from_millis),
    })
}

fn read_node_version(row: &Row) -> Result<NodeVersion, Error> {
    Ok(NodeVersion {
        version: read_version(row, 0)?,
        state: row.text(2)?,
        reason: row.text(3)?,
        tools: row.text(4)?,
    })
}
