//! Each way in which a function differs, or differed, from what the fleet goes by.

use std::sync::Arc;

use domain::digest::ListingHash;
use domain::id::{EdgeName, NodeName, PluginName, PluginVersion, ToolId};
use domain::time::Timestamp;

use super::plugins::read_version;
use super::sql::{Row, Transaction, args, json_statements, statements};
use super::{Error, listings};

statements! {
    OF_TOOL = "select plugin, version, tool, function, seen, state, first_seen_at, first_seen_on, scope from changes \
               where plugin = $1 and version = $2 and tool = $3 order by function, scope, first_seen_at, seen";
    OF_PLUGIN = "select plugin, version, tool, function, seen, state, first_seen_at, first_seen_on, scope from changes \
                 where plugin = $1 and state in ('open', 'rejected') \
                 order by version, tool, function, scope, first_seen_at, seen";
    OLD = "select function, seen, scope from (select function, seen, scope, row_number() over (partition by function, scope \
           order by first_seen_at desc, seen) as place from changes where plugin = $1 and version = $2 and tool = $3 \
           and connection = '' and state = 'restored') as ranked where place > $4";
    DROP = "delete from changes where plugin = $1 and version = $2 and tool = $3 and function = $4 and seen = $5 \
            and scope = $6 and connection = '' and state = 'restored'";
    COUNT_OPEN = "select count(*) from (select distinct plugin, version, tool, function from changes where state = 'open') open";
}

json_statements! {
    /// Many at once: function, what is seen, node, scope.
    OPEN_ALL = "insert into changes (plugin, version, tool, function, scope, connection, seen, state, first_seen_at, \
                first_seen_on) select $1, $2, $3, value ->> 0, value ->> 3, '', value ->> 1, 'open', $4, value ->> 2 from " rows("$5")
               " where true on conflict (plugin, version, tool, function, scope, connection, seen) do update \
                set state = 'open', first_seen_at = excluded.first_seen_at, first_seen_on = excluded.first_seen_on";
    /// Many at once: function, what is seen, scope.
    SET_STATES = "update changes set state = $4 where plugin = $1 and version = $2 and tool = $3 \
                  and connection = '' and (function, seen, scope) in (select value ->> 0, value ->> 1, value ->> 2 from "
                 rows("$5") ")";
}

/// Where a variant stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for a person.
    Open,
    /// It became what the fleet goes by.
    Approved,
    /// It stays refused, and nobody is alerted.
    Rejected,
    /// No node shows it any longer.
    Restored,
}

impl State {
    /// Its word in the database and the API.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Restored => "restored",
        }
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        [Self::Open, Self::Approved, Self::Rejected, Self::Restored]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or("no state")
    }
}

/// One hash, or the absence, of a function that differs.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    pub(crate) version: PluginVersion,
    pub(crate) tool: ToolId,
    pub(crate) function: Arc<str>,
    /// The edge whose own listing it differs from; `None`: the fleet's.
    pub(crate) edge: Option<EdgeName>,
    /// `None`: it is gone.
    pub(crate) seen: Option<ListingHash>,
    pub(crate) state: State,
    pub(crate) first_seen_at: Timestamp,
    pub(crate) first_seen_on: NodeName,
}

/// What is seen of a function, and against what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shown {
    pub(crate) function: Arc<str>,
    /// The edge whose own listing it differs from; `None`: the fleet's.
    pub(crate) edge: Option<EdgeName>,
    /// `None`: it is gone.
    pub(crate) seen: Option<ListingHash>,
}

impl Shown {
    fn scope(&self) -> &str {
        self.edge.as_ref().map_or("", EdgeName::as_str)
    }
}

/// Opens variants of a tool, for the first time or again, each with the node that shows it.
pub(crate) async fn open_all(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    variants: &[(Shown, NodeName)],
    now: Timestamp,
) -> Result<(), Error> {
    if variants.is_empty() {
        return Ok(());
    }
    let rows: serde_json::Value = variants
        .iter()
        .map(|(one, node)| {
            serde_json::json!([&*one.function, seen_text(one.seen), node.as_str(), one.scope()])
        })
        .collect();
    let args = args![&version.plugin, &version.version, tool, now, rows.to_string()];
    tx.execute(OPEN_ALL.of(tx), args).await.map(|_| ())
}

/// Moves variants of a tool to another state; those that are not there are passed over.
pub(crate) async fn set_states(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    variants: &[Shown],
    state: State,
) -> Result<(), Error> {
    if variants.is_empty() {
        return Ok(());
    }
    let rows: serde_json::Value = variants
        .iter()
        .map(|one| serde_json::json!([&*one.function, seen_text(one.seen), one.scope()]))
        .collect();
    let args = args![&version.plugin, &version.version, tool, state.as_str(), rows.to_string()];
    tx.execute(SET_STATES.of(tx), args).await.map(|_| ())
}

/// All variants of a tool, whatever their state.
pub(crate) async fn of_tool(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<Vec<Variant>, Error> {
    tx.rows(OF_TOOL, args![&version.plugin, &version.version, tool]).await?.iter().map(read).collect()
}

/// Variants of a plugin that wait or were rejected.
pub(crate) async fn of_plugin(tx: &mut Transaction, plugin: &PluginName) -> Result<Vec<Variant>, Error> {
    tx.rows(OF_PLUGIN, args![plugin]).await?.iter().map(read).collect()
}

/// How many functions wait for a person.
pub(crate) async fn count_open(tx: &mut Transaction) -> Result<u64, Error> {
    tx.row(COUNT_OPEN, args![]).await?.map_or(Ok(0), |row| row.count(0))
}

fn seen_text(seen: Option<ListingHash>) -> String {
    seen.map(|hash| hash.to_string()).unwrap_or_default()
}

fn read(row: &Row) -> Result<Variant, Error> {
    let seen = if row.text(4)?.is_empty() { None } else { Some(row.hash(4)?) };
    let edge = if row.text(8)?.is_empty() { None } else { Some(row.parsed(8, EdgeName::parse)?) };
    Ok(Variant {
        edge,
        version: read_version(row, 0)?,
        tool: row.parsed(2, ToolId::parse)?,
        function: row.text(3)?.into(),
        seen,
        state: row.parsed(5, State::parse)?,
        first_seen_at: row.time(6)?,
        first_seen_on: row.parsed(7, NodeName::parse)?,
    })
}

/// Drops what a function showed once and no node does any longer, but for the newest `keep`; the audit
/// log has all of it. Its texts go with it where nothing else names them.
pub(crate) async fn prune(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    keep: u64,
) -> Result<(), Error> {
    for row in tx.rows(OLD, args![&version.plugin, &version.version, tool, keep]).await? {
        let (function, seen, scope) = (row.text(0)?, row.text(1)?, row.text(2)?);
        let args = args![&version.plugin, &version.version, tool, function, seen.clone(), scope];
        tx.execute(DROP, args).await?;
        if let Ok(hash) = ListingHash::parse(&seen) {
            listings::drop_text(tx, &hash).await?;
        }
    }
    Ok(())
}
