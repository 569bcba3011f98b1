//! The newest position of each part of each plugin set.

use std::collections::BTreeSet;

use domain::plugin_set::{Part, Position, Scope};

use super::sql::{Row, Transaction, args, json_statements, statements};
use super::{Error, meta};

statements! {
    RAISE = "insert into heads (scope, part, epoch, generation) values ($1, $2, $3, 1) \
             on conflict (scope, part) do update set epoch = excluded.epoch, generation = heads.generation + 1";
    RAISE_ALL = "update heads set epoch = $1, generation = generation + 1";
    JUMP = "update heads set generation = $3 + 1 where scope = $1 and part = $2 and generation <= $3";
    GET = "select scope, part, epoch, generation from heads where scope = $1 and part = $2";
    REMOVE = "delete from heads where scope = $1";
    ALL = "select scope, part, epoch, generation from heads order by scope, part";
}

json_statements! {
    /// Those of these scopes, in one look: the fan-out asks for all edges each second.
    OF_SCOPES = "select scope, part, epoch, generation from heads where scope in (select value ->> 0 from " rows("$1")
                ") order by scope, part";
}

/// Raises each by one, from nothing to generation 1.
pub(crate) async fn raise(tx: &mut Transaction, heads: &BTreeSet<(Scope, Part)>) -> Result<(), Error> {
    if heads.is_empty() {
        return Ok(());
    }
    let epoch = meta::epoch(tx).await?;
    for (scope, part) in heads {
        tx.execute(RAISE, args![scope, part, epoch]).await?;
    }
    Ok(())
}

/// Raises all heads to a new epoch, each past what it was and what is proven of it.
pub(crate) async fn raise_all(
    tx: &mut Transaction,
    epoch: u64,
    proven: &[(Scope, Part, Position)],
) -> Result<(), Error> {
    tx.execute(RAISE_ALL, args![epoch]).await?;
    for (scope, part, position) in proven {
        tx.execute(JUMP, args![scope, part, position.generation]).await?;
    }
    Ok(())
}

/// Drops the heads of what is on record no longer.
pub(crate) async fn remove(tx: &mut Transaction, scope: &Scope) -> Result<(), Error> {
    tx.execute(REMOVE, args![scope]).await.map(|_| ())
}

/// Where a part stands.
pub(crate) async fn get(tx: &mut Transaction, scope: &Scope, part: Part) -> Result<Option<Position>, Error> {
    tx.row(GET, args![scope, &part]).await?.map(|row| read(&row).map(|(_, _, position)| position)).transpose()
}

/// Where all parts of the scopes stand; of all scopes if none are given.
pub(crate) async fn list(
    tx: &mut Transaction,
    scopes: Option<&[Scope]>,
) -> Result<Vec<(Scope, Part, Position)>, Error> {
    let rows = match scopes {
        None => tx.rows(ALL, args![]).await?,
        Some(scopes) => {
            let scopes: serde_json::Value =
                scopes.iter().map(|scope| serde_json::json!([scope.to_string()])).collect();
            tx.rows(OF_SCOPES.of(tx), args![scopes.to_string()]).await?
        }
    };
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<(Scope, Part, Position), Error> {
    let scope = row.parsed(0, |text| Scope::parse(text).ok_or("no scope"))?;
    let part = row.parsed(1, |text| Part::parse(text).ok_or("no part"))?;
    Ok((scope, part, Position { epoch: row.count(2)?, generation: row.count(3)? }))
}
