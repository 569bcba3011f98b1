//! What there is once in a fleet: its id and name, the epoch, the key of its authority.

use super::Error;
use super::sql::{Transaction, args, statements};

/// The fleet's id, made at its first start.
pub(crate) const FLEET_ID: &str = "fleet.id";
/// The fleet's name, for people.
pub(crate) const FLEET_NAME: &str = "fleet.name";
/// The epoch of all heads; raised only by a rewound store.
pub(crate) const EPOCH: &str = "epoch";
/// SHA-256 of the authority's `SubjectPublicKeyInfo`, hexadecimal.
pub(crate) const AUTHORITY_KEY: &str = "authority.key_sha256";

statements! {
    GET = "select value from meta where key = $1";
    SET = "insert into meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value";
    SET_ONCE = "insert into meta (key, value) values ($1, $2) on conflict (key) do nothing";
}

/// The value, if it was ever set.
pub(crate) async fn get(tx: &mut Transaction, key: &str) -> Result<Option<String>, Error> {
    tx.row(GET, args![key]).await?.map(|row| row.text(0)).transpose()
}

/// Sets it unless it is set; answers whether it did.
pub(crate) async fn set_once(tx: &mut Transaction, key: &str, value: &str) -> Result<bool, Error> {
    Ok(tx.execute(SET_ONCE, args![key, value]).await? == 1)
}

/// Sets the fleet's epoch.
pub(crate) async fn set_epoch(tx: &mut Transaction, epoch: u64) -> Result<(), Error> {
    tx.execute(SET, args![EPOCH, epoch.to_string()]).await.map(|_| ())
}

/// The fleet's epoch.
pub(crate) async fn epoch(tx: &mut Transaction) -> Result<u64, Error> {
    let text = get(tx, EPOCH).await?.unwrap_or_else(|| "1".to_owned());
    text.parse().map_err(|fault| Error::inconsistent("the epoch", &text, fault))
}
