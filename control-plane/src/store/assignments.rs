//! Which version of a plugin each edge goes by, and which it went by before.

use std::collections::BTreeSet;

use domain::id::{EdgeName, NodeId, PluginName, PluginVersion};
use domain::time::Timestamp;

use super::Error;
use super::plugins::read_version;
use super::sql::{Row, Transaction, args, statements};

statements! {
    PUT = "insert into assignments (edge, plugin, version, assigned_at, assigned_by) values ($1, $2, $3, $4, $5) \
           on conflict (edge, plugin) do update set version = excluded.version, assigned_at = excluded.assigned_at, \
           assigned_by = excluded.assigned_by";
    DELETE = "delete from assignments where edge = $1 and plugin = $2";
    OF_EDGE = "select edge, plugin, version, assigned_at, assigned_by from assignments where edge = $1 order by plugin";
    OF_PLUGIN = "select edge, plugin, version, assigned_at, assigned_by from assignments where plugin = $1 order by edge";
    INSTALL = "insert into installations (edge, plugin, ordinal, version, installed_at) \
               select $1, $2, coalesce(max(ordinal), 0) + 1, $3, $4 from installations where edge = $1 and plugin = $2";
    HISTORY = "select plugin, version from installations where edge = $1 and plugin = $2 order by ordinal desc";
    EVER_ON = "select plugin, version from installations where edge = $1 \
               union select plugin, version from candidates where edge = $1";
    // $4: a node that does not count; '' for none.
    IS_ON = "select 1 where exists (select 1 from assignments where edge = $1 and plugin = $2 and version = $3) \
             or exists (select 1 from candidates where edge = $1 and plugin = $2 and version = $3 and ended_at is null) \
             or exists (select 1 from nodes join node_versions on node_versions.node = nodes.id where nodes.edge = $1 \
             and node_versions.plugin = $2 and node_versions.version = $3 and nodes.id <> $4)";
    EDGES_WITH = "select edge from assignments where plugin = $1 and version = $2 \
                  union select edge from candidates where plugin = $1 and version = $2 and ended_at is null \
                  union select nodes.edge from node_versions join nodes on nodes.id = node_versions.node \
                  where node_versions.plugin = $1 and node_versions.version = $2";
}

/// One assignment.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub(crate) edge: EdgeName,
    pub(crate) version: PluginVersion,
    pub(crate) assigned_at: Timestamp,
    pub(crate) assigned_by: String,
}

/// Sets it, and remembers that the version was installed there.
pub(crate) async fn put(tx: &mut Transaction, assignment: &Assignment) -> Result<(), Error> {
    let (plugin, version) = (&assignment.version.plugin, &assignment.version.version);
    let at = assignment.assigned_at;
    tx.execute(PUT, args![&assignment.edge, plugin, version, at, &assignment.assigned_by]).await?;
    tx.execute(INSTALL, args![&assignment.edge, plugin, version, at]).await.map(|_| ())
}

/// Takes it away.
pub(crate) async fn delete(tx: &mut Transaction, edge: &EdgeName, plugin: &PluginName) -> Result<(), Error> {
    tx.execute(DELETE, args![edge, plugin]).await.map(|_| ())
}

/// What an edge goes by, by plugin.
pub(crate) async fn of_edge(tx: &mut Transaction, edge: &EdgeName) -> Result<Vec<Assignment>, Error> {
    tx.rows(OF_EDGE, args![edge]).await?.iter().map(read).collect()
}

/// Where a plugin is assigned, by edge.
pub(crate) async fn of_plugin(tx: &mut Transaction, plugin: &PluginName) -> Result<Vec<Assignment>, Error> {
    tx.rows(OF_PLUGIN, args![plugin]).await?.iter().map(read).collect()
}

/// Every version that was ever installed on an edge, the last installed first; versions repeat.
pub(crate) async fn history(
    tx: &mut Transaction,
    edge: &EdgeName,
    plugin: &PluginName,
) -> Result<Vec<PluginVersion>, Error> {
    tx.rows(HISTORY, args![edge, plugin]).await?.iter().map(|row| read_version(row, 0)).collect()
}

/// Every version that an edge ever went by or tried: what its nodes can have.
pub(crate) async fn ever_on(tx: &mut Transaction, edge: &EdgeName) -> Result<BTreeSet<PluginVersion>, Error> {
    tx.rows(EVER_ON, args![edge]).await?.iter().map(|row| read_version(row, 0)).collect()
}

/// Whether the trust of an edge speaks of a version, whatever the node `but` says; cheap, since it
/// ends at the first who has it.
pub(crate) async fn is_on(
    tx: &mut Transaction,
    edge: &EdgeName,
    version: &PluginVersion,
    but: Option<&NodeId>,
) -> Result<bool, Error> {
    let but = but.map_or("", NodeId::as_str);
    Ok(tx.row(IS_ON, args![edge, &version.plugin, &version.version, but]).await?.is_some())
}

/// Edges whose trust speaks of a version: it is assigned or tried there, or a node there last said it
/// runs it.
pub(crate) async fn edges_with(
    tx: &mut Transaction,
    version: &PluginVersion,
) -> Result<Vec<EdgeName>, Error> {
    let rows = tx.rows(EDGES_WITH, args![&version.plugin, &version.version]).await?;
    rows.iter().map(|row| row.parsed(0, EdgeName::parse)).collect()
}

fn read(row: &Row) -> Result<Assignment, Error> {
    Ok(Assignment {
        edge: row.parsed(0, EdgeName::parse)?,
        version: read_version(row, 1)?,
        assigned_at: row.time(3)?,
        assigned_by: row.text(4)?,
    })
}
