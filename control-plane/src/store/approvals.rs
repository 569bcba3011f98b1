//! What each approval replaced, so that it can be undone.

use std::sync::Arc;

use domain::digest::ListingHash;
use domain::id::{EdgeName, PluginName, PluginVersion, ToolId};
use domain::time::Timestamp;

use super::plugins::read_version;
use super::sql::{Row, Transaction, args, json_statements, statements};
use super::{By, Error, listings};

statements! {
    LAST_ID = "select coalesce(max(id), 0) from approvals";
    LATEST = "select id, plugin, version, tool, function, scope, earlier, now, approved_at, approved_by from approvals \
              where plugin = $1 and id = (select max(id) from approvals where plugin = $1 and undone_at is null) \
              and undone_at is null order by version, tool, function, scope";
    UNDO = "update approvals set undone_at = $2 where id = $1 and undone_at is null and version = $3 and tool = $4 \
            and function = $5 and scope = $6";
    OLD = "select id, earlier, now from approvals where plugin = $1 and id not in \
           (select id from (select distinct id from approvals where plugin = $1 order by id desc limit $2) as newest)";
    DROP = "delete from approvals where plugin = $1 and id = $2";
}

json_statements! {
    /// Many at once: version, tool, function, scope, earlier, now.
    PUT = "insert into approvals (id, plugin, version, tool, function, scope, earlier, now, approved_at, approved_by) \
           select $1, $2, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, $3, $4 from "
          rows("$5") "";
}

/// What one approval did to one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) version: PluginVersion,
    pub(crate) tool: ToolId,
    pub(crate) function: Arc<str>,
    /// The edge that alone goes by it; `None`: the fleet.
    pub(crate) edge: Option<EdgeName>,
    /// What was gone by before; `None`: nothing.
    pub(crate) earlier: Option<ListingHash>,
    /// What is gone by since; `None`: nothing.
    pub(crate) now: Option<ListingHash>,
}

/// An approval as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Act {
    pub(crate) id: u64,
    pub(crate) at: Timestamp,
    pub(crate) by: String,
    /// What of it was not undone yet.
    pub(crate) replaced: Vec<Replaced>,
}

/// Keeps what an approval replaced.
pub(crate) async fn put(
    tx: &mut Transaction,
    plugin: &PluginName,
    replaced: &[Replaced],
    by: By<'_>,
) -> Result<(), Error> {
    let id = tx.row(LAST_ID, args![]).await?.map_or(Ok(0), |row| row.count(0))? + 1;
    let rows: serde_json::Value = replaced
        .iter()
        .map(|one| {
            serde_json::json!([
                one.version.version.to_string(),
                one.tool.as_str(),
                &*one.function,
                scope(one),
                text(one.earlier),
                text(one.now)
            ])
        })
        .collect();
    tx.execute(PUT.of(tx), args![id, plugin, by.at, by.who, rows.to_string()]).await.map(|_| ())
}

/// The newest approval of a plugin of which something was not undone.
pub(crate) async fn latest(tx: &mut Transaction, plugin: &PluginName) -> Result<Option<Act>, Error> {
    let rows = tx.rows(LATEST, args![plugin]).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    Ok(Some(Act {
        id: first.count(0)?,
        at: first.time(8)?,
        by: first.text(9)?,
        replaced: rows.iter().map(read).collect::<Result<_, _>>()?,
    }))
}

/// Notes that what an approval did to a function was undone.
pub(crate) async fn undone(
    tx: &mut Transaction,
    id: u64,
    one: &Replaced,
    now: Timestamp,
) -> Result<(), Error> {
    let args = args![id, now, &one.version.version, &one.tool, &*one.function, scope(one)];
    tx.execute(UNDO, args).await.map(|_| ())
}

/// Drops all but the newest `keep` approvals of a plugin; the audit log has them.
pub(crate) async fn prune(tx: &mut Transaction, plugin: &PluginName, keep: u64) -> Result<(), Error> {
    let rows = tx.rows(OLD, args![plugin, keep]).await?;
    for row in &rows {
        tx.execute(DROP, args![plugin, row.count(0)?]).await?;
    }
    for row in &rows {
        for at in [1, 2] {
            if let Ok(hash) = ListingHash::parse(&row.text(at)?) {
                listings::drop_text(tx, &hash).await?;
            }
        }
    }
    Ok(())
}

fn scope(one: &Replaced) -> &str {
    one.edge.as_ref().map_or("", EdgeName::as_str)
}

fn text(hash: Option<ListingHash>) -> String {
    hash.map(|hash| hash.to_string()).unwrap_or_default()
}

fn read(row: &Row) -> Result<Replaced, Error> {
    let hash = |at: usize| -> Result<Option<ListingHash>, Error> {
        if row.text(at)?.is_empty() { Ok(None) } else { row.hash(at).map(Some) }
    };
    Ok(Replaced {
        version: read_version(row, 1)?,
        tool: row.parsed(3, ToolId::parse)?,
        function: row.text(4)?.into(),
        edge: if row.text(5)?.is_empty() { None } else { Some(row.parsed(5, EdgeName::parse)?) },
        earlier: hash(6)?,
        now: hash(7)?,
    })
}
