//! Versions that an edge tries beside the installed one, and the grants by which nodes serve them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use domain::id::{EdgeName, NodeId, NodeName, PluginName, PluginVersion};
use domain::plugin_set::{Grant, GrantUse, Grants};
use domain::time::Timestamp;

use super::plugins::read_version;
use super::sql::{Row, Transaction, args, statements};
use super::{By, Error};

statements! {
    PUT = "insert into candidates (source, edge, plugin, version, set_at, set_by) values ($1, $2, $3, $4, $5, $6)";
    END = "update candidates set ended_at = $3 where edge = $1 and plugin = $2 and ended_at is null";
    OF_EDGE = "select source, plugin, version, set_at, set_by from candidates where edge = $1 and ended_at is null \
               order by plugin";
    EDGES_OF_PLUGIN = "select distinct edge from candidates where plugin = $1 and ended_at is null order by edge";
    SET_BY = "select 1 from candidates where plugin = $1 and version = $2 and set_by = $3 and ended_at is null limit 1";
    GRANT = "insert into grants (node, plugin, source, version, usage, granted_at, granted_by) \
             values ($1, $2, $3, $4, 'serve', $5, $6) on conflict (node, plugin) do update \
             set source = excluded.source, version = excluded.version, usage = excluded.usage, \
             granted_at = excluded.granted_at, granted_by = excluded.granted_by";
    TAKE_BACK = "delete from grants where node = $1 and plugin = $2";
    // A grant whose candidate ended says nothing.
    DROP_DEAD = "delete from grants where node = $1 and not exists \
                 (select 1 from candidates where candidates.source = grants.source and ended_at is null)";
    OF_NODE = "select plugin, version, source, usage from grants where node = $1 order by plugin";
    ALL = "select plugin, version, source, usage, node from grants";
    OF_SOURCE = "select nodes.id, nodes.name from grants join nodes on nodes.id = grants.node where grants.source = $1 \
                 order by nodes.name";
}

/// A version that an edge tries.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// What grants name.
    pub(crate) source: Arc<str>,
    pub(crate) version: PluginVersion,
    pub(crate) set_at: Timestamp,
    pub(crate) set_by: String,
}

/// Has the edge try a version from here on; it tries none of the plugin yet.
pub(crate) async fn put(tx: &mut Transaction, edge: &EdgeName, candidate: &Candidate) -> Result<(), Error> {
    let (plugin, version) = (&candidate.version.plugin, &candidate.version.version);
    let args = args![&*candidate.source, edge, plugin, version, candidate.set_at, &candidate.set_by];
    tx.execute(PUT, args).await.map(|_| ())
}

/// Ends what the edge tries of a plugin, if it does.
pub(crate) async fn end(
    tx: &mut Transaction,
    edge: &EdgeName,
    plugin: &PluginName,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(END, args![edge, plugin, now]).await.map(|_| ())
}

/// Whether some edge tries the version because this person said so.
pub(crate) async fn set_by(tx: &mut Transaction, version: &PluginVersion, who: &str) -> Result<bool, Error> {
    Ok(tx.row(SET_BY, args![&version.plugin, &version.version, who]).await?.is_some())
}

/// The edges that try a version of the plugin.
pub(crate) async fn edges_of_plugin(
    tx: &mut Transaction,
    plugin: &PluginName,
) -> Result<Vec<EdgeName>, Error> {
    let rows = tx.rows(EDGES_OF_PLUGIN, args![plugin]).await?;
    rows.iter().map(|row| row.parsed(0, EdgeName::parse)).collect()
}

/// What an edge tries, by plugin.
pub(crate) async fn of_edge(tx: &mut Transaction, edge: &EdgeName) -> Result<Vec<Candidate>, Error> {
    tx.rows(OF_EDGE, args![edge]).await?.iter().map(read).collect()
}

/// What an edge tries of a plugin.
pub(crate) async fn of_plugin(
    tx: &mut Transaction,
    edge: &EdgeName,
    plugin: &PluginName,
) -> Result<Option<Candidate>, Error> {
    Ok(of_edge(tx, edge).await?.into_iter().find(|one| one.version.plugin == *plugin))
}

/// Grants a candidate to a node, in place of what it was granted of the plugin before.
pub(crate) async fn grant(
    tx: &mut Transaction,
    node: &NodeId,
    candidate: &Candidate,
    by: By<'_>,
) -> Result<(), Error> {
    drop_dead(tx, node).await?;
    let (plugin, version) = (&candidate.version.plugin, &candidate.version.version);
    let args = args![node, plugin, &*candidate.source, version, by.at, by.who];
    tx.execute(GRANT, args).await.map(|_| ())
}

/// Takes a grant back from a node.
pub(crate) async fn take_back(tx: &mut Transaction, node: &NodeId, plugin: &PluginName) -> Result<(), Error> {
    drop_dead(tx, node).await?;
    tx.execute(TAKE_BACK, args![node, plugin]).await.map(|_| ())
}

/// The node's grants change anyway, so what counts no longer may go with it.
async fn drop_dead(tx: &mut Transaction, node: &NodeId) -> Result<(), Error> {
    tx.execute(DROP_DEAD, args![node]).await.map(|_| ())
}

/// What a node is granted, whether or not it counts.
pub(crate) async fn of_node(tx: &mut Transaction, node: &NodeId) -> Result<Grants, Error> {
    let mut grants = Grants::default();
    for row in tx.rows(OF_NODE, args![node]).await? {
        add(&mut grants, &row)?;
    }
    Ok(grants)
}

/// What all nodes are granted.
pub(crate) async fn all(tx: &mut Transaction) -> Result<HashMap<NodeId, Grants>, Error> {
    let mut all: HashMap<NodeId, Grants> = HashMap::new();
    for row in tx.rows(ALL, args![]).await? {
        add(all.entry(row.parsed(4, NodeId::parse)?).or_default(), &row)?;
    }
    Ok(all)
}

fn add(grants: &mut Grants, row: &Row) -> Result<(), Error> {
    let version = read_version(row, 0)?;
    let usage = row.parsed(3, |text| GrantUse::parse(text).ok_or("no use of a grant"))?;
    let grant = Grant { source: row.text(2)?.into(), version: version.clone(), usage };
    grants.plugins.insert(version.plugin, grant);
    Ok(())
}

/// The nodes that a source grants its version to, by name.
pub(crate) async fn nodes_of(
    tx: &mut Transaction,
    source: &str,
) -> Result<BTreeSet<(NodeName, NodeId)>, Error> {
    let rows = tx.rows(OF_SOURCE, args![source]).await?;
    rows.iter().map(|row| Ok((row.parsed(1, NodeName::parse)?, row.parsed(0, NodeId::parse)?))).collect()
}

fn read(row: &Row) -> Result<Candidate, Error> {
    Ok(Candidate {
        source: row.text(0)?.into(),
        version: read_version(row, 1)?,
        set_at: row.time(3)?,
        set_by: row.text(4)?,
    })
}
