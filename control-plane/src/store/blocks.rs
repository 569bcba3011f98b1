//! Blocks: calls that a person stopped.

use std::sync::Arc;

use domain::block::{Block, Target};
use domain::id::{EdgeName, PluginVersion, ToolId};
use domain::time::Timestamp;

use super::plugins::read_version;
use super::sql::{Row, Transaction, args, statements};
use super::{By, Error};

statements! {
    INSERT = "insert into blocks (id, edge, target, reason, blocked_at, blocked_by) values ($1, $2, $3, $4, $5, $6) \
              on conflict (id) do nothing";
    IN_FORCE = "select id, edge, target, reason, blocked_at, blocked_by, lifted_at, lifted_by from blocks \
                where lifted_at is null and edge in ('', $1) order by blocked_at, id";
    ALL = "select id, edge, target, reason, blocked_at, blocked_by, lifted_at, lifted_by from blocks \
           where id > $1 and (lifted_at is null or $2 = 1) order by id limit $3";
    FIND = "select id, edge, target, reason, blocked_at, blocked_by, lifted_at, lifted_by from blocks \
            where lifted_at is null and (id = $1 or (edge = $2 and target = $3)) order by id";
    LIFT = "update blocks set lifted_at = $2, lifted_by = $3 where id = $1 and lifted_at is null";
    COUNT = "select count(*) from blocks where lifted_at is null";
    WITH_TOOL = "select plugin, version from version_tools where tool = $1";
}

/// One block on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlock {
    /// Its id.
    pub id: String,
    /// The one edge it is for; `None`: every edge.
    pub edge: Option<EdgeName>,
    /// What nodes are told of it.
    pub block: Block,
    /// When and by whom it was lifted.
    pub lifted: Option<(Timestamp, String)>,
}

/// Adds one; answers whether its id was new.
pub(crate) async fn insert(tx: &mut Transaction, stored: &StoredBlock) -> Result<bool, Error> {
    let edge = stored.edge.as_ref().map_or("", EdgeName::as_str);
    let Block { target, reason, by, at, .. } = &stored.block;
    let args = args![&stored.id, edge, target.to_string(), &**reason, *at, &**by];
    Ok(tx.execute(INSERT, args).await? == 1)
}

/// Those in force on an edge, the fleet's included, oldest first.
pub(crate) async fn in_force(tx: &mut Transaction, edge: &EdgeName) -> Result<Vec<StoredBlock>, Error> {
    tx.rows(IN_FORCE, args![edge]).await?.iter().map(read).collect()
}

/// Those in force, and those that were lifted if they are wanted too, by their ids.
pub(crate) async fn list(
    tx: &mut Transaction,
    after: &str,
    with_lifted: bool,
    limit: u64,
) -> Result<Vec<StoredBlock>, Error> {
    tx.rows(ALL, args![after, u64::from(with_lifted), limit]).await?.iter().map(read).collect()
}

/// Those in force of that id, or of exactly that target and scope.
pub(crate) async fn find(
    tx: &mut Transaction,
    id: &str,
    edge: Option<&EdgeName>,
    target: Option<&Target>,
) -> Result<Vec<StoredBlock>, Error> {
    let target = target.map(ToString::to_string).unwrap_or_default();
    let edge = edge.map_or("", EdgeName::as_str);
    tx.rows(FIND, args![id, edge, target]).await?.iter().map(read).collect()
}

/// Lifts one.
pub(crate) async fn lift(tx: &mut Transaction, id: &str, by: By<'_>) -> Result<(), Error> {
    tx.execute(LIFT, args![id, by.at, by.who]).await.map(|_| ())
}

/// How many are in force.
pub(crate) async fn count(tx: &mut Transaction) -> Result<u64, Error> {
    tx.row(COUNT, args![]).await?.map_or(Ok(0), |row| row.count(0))
}

/// Pushed versions with a tool of that ID.
pub(crate) async fn versions_with(tx: &mut Transaction, tool: &ToolId) -> Result<Vec<PluginVersion>, Error> {
    tx.rows(WITH_TOOL, args![tool]).await?.iter().map(|row| read_version(row, 0)).collect()
}

fn read(row: &Row) -> Result<StoredBlock, Error> {
    let edge = row.text(1)?;
    let edge = if edge.is_empty() { None } else { Some(row.parsed(1, EdgeName::parse)?) };
    let lifted = match (row.integer_or_null(6)?, row.text_or_null(7)?) {
        (Some(at), Some(by)) => Some((Timestamp::from_millis(at), by)),
        _ => None,
    };
    let block = Block {
        target: row.parsed(2, Target::parse)?,
        is_fleet_wide: edge.is_none(),
        reason: Arc::from(row.text(3)?),
        by: Arc::from(row.text(5)?),
        at: row.time(4)?,
    };
    Ok(StoredBlock { id: row.text(0)?, edge, block, lifted })
}
