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
/// SHA-256 of the key of the authority that the fleet goes over to, hexadecimal; empty if it does not.
pub(crate) const NEXT_AUTHORITY_KEY: &str = "authority.next_key_sha256";
/// The key that session counters are sealed with, hexadecimal; made at the first start.
pub(crate) const SESSION_KEY: &str = "session.key";
/// Raised whenever a node stands differently, so that servers that remember nodes read them again.
pub(crate) const STANDINGS: &str = "nodes.standings";

/// Which functions of a new version wait for a person.
pub(crate) const REVIEW_NEW_VERSIONS: &str = "policy.review_new_versions";
/// Whether a change of notation is approved by a rule.
pub(crate) const APPROVE_NOTATION: &str = "policy.approve_notation";
/// Whether nobody approves what they pushed or assigned.
pub(crate) const FOUR_EYES: &str = "policy.four_eyes";

/// Counted up at each change of a connection.
pub(crate) const CONNECTIONS: &str = "connections.version";
/// SHA-256 of the key that secrets are sealed with, hexadecimal.
pub(crate) const SECRETS_KEY: &str = "secrets.key_sha256";

statements! {
    GET = "select value from meta where key = $1";
    PUT = "insert into meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value";
    RAISE = "insert into meta (key, value) values ($1, '1') \
             on conflict (key) do update set value = cast(cast(meta.value as bigint) + 1 as text)";
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
    put(tx, EPOCH, &epoch.to_string()).await
}

/// Sets it, whatever it was.
pub(crate) async fn put(tx: &mut Transaction, key: &str, value: &str) -> Result<(), Error> {
    tx.execute(PUT, args![key, value]).await.map(|_| ())
}

/// Counts it up by one, from nothing to 1.
pub(crate) async fn raise(tx: &mut Transaction, key: &str) -> Result<(), Error> {
    tx.execute(RAISE, args![key]).await.map(|_| ())
}

/// How often it was counted up.
pub(crate) async fn counted(tx: &mut Transaction, key: &str) -> Result<u64, Error> {
    let text = get(tx, key).await?.unwrap_or_else(|| "0".to_owned());
    text.parse().map_err(|fault| Error::inconsistent("a count", &text, fault))
}

/// The fleet's epoch.
pub(crate) async fn epoch(tx: &mut Transaction) -> Result<u64, Error> {
    let text = get(tx, EPOCH).await?.unwrap_or_else(|| "1".to_owned());
    text.parse().map_err(|fault| Error::inconsistent("the epoch", &text, fault))
}
