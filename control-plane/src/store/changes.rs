//! Each way in which a function differs, or differed, from what the fleet goes by.

use std::sync::Arc;

use domain::digest::ListingHash;
use domain::id::{NodeName, PluginName, PluginVersion, ToolId};
use domain::time::Timestamp;

use super::Error;
use super::plugins::read_version;
use super::sql::{Row, Transaction, args, statements};

statements! {
    PUT = "insert into changes (plugin, version, tool, function, scope, connection, seen, state, first_seen_at, first_seen_on) \
           values ($1, $2, $3, $4, '', '', $5, 'open', $6, $7) \
           on conflict (plugin, version, tool, function, scope, connection, seen) do update \
           set state = 'open', first_seen_at = excluded.first_seen_at, first_seen_on = excluded.first_seen_on";
    SET_STATE = "update changes set state = $6 where plugin = $1 and version = $2 and tool = $3 and function = $4 \
                 and seen = $5 and scope = '' and connection = ''";
    OF_TOOL = "select plugin, version, tool, function, seen, state, first_seen_at, first_seen_on from changes \
               where plugin = $1 and version = $2 and tool = $3 order by function, first_seen_at, seen";
    OF_PLUGIN = "select plugin, version, tool, function, seen, state, first_seen_at, first_seen_on from changes \
                 where plugin = $1 and state in ('open', 'rejected') order by version, tool, function, first_seen_at, seen";
    COUNT_OPEN = "select count(*) from (select distinct plugin, version, tool, function from changes where state = 'open') open";
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
    /// `None`: it is gone.
    pub(crate) seen: Option<ListingHash>,
    pub(crate) state: State,
    pub(crate) first_seen_at: Timestamp,
    pub(crate) first_seen_on: NodeName,
}

/// Opens it, for the first time or again.
pub(crate) async fn open(tx: &mut Transaction, variant: &Variant) -> Result<(), Error> {
    let args = args![
        &variant.version.plugin,
        &variant.version.version,
        &variant.tool,
        &*variant.function,
        seen_text(variant.seen),
        variant.first_seen_at,
        &variant.first_seen_on,
    ];
    tx.execute(PUT, args).await.map(|_| ())
}

/// Moves it to another state; answers whether there is such a variant.
pub(crate) async fn set_state(
    tx: &mut Transaction,
    (version, tool): (&PluginVersion, &ToolId),
    function: &str,
    seen: Option<ListingHash>,
    state: State,
) -> Result<bool, Error> {
    let args = args![&version.plugin, &version.version, tool, function, seen_text(seen), state.as_str()];
    Ok(tx.execute(SET_STATE, args).await? == 1)
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
    Ok(Variant {
        version: read_version(row, 0)?,
        tool: row.parsed(2, ToolId::parse)?,
        function: row.text(3)?.into(),
        seen,
        state: row.parsed(5, State::parse)?,
        first_seen_at: row.time(6)?,
        first_seen_on: row.parsed(7, NodeName::parse)?,
    })
}
