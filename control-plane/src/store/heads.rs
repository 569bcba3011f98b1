//! The newest position of each part of each plugin set.

use domain::plugin_set::{Part, Position, Scope};

use super::sql::{Row, Transaction, args, statements};
use super::{Error, meta};

statements! {
    RAISE = "insert into heads (scope, part, epoch, generation) values ($1, $2, $3, 1) \
             on conflict (scope, part) do update set epoch = excluded.epoch, generation = heads.generation + 1";
    GET = "select scope, part, epoch, generation from heads where scope = $1 and part = $2";
    OF_SCOPE = "select scope, part, epoch, generation from heads where scope = $1 order by part";
    ALL = "select scope, part, epoch, generation from heads order by scope, part";
}

/// Raises it by one, from nothing to generation 1.
pub(crate) async fn raise(tx: &mut Transaction, scope: &Scope, part: Part) -> Result<(), Error> {
    let epoch = meta::epoch(tx).await?;
    tx.execute(RAISE, args![scope, &part, epoch]).await.map(|_| ())
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
    let mut rows = Vec::new();
    match scopes {
        None => rows = tx.rows(ALL, args![]).await?,
        Some(scopes) => {
            for scope in scopes {
                rows.extend(tx.rows(OF_SCOPE, args![scope]).await?);
            }
        }
    }
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<(Scope, Part, Position), Error> {
    let scope = row.parsed(0, |text| Scope::parse(text).ok_or("no scope"))?;
    let part = row.parsed(1, |text| Part::parse(text).ok_or("no part"))?;
    Ok((scope, part, Position { epoch: row.count(2)?, generation: row.count(3)? }))
}
