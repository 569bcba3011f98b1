//! Canonical listings by their hash, and whole lists as nodes reported them.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::digest::{Digest, ListingHash};

use super::Error;
use super::sql::{Row, Transaction, args, json_statements, statements};

statements! {
    PUT_TEXT = "insert into listings (hash, canonical) values ($1, $2) on conflict (hash) do nothing";
    TEXT = "select canonical from listings where hash = $1";
    PUT_LIST = "insert into lists (digest) values ($1) on conflict (digest) do nothing";
    IS_SHOWN = "select 1 from sightings where list = $1 limit 1";
    DROP_FUNCTIONS = "delete from list_functions where list = $1";
    DROP_LIST = "delete from lists where digest = $1";
    // Whatever still names a text keeps it: a list, the snapshot, a change, an orphan, an approval that can be undone.
    DROP_TEXT = "delete from listings where hash = $1 and not exists (select 1 from list_functions where hash = $1) \
                 and not exists (select 1 from snapshots where hash = $1) and not exists (select 1 from changes where seen = $1) \
                 and not exists (select 1 from orphans where held = $1) \
                 and not exists (select 1 from approvals where earlier = $1 or now = $1)";
    FUNCTIONS = "select function, hash, left_out, reason, not_shown from list_functions where list = $1 order by function";
}

json_statements! {
    /// All functions of a list at once.
    PUT_FUNCTIONS = "insert into list_functions (list, function, hash, left_out, reason, not_shown) \
                     select $1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from " rows("$2") "";
    /// Those hashes whose text is not here.
    MISSING = "select hash from (select value ->> 0 as hash from " rows("$1")
              ") as wanted where not exists (select 1 from listings where listings.hash = wanted.hash)";
}

/// One function of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListFunction {
    pub(crate) function: Arc<str>,
    /// `None`: it is left out.
    pub(crate) hash: Option<ListingHash>,
    /// Code, empty if it is not left out.
    pub(crate) left_out: String,
    pub(crate) reason: String,
    /// Why it is not shown to models, empty if it is.
    pub(crate) not_shown: String,
}

/// Keeps a canonical text under its own hash.
pub(crate) async fn put_text(tx: &mut Transaction, canonical: &str) -> Result<ListingHash, Error> {
    let hash = ListingHash::of_canonical(canonical);
    tx.execute(PUT_TEXT, args![&hash, canonical]).await?;
    Ok(hash)
}

/// A canonical text.
pub(crate) async fn text(tx: &mut Transaction, hash: ListingHash) -> Result<Option<String>, Error> {
    tx.row(TEXT, args![&hash]).await?.map(|row| row.text(0)).transpose()
}

/// Those whose text is not here, in order.
pub(crate) async fn missing(
    tx: &mut Transaction,
    wanted: &BTreeSet<ListingHash>,
) -> Result<Vec<ListingHash>, Error> {
    let wanted: serde_json::Value = wanted.iter().map(|hash| serde_json::json!([hash.to_string()])).collect();
    let rows = tx.rows(MISSING.of(tx), args![wanted.to_string()]).await?;
    let mut missing: Vec<ListingHash> = rows.iter().map(|row| row.hash(0)).collect::<Result<_, _>>()?;
    missing.sort_unstable();
    Ok(missing)
}

/// Keeps a list under the digest of all of it. Nodes that list alike share it.
pub(crate) async fn put_list(tx: &mut Transaction, functions: &[ListFunction]) -> Result<Digest, Error> {
    let digest = list_digest(functions);
    if tx.execute(PUT_LIST, args![&digest]).await? == 1 {
        let rows: serde_json::Value = functions
            .iter()
            .map(|one| {
                let hash = one.hash.map(|hash| hash.to_string());
                serde_json::json!([&*one.function, hash, one.left_out, one.reason, one.not_shown])
            })
            .collect();
        tx.execute(PUT_FUNCTIONS.of(tx), args![&digest, rows.to_string()]).await?;
    }
    Ok(digest)
}

/// What a list showed, by name.
pub(crate) async fn list(tx: &mut Transaction, digest: &Digest) -> Result<Vec<ListFunction>, Error> {
    tx.rows(FUNCTIONS, args![digest]).await?.iter().map(read).collect()
}

/// Drops a list that no node shows any longer, with the texts that only it named.
pub(crate) async fn prune(tx: &mut Transaction, digest: &Digest) -> Result<(), Error> {
    if tx.row(IS_SHOWN, args![digest]).await?.is_some() {
        return Ok(());
    }
    let functions = list(tx, digest).await?;
    tx.execute(DROP_FUNCTIONS, args![digest]).await?;
    tx.execute(DROP_LIST, args![digest]).await?;
    for hash in functions.into_iter().filter_map(|function| function.hash).collect::<BTreeSet<_>>() {
        drop_text(tx, &hash).await?;
    }
    Ok(())
}

/// Drops a text that nothing names any longer.
pub(crate) async fn drop_text(tx: &mut Transaction, hash: &ListingHash) -> Result<(), Error> {
    tx.execute(DROP_TEXT, args![hash]).await.map(|_| ())
}

/// Over length-prefixed fields, so that no two lists have one spelling.
fn list_digest(functions: &[ListFunction]) -> Digest {
    let mut bytes = Vec::new();
    for function in functions {
        let hash = function.hash.map(|hash| hash.to_string()).unwrap_or_default();
        for field in [&*function.function, &hash, &function.left_out, &function.reason, &function.not_shown] {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field.as_bytes());
        }
    }
    Digest::of(&bytes)
}

fn read(row: &Row) -> Result<ListFunction, Error> {
    let hash = match row.text_or_null(1)? {
        None => None,
        Some(_) => Some(row.hash(1)?),
    };
    Ok(ListFunction {
        function: row.text(0)?.into(),
        hash,
        left_out: row.text(2)?,
        reason: row.text(3)?,
        not_shown: row.text(4)?,
    })
}
