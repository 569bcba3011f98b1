//! What the fleet goes by: per tool whether a snapshot was taken, per function the approved hash.
//!
//! Scope and connection are '' for the fleet and all connections; the narrowest holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::digest::{Digest, ListingHash};
use domain::id::{EdgeName, PluginVersion, ToolId};
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
              and scope = '' and connection = ''";
    LAST_RANK = "select coalesce(max(rank), 0) from snapshots";
    OF_VERSION = "select tool, function, scope, hash, rank, approved_at, approved_by from snapshots \
                  where plugin = $1 and version = $2 and (scope = '' or scope = $3) and connection = '' order by scope";
}

json_statements! {
    /// All of an approval at once: functions and hashes. A function keeps its place in the order from version to version.
    PUT_ALL = "insert into snapshots (plugin, version, tool, function, scope, connection, hash, rank, approved_at, \
               approved_by) select $1, $2, $3, f.function, '', '', f.hash, coalesce((select min(s.rank) from snapshots s \
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

/// Makes these hashes the ones that the fleet goes by. A function that is there keeps its rank; one
/// that another version of the plugin has takes that one's; new ones come last, by name.
pub(crate) async fn put_all(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
    functions: &[(&str, ListingHash)],
    by: By<'_>,
) -> Result<(), Error> {
    let last = tx.row(LAST_RANK, args![]).await?.map_or(Ok(0), |row| row.integer(0))?;
    let rows: serde_json::Value =
        functions.iter().map(|(function, hash)| serde_json::json!([function, hash.to_string()])).collect();
    let args = args![&version.plugin, &version.version, tool, last, by.at, by.who, rows.to_string()];
    tx.execute(PUT_ALL.of(tx), args).await.map(|_| ())
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
    tx.execute(DELETE, args![&version.plugin, &version.version, tool, function]).await.map(|_| ())
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
    let scope = edge.map_or("", EdgeName::as_str);
    // '' sorts first, so an edge's own entry replaces the fleet's.
    for row in tx.rows(OF_VERSION, args![&version.plugin, &version.version, scope]).await? {
        let key = (row.parsed(0, ToolId::parse)?, Arc::from(row.text(1)?));
        snapshot.functions.insert(key, read(&row)?);
    }
    Ok(snapshot)
}

fn read(row: &Row) -> Result<Approved, Error> {
    Ok(Approved { hash: row.hash(3)?, rank: row.count(4)?, at: row.time(5)?, by: row.text(6)? })
}
