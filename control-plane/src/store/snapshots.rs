//! What the fleet goes by: per tool whether a snapshot was taken, per function the approved hash.
//!
//! Scope and connection are '' for the fleet and all connections; the narrowest holds. An edge may also not go
//! by a function that the fleet goes by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::digest::{Digest, ListingHash};
use domain::id::{EdgeName, PluginName, PluginVersion, ToolId};
use domain::time::Timestamp;

use super::Error;
use super::sql::{Row, Transaction, args, json_statements, statements};

statements! {
    TAKE = "insert into snapshots_taken (plugin, version, tool, scope, connection, over_connection, taken_at, taken_from) \
            values ($1, $2, $3, '', '', $4, $5, $6) on conflict (plugin, version, tool, scope, connection) do nothing";
    TAKEN = "select tool, over_connection, taken_at, taken_from from snapshots_taken \
             where plugin = $1 and version = $2 and scope = '' and connection = ''";
    IS_TAKEN = "select 1 from snapshots_taken where plugin = $1 and version = $2 and tool = $3 \
                and scope = '' and connection = ''";
    // All that a list showed, at once. New functions come after the last one, by name.
    PUT_LIST = "insert into snapshots (plugin, version, tool, function, scope, connection, hash, rank, approved_at, \
                approved_by) select $1, $2, $3, l.function, '', '', l.hash, coalesce((select min(s.rank) from snapshots s \
                where s.plugin = $1 and s.tool = $3 and s.function = l.function), \
                $4 + row_number() over (order by l.function)), $5, $6 \
                from list_functions l where l.list = $7 and l.hash is not null";
    DELETE = "delete from snapshots where plugin = $1 and version = $2 and tool = $3 and function = $4 \
              and scope = $5 and connection = ''";
    LAST_RANK = "select coalesce(max(rank), 0) from snapshots";
    OF_VERSION = "select tool, function, scope, hash, rank, approved_at, approved_by from snapshots \
                  where plugin = $1 and version = $2 and (scope = '' or scope = $3) and connection = '' order by scope";
    // What an edge does not go by though the fleet does.
    ABSENT = "insert into snapshots_absent (plugin, version, tool, function, edge, approved_at, approved_by) \
              values ($1, $2, $3, $4, $5, $6, $7) on conflict (plugin, version, tool, function, edge) do nothing";
    PRESENT = "delete from snapshots_absent where plugin = $1 and version = $2 and tool = $3 and function = $4 \
               and edge = $5";
    ABSENT_OF_EDGE = "select tool, function from snapshots_absent where plugin = $1 and version = $2 and edge = $3";
    OWN = "select version, tool, function, scope, hash, approved_at, approved_by from snapshots \
           where plugin = $1 and scope <> '' and connection = '' \
           union all select version, tool, function, edge, '', approved_at, approved_by from snapshots_absent \
           where plugin = $1 order by 4, 1, 2, 3";
    OWNERS = "select scope from snapshots where plugin = $1 and version = $2 and tool = $3 and scope <> '' \
              and connection = '' union select edge from snapshots_absent where plugin = $1 and version = $2 and tool = $3";
}

json_statements! {
    /// All of an approval at once: functions and hashes. A function keeps its place in the order from version to version.
    PUT_ALL = "insert into snapshots (plugin, version, tool, function, scope, connection, hash, rank, approved_at, \
               approved_by) select $1, $2, $3, f.function, $8, '', f.hash, coalesce((select min(s.rank) from snapshots s \
               where s.plugin = $1 and s.tool = $3 and s.function = f.function), \
               $4 + row_number() over (order by f.function)), $5, $6 \
               from (select value ->> 0 as function, value ->> 1 as hash from " rows("$7")
              ") f where true on conflict (plugin, version, tool, function, scope, connection) do update \
               set hash = excluded.hash, approved_at = excluded.approved_at, approved_by = excluded.approved_by";
}

/// That a tool's snapshot was taken.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    /// The connection over which it was listed.
    pub(crate) over_connection: String,
    pub(crate) at: Timestamp,
    /// The node's name.
    pub(crate) from: String,
}

/// What the fleet goes by for one function.
#[derive(Debug, Clone)]
pub(crate) struct Approved {
    pub(crate) hash: ListingHash,
    pub(crate) rank: u64,
    pub(crate) at: Timestamp,
    pub(crate) by: String,
}

/// What the fleet, or an edge, goes by for a version.
#[derive(Debug, Clone, Default)]
pub(crate) struct VersionSnapshot {
    pub(crate) taken: BTreeMap<ToolId, Taken>,
    pub(crate) functions: BTreeMap<(ToolId, Arc<str>), Approved>,
    /// Those about which the edge decided for itself, be it that it does not go by them.
    pub(crate) own: BTreeSet<(ToolId, Arc<str>)>,
}

/// What one edge goes by, or not, whatever the fleet does.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub(crate) edge: EdgeName,
    pub(crate) version: PluginVersion,
    pub(crate) tool: ToolId,
    pub(crate) function: Arc<str>,
    /// `None`: it does not go by the function.
    pub(crate) hash: Option<ListingHash>,
    pub(crate) at: Timestamp,
    pub(crate) by: String,
}

/// Who approved, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct By<'a> {
    pub(crate) at: Timestamp,
    pub(crate) who: &'a str,
}

/// Records that a tool's snapshot was taken for the fleet; answers whether it was the first.
pub(crate) async fn take(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
    over_connection: &str,
    by: By<'_>,
) -> Result<bool, Error> {
    let args = args![&version.plugin, &version.version, tool, over_connection, by.at, by.who];
    Ok(tx.execute(TAKE, args).await? == 1)
}

/// Whether a tool's snapshot was taken for the fleet.
pub(crate) async fn is_taken(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<bool, Error> {
    Ok(tx.row(IS_TAKEN, args![&version.plugin, &version.version, tool]).await?.is_some())
}

/// Makes these hashes the ones that the fleet, or one edge, goes by. A function that is there keeps its
/// rank; one that another version of the plugin has takes that one's; new ones come last, by name.
pub(crate) async fn put_all(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    edge: Option<&EdgeName>,
    functions: &[(&str, ListingHash)],
    by: By<'_>,
) -> Result<(), Error> {
    if functions.is_empty() {
        return Ok(());
    }
    let last = tx.row(LAST_RANK, args![]).await?.map_or(Ok(0), |row| row.integer(0))?;
    let rows: serde_json::Value =
        functions.iter().map(|(function, hash)| serde_json::json!([function, hash.to_string()])).collect();
    let (rows, scope) = (rows.to_string(), scope(edge));
    let args = args![&version.plugin, &version.version, tool, last, by.at, by.who, rows, scope];
    tx.execute(PUT_ALL.of(tx), args).await?;
    if let Some(edge) = edge {
        for (function, _) in functions {
            let args = args![&version.plugin, &version.version, tool, *function, edge];
            tx.execute(PRESENT, args).await?;
        }
    }
    Ok(())
}

/// Makes all that a list showed what the fleet goes by, for a tool that had no snapshot.
pub(crate) async fn put_list(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
    list: &Digest,
    by: By<'_>,
) -> Result<(), Error> {
    let last = tx.row(LAST_RANK, args![]).await?.map_or(Ok(0), |row| row.integer(0))?;
    let args = args![&version.plugin, &version.version, tool, last, by.at, by.who, list];
    tx.execute(PUT_LIST, args).await.map(|_| ())
}

/// Takes a function out of what the fleet goes by.
pub(crate) async fn delete(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
    function: &str,
) -> Result<(), Error> {
    tx.execute(DELETE, args![&version.plugin, &version.version, tool, function, ""]).await.map(|_| ())
}

/// Has an edge not go by a function, whatever the fleet does.
pub(crate) async fn make_absent(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    edge: &EdgeName,
    function: &str,
    by: By<'_>,
) -> Result<(), Error> {
    tx.execute(DELETE, args![&version.plugin, &version.version, tool, function, edge]).await?;
    let args = args![&version.plugin, &version.version, tool, function, edge, by.at, by.who];
    tx.execute(ABSENT, args).await.map(|_| ())
}

/// Has an edge go by what the fleet does for a function.
pub(crate) async fn drop_own(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    edge: &EdgeName,
    function: &str,
) -> Result<(), Error> {
    let args = || args![&version.plugin, &version.version, tool, function, edge];
    tx.execute(DELETE, args()).await?;
    tx.execute(PRESENT, args()).await.map(|_| ())
}

/// All that edges decided for themselves about a plugin, by edge, version, tool and function.
pub(crate) async fn own_of_plugin(tx: &mut Transaction, plugin: &PluginName) -> Result<Vec<Own>, Error> {
    tx.rows(OWN, args![plugin]).await?.iter().map(|row| read_own(plugin, row)).collect()
}

/// The edges that decided for themselves about a function of the tool.
pub(crate) async fn owners(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<BTreeSet<EdgeName>, Error> {
    let rows = tx.rows(OWNERS, args![&version.plugin, &version.version, tool]).await?;
    rows.iter().map(|row| row.parsed(0, EdgeName::parse)).collect()
}

/// What an edge goes by for a version; the fleet's own if no edge is given.
pub(crate) async fn of_version(
    tx: &mut Transaction,
    version: &PluginVersion,
    edge: Option<&EdgeName>,
) -> Result<VersionSnapshot, Error> {
    let mut snapshot = VersionSnapshot::default();
    for row in tx.rows(TAKEN, args![&version.plugin, &version.version]).await? {
        let taken = Taken { over_connection: row.text(1)?, at: row.time(2)?, from: row.text(3)? };
        snapshot.taken.insert(row.parsed(0, ToolId::parse)?, taken);
    }
    // '' sorts first, so an edge's own entry replaces the fleet's.
    for row in tx.rows(OF_VERSION, args![&version.plugin, &version.version, scope(edge)]).await? {
        let key = (row.parsed(0, ToolId::parse)?, Arc::from(row.text(1)?));
        if !row.text(2)?.is_empty() {
            snapshot.own.insert(key.clone());
        }
        snapshot.functions.insert(key, read(&row)?);
    }
    let Some(edge) = edge else { return Ok(snapshot) };
    for row in tx.rows(ABSENT_OF_EDGE, args![&version.plugin, &version.version, edge]).await? {
        let key = (row.parsed(0, ToolId::parse)?, Arc::from(row.text(1)?));
        snapshot.functions.remove(&key);
        snapshot.own.insert(key);
    }
    Ok(snapshot)
}

fn scope(edge: Option<&EdgeName>) -> &str {
    edge.map_or("", EdgeName::as_str)
}

fn read_own(plugin: &PluginName, row: &Row) -> Result<Own, Error> {
    let version = PluginVersion { plugin: plugin.clone(), version: row.parsed(0, semver::Version::parse)? };
    Ok(Own {
        version,
        tool: row.parsed(1, ToolId::parse)?,
        function: row.text(2)?.into(),
        edge: row.parsed(3, EdgeName::parse)?,
        hash: if row.text(4)?.is_empty() { None } else { Some(row.hash(4)?) },
        at: row.time(5)?,
        by: row.text(6)?,
    })
}

fn read(row: &Row) -> Result<Approved, Error> {
    Ok(Approved { hash: row.hash(3)?, rank: row.count(4)?, at: row.time(5)?, by: row.text(6)? })
}
