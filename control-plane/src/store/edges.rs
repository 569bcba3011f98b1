//! Edges.

use domain::id::EdgeName;
use domain::time::Timestamp;

use super::Error;
use super::sql::{Row, Transaction, args, statements};

statements! {
    INSERT = "insert into edges (name, created_at, created_by) values ($1, $2, $3) on conflict (name) do nothing";
    GET = "select name, created_at, created_by, (select count(*) from nodes where nodes.edge = edges.name), \
           (select count(*) from assignments where assignments.edge = edges.name) from edges where name = $1";
    LIST = "select name, created_at, created_by, (select count(*) from nodes where nodes.edge = edges.name), \
            (select count(*) from assignments where assignments.edge = edges.name) from edges \
            where name > $1 order by name limit $2";
}

/// One edge.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub(crate) name: EdgeName,
    pub(crate) created_at: Timestamp,
    pub(crate) created_by: String,
    pub(crate) nodes: u64,
    pub(crate) plugins: u64,
}

/// Adds it; answers whether it was new.
pub(crate) async fn insert(
    tx: &mut Transaction,
    name: &EdgeName,
    now: Timestamp,
    by: &str,
) -> Result<bool, Error> {
    Ok(tx.execute(INSERT, args![name, now, by]).await? == 1)
}

/// One edge, if there is such.
pub(crate) async fn get(tx: &mut Transaction, name: &EdgeName) -> Result<Option<Edge>, Error> {
    tx.row(GET, args![name]).await?.as_ref().map(read).transpose()
}

/// Edges after a name, by name.
pub(crate) async fn list(tx: &mut Transaction, after: &str, limit: u64) -> Result<Vec<Edge>, Error> {
    tx.rows(LIST, args![after, limit]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Edge, Error> {
    Ok(Edge {
        name: row.parsed(0, EdgeName::parse)?,
        created_at: row.time(1)?,
        created_by: row.text(2)?,
        nodes: row.count(3)?,
        plugins: row.count(4)?,
    })
}
