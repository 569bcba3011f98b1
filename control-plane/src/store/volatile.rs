//! Functions that list themselves differently again and again: their forms are not kept one by one.

use std::sync::Arc;

use domain::id::{PluginName, PluginVersion, ToolId};
use domain::time::Timestamp;

use super::Error;
use super::plugins::read_version;
use super::sql::{Row, Transaction, args, statements};

statements! {
    PUT = "insert into volatile_functions (plugin, version, tool, function, since, last_at, parts) \
           values ($1, $2, $3, $4, $5, $5, $6) on conflict (plugin, version, tool, function) do nothing";
    OF_TOOL = "select plugin, version, tool, function, since, last_at, parts from volatile_functions \
               where plugin = $1 and version = $2 and tool = $3 order by function";
    OF_PLUGIN = "select plugin, version, tool, function, since, last_at, parts from volatile_functions \
                 where plugin = $1 order by version, tool, function";
    TOUCH = "update volatile_functions set last_at = $5 where plugin = $1 and version = $2 and tool = $3 \
             and function = $4 and last_at < $5";
    DROP = "delete from volatile_functions where plugin = $1 and version = $2 and tool = $3 and function = $4";
}

/// A function that is volatile.
#[derive(Debug, Clone)]
pub(crate) struct Volatile {
    pub(crate) version: PluginVersion,
    pub(crate) tool: ToolId,
    pub(crate) function: Arc<str>,
    pub(crate) since: Timestamp,
    /// When it last showed a form that nobody had seen.
    pub(crate) last_at: Timestamp,
    /// JSON pointers to what differs.
    pub(crate) parts: Vec<String>,
}

/// Notes that a function is; answers whether that is new.
pub(crate) async fn put(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    function: &str,
    now: Timestamp,
    parts: &[String],
) -> Result<bool, Error> {
    let parts = serde_json::Value::from(parts).to_string();
    let args = args![&version.plugin, &version.version, tool, function, now, parts];
    Ok(tx.execute(PUT, args).await? == 1)
}

/// Those of a tool, by name.
pub(crate) async fn of_tool(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<Vec<Volatile>, Error> {
    tx.rows(OF_TOOL, args![&version.plugin, &version.version, tool]).await?.iter().map(read).collect()
}

/// Those of a plugin.
pub(crate) async fn of_plugin(tx: &mut Transaction, plugin: &PluginName) -> Result<Vec<Volatile>, Error> {
    tx.rows(OF_PLUGIN, args![plugin]).await?.iter().map(read).collect()
}

/// Notes that it showed a form that nobody had seen.
pub(crate) async fn touch(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    function: &str,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(TOUCH, args![&version.plugin, &version.version, tool, function, now]).await.map(|_| ())
}

/// Notes that it is no longer.
pub(crate) async fn delete(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    function: &str,
) -> Result<(), Error> {
    tx.execute(DROP, args![&version.plugin, &version.version, tool, function]).await.map(|_| ())
}

fn read(row: &Row) -> Result<Volatile, Error> {
    let parts = row.text(6)?;
    Ok(Volatile {
        version: read_version(row, 0)?,
        tool: row.parsed(2, ToolId::parse)?,
        function: row.text(3)?.into(),
        since: row.time(4)?,
        last_at: row.time(5)?,
        parts: serde_json::from_str(&parts)
            .map_err(|fault| Error::inconsistent("the parts of a volatile function", &parts, fault))?,
    })
}
