//! Makes the fleet at the first start of its first server.

use domain::audit::Event;
use uuid::Uuid;

use super::{By, Error};
use crate::store::{Store, meta};

/// The fleet that a store holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// Its id, part of everything that is signed.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// Raised only by a rewound store.
    pub epoch: u64,
    /// Whether it was made just now.
    pub is_new: bool,
}

/// Makes the fleet if the store has none; `name` counts only then.
///
/// # Errors
/// What the store says.
pub async fn start_fleet(store: &Store, by: &By, name: &str) -> Result<Fleet, Error> {
    let mut tx = store.begin_write().await?;
    let id = Uuid::new_v4().to_string();
    let is_new = meta::set_once(tx.tx(), meta::FLEET_ID, &id).await?;
    if is_new {
        meta::set_once(tx.tx(), meta::FLEET_NAME, name).await?;
        meta::set_once(tx.tx(), meta::EPOCH, "1").await?;
        tx.audit(&by.origin, Event::FleetCreate { fleet: id, name: name.to_owned() });
    }
    let key: [u8; 32] = rand::random();
    meta::set_once(tx.tx(), meta::SESSION_KEY, &hex::encode(key)).await?;
    let id = meta::get(tx.tx(), meta::FLEET_ID).await?.unwrap_or_default();
    let name = meta::get(tx.tx(), meta::FLEET_NAME).await?.unwrap_or_default();
    let epoch = meta::epoch(tx.tx()).await?;
    tx.commit(by.now).await?;
    Ok(Fleet { id, name, epoch, is_new })
}

/// Binds the fleet to its authority's key at the first start; later, answers with the key that it is
/// bound to, which a server must hold to start.
///
/// # Errors
/// What the store says.
pub async fn bind_authority(store: &Store, by: &By, key_sha256: &str) -> Result<String, Error> {
    let mut tx = store.begin_write().await?;
    meta::set_once(tx.tx(), meta::AUTHORITY_KEY, key_sha256).await?;
    let bound = meta::get(tx.tx(), meta::AUTHORITY_KEY).await?.unwrap_or_default();
    tx.commit(by.now).await?;
    Ok(bound)
}

/// Binds the fleet to the key of its secrets at the first start; later, answers with the key that it is bound to.
///
/// # Errors
/// What the store says.
pub async fn bind_secrets(store: &Store, by: &By, key_sha256: &str) -> Result<String, Error> {
    let mut tx = store.begin_write().await?;
    meta::set_once(tx.tx(), meta::SECRETS_KEY, key_sha256).await?;
    let bound = meta::get(tx.tx(), meta::SECRETS_KEY).await?.unwrap_or_default();
    tx.commit(by.now).await?;
    Ok(bound)
}
