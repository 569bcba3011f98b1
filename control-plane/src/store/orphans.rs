//! What a restored database lost: where its heads stood when that was found, and what nodes hold as
//! approved beyond them.

use std::fmt;
use std::sync::Arc;

use domain::digest::Digest;
use domain::id::{EdgeName, NodeName, PluginVersion, ToolId};
use domain::plugin_set::{Part, Position, Scope};
use domain::time::Timestamp;
use serde_json::Value;

use super::Error;
use super::plugins::read_version;
use super::sql::{Row, Transaction, args, statements};

statements! {
    REMEMBER = "insert into rewound_heads (epoch, scope, part, base_epoch, base_generation) \
                select $1, scope, part, epoch, generation from heads";
    BASE = "select base_epoch, base_generation from rewound_heads where scope = $1 and part = $2 and epoch > $3 \
            order by epoch limit 1";
    SALVAGED = "select 1 from salvaged where edge = $1 and digest = $2";
    SALVAGE = "insert into salvaged (edge, digest, node, at) values ($1, $2, $3, $4) on conflict (edge, digest) do nothing";
    PUT = "insert into orphans (edge, plugin, version, tool, function, held, node, found_at, state) \
           values ($1, $2, $3, $4, $5, $6, $7, $8, 'open') \
           on conflict (edge, plugin, version, tool, function, held) do nothing";
    OPEN = "select edge, plugin, version, tool, function, held, node, found_at from orphans where state = 'open' \
            order by edge, plugin, version, tool, function, held limit $1";
    COUNT_OPEN = "select count(*) from orphans where state = 'open'";
    DECIDE = "update orphans set state = $7 where edge = $1 and plugin = $2 and version = $3 and tool = $4 \
              and function = $5 and held = $6 and state = 'open'";
    // Whether people of this database's own past decided so; rare, so it may read all of a plugin's.
    EVER = "select fields from audit where subject = $1 and name in ('plugin.tools.snapshot', 'plugin.tools.approve', \
            'plugin.endpoint.pinned', 'plugin.endpoint.approve') and replace(fields, $2, '') <> fields order by seq desc";
}

/// What only nodes hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Orphan {
    /// The edge whose nodes hold it.
    pub edge: EdgeName,
    /// Of which version.
    pub version: PluginVersion,
    /// Which tool; `None`: the version itself was never pushed to this database.
    pub tool: Option<ToolId>,
    /// Which function; `None`: an origin.
    pub function: Option<Arc<str>>,
    /// The listing hash, or the origin.
    pub held: String,
    /// The node that it was learned from.
    pub node: NodeName,
    /// When.
    pub found_at: Timestamp,
}

impl Orphan {
    /// What it is called in commands: enough of a digest of what it is.
    pub fn id(&self) -> String {
        let (tool, function) = self.key();
        let key = [self.edge.as_str(), &self.version.to_string(), tool, function, &self.held].join("\n");
        Digest::of(key.as_bytes()).to_string().chars().take(12).collect()
    }

    fn key(&self) -> (&str, &str) {
        (self.tool.as_ref().map_or("", ToolId::as_str), self.function.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.tool, &self.function) {
            (None, _) => write!(f, "{} of edge {}", self.version, self.edge),
            (Some(tool), None) => write!(f, "{} {tool} at {} on edge {}", self.version, self.held, self.edge),
            (Some(tool), Some(function)) => write!(f, "{} {tool}.{function} {}", self.version, self.held),
        }
    }
}

/// Remembers where all heads stand, as they are before the epoch is raised to this one.
pub(crate) async fn remember(tx: &mut Transaction, epoch: u64) -> Result<(), Error> {
    tx.execute(REMEMBER, args![epoch]).await.map(|_| ())
}

/// Where the head of a part stood when what came after `held` in its epoch was found to be lost; `None`
/// if nothing of that epoch was.
pub(crate) async fn base(
    tx: &mut Transaction,
    scope: &Scope,
    part: Part,
    held: Position,
) -> Result<Option<Position>, Error> {
    let row = tx.row(BASE, args![scope, &part, held.epoch]).await?;
    row.map(|row| Ok(Position { epoch: row.count(0)?, generation: row.count(1)? })).transpose()
}

/// Whether what a manifest's digest stands for was read from a node before.
pub(crate) async fn is_salvaged(
    tx: &mut Transaction,
    edge: &EdgeName,
    digest: &Digest,
) -> Result<bool, Error> {
    Ok(tx.row(SALVAGED, args![edge, digest]).await?.is_some())
}

/// Notes that it was; answers whether it is new.
pub(crate) async fn salvage(
    tx: &mut Transaction,
    edge: &EdgeName,
    digest: &Digest,
    (node, now): (&NodeName, Timestamp),
) -> Result<bool, Error> {
    Ok(tx.execute(SALVAGE, args![edge, digest, node, now]).await? == 1)
}

/// Adds one that waits for a person, unless it is known; answers whether it was new.
pub(crate) async fn put(tx: &mut Transaction, orphan: &Orphan) -> Result<bool, Error> {
    let (plugin, version) = (&orphan.version.plugin, &orphan.version.version);
    let (tool, function) = orphan.key();
    let args =
        args![&orphan.edge, plugin, version, tool, function, &orphan.held, &orphan.node, orphan.found_at];
    Ok(tx.execute(PUT, args).await? == 1)
}

/// Those that wait for a person, in order.
pub(crate) async fn open(tx: &mut Transaction, limit: u64) -> Result<Vec<Orphan>, Error> {
    tx.rows(OPEN, args![limit]).await?.iter().map(read).collect()
}

/// How many wait.
pub(crate) async fn count_open(tx: &mut Transaction) -> Result<u64, Error> {
    tx.row(COUNT_OPEN, args![]).await?.map_or(Ok(0), |row| row.count(0))
}

/// Ends one.
pub(crate) async fn decide(tx: &mut Transaction, orphan: &Orphan, adopted: bool) -> Result<(), Error> {
    let (plugin, version) = (&orphan.version.plugin, &orphan.version.version);
    let (tool, function) = orphan.key();
    let state = if adopted { "adopted" } else { "dropped" };
    tx.execute(DECIDE, args![&orphan.edge, plugin, version, tool, function, &orphan.held, state])
        .await
        .map(|_| ())
}

/// Whether this database once went by what a node holds: then it is known, and was changed since.
pub(crate) async fn was_ever(tx: &mut Transaction, orphan: &Orphan) -> Result<bool, Error> {
    let subject = format!("plugin/{}", orphan.version.plugin);
    let rows = tx.rows(EVER, args![subject, format!("\"{}\"", orphan.held)]).await?;
    for row in &rows {
        let text = row.text(0)?;
        let fields: Value = serde_json::from_str(&text)
            .map_err(|fault| Error::inconsistent("the fields of an event", &text, fault))?;
        if decides(&fields, orphan) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an event made what is held what the fleet, or the edge, goes by.
fn decides(fields: &Value, orphan: &Orphan) -> bool {
    let is = |at: &Value, key: &str, text: &str| at.get(key).and_then(Value::as_str) == Some(text);
    let (version, tool) = (orphan.version.version.to_string(), orphan.key().0);
    let is_of_tool = |at: &Value| is(at, "version", &version) && is(at, "tool", tool);
    let Some(function) = orphan.function.as_deref() else {
        let is_here = fields.get("edge").is_none_or(|edge| edge.is_null() || edge == orphan.edge.as_str());
        return is_of_tool(fields) && is(fields, "origin", &orphan.held) && is_here;
    };
    match fields.get("functions") {
        Some(Value::Object(taken)) => {
            is_of_tool(fields) && taken.get(function).and_then(Value::as_str) == Some(&*orphan.held)
        }
        Some(Value::Array(approved)) => approved
            .iter()
            .any(|one| is_of_tool(one) && is(one, "function", function) && is(one, "seen", &orphan.held)),
        _ => false,
    }
}

fn read(row: &Row) -> Result<Orphan, Error> {
    let tool = row.text(3)?;
    let function = row.text(4)?;
    Ok(Orphan {
        edge: row.parsed(0, EdgeName::parse)?,
        version: read_version(row, 1)?,
        tool: if tool.is_empty() { None } else { Some(row.parsed(3, ToolId::parse)?) },
        function: (!function.is_empty()).then(|| function.into()),
        held: row.text(5)?,
        node: row.parsed(6, NodeName::parse)?,
        found_at: row.time(7)?,
    })
}
