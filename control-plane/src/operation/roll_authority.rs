//! Takes a fleet from one authority to another, in steps between which every node renews its certificate.
//!
//! 1. The next authority is trusted beside the one that issues; nodes are told so as they renew.
//! 2. Once every node trusts it, it issues, and the one before is trusted beside it.
//! 3. Once no node has a certificate of the one before, that may go.

use domain::audit::Event;

use super::{By, Code, Error};
use crate::store::{Store, meta, nodes};

/// Most names in a refusal.
const NAMES_MAX: usize = 10;

/// How far a fleet is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// SHA-256 of the key of the authority that issues, hexadecimal.
    pub issuing: String,
    /// That of the one that it goes over to, if it does.
    pub next: Option<String>,
    /// Nodes that do not trust the next one yet; all of those that may work count.
    pub distrusting: Vec<String>,
    /// Nodes whose certificate is of another authority than the issuing one.
    pub of_others: Vec<String>,
}

/// Binds the fleet to the authority that it goes over to, at the first start of a server that has it.
///
/// # Errors
/// The fleet goes over to another one.
pub async fn bind_next(store: &Store, by: &By, key_sha256: &str) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    match meta::get(tx.tx(), meta::NEXT_AUTHORITY_KEY).await?.filter(|next| !next.is_empty()) {
        Some(next) if next == key_sha256 => return Ok(()),
        Some(next) => {
            let detail = format!(
                "the next authority's key here has SHA-256 {key_sha256}, the fleet goes over to {next}; mount the key \
                 file of the server that began"
            );
            return Err(Error::refused(Code::Invalid, detail));
        }
        None => {}
    }
    meta::put(tx.tx(), meta::NEXT_AUTHORITY_KEY, key_sha256).await?;
    tx.audit(&by.origin, Event::FleetAuthorityAdd { key_sha256: key_sha256.to_owned() });
    Ok(tx.commit(by.now).await?)
}

/// Has the next authority issue from now on, if `key_sha256` is its key; answers whether it does.
///
/// # Errors
/// Nodes that do not trust it yet would be cut off: which, and what to do.
pub async fn switch(store: &Store, by: &By, key_sha256: &str) -> Result<bool, Error> {
    let mut tx = store.begin_write().await?;
    if meta::get(tx.tx(), meta::NEXT_AUTHORITY_KEY).await?.as_deref() != Some(key_sha256) {
        return Ok(false);
    }
    let distrusting = nodes::distrusting(tx.tx(), key_sha256).await?;
    if !distrusting.is_empty() {
        let names: Vec<&str> = distrusting.iter().take(NAMES_MAX).map(String::as_str).collect();
        let detail = format!(
            "{} nodes do not trust the next authority yet and would have to join again: {}{}; put the key files back \
             (pintle server ca back), and wait until every node has renewed its certificate, or evict those that are gone",
            distrusting.len(),
            names.join(", "),
            if distrusting.len() > NAMES_MAX { ", …" } else { "" }
        );
        return Err(Error::refused(Code::Invalid, detail));
    }
    meta::put(tx.tx(), meta::AUTHORITY_KEY, key_sha256).await?;
    meta::put(tx.tx(), meta::NEXT_AUTHORITY_KEY, "").await?;
    tx.audit(&by.origin, Event::FleetAuthoritySwitch { key_sha256: key_sha256.to_owned() });
    tx.commit(by.now).await?;
    Ok(true)
}

/// How far the fleet is.
///
/// # Errors
/// What the store says.
pub async fn progress(store: &Store) -> Result<Progress, Error> {
    let mut tx = store.read().await?;
    let issuing = meta::get(&mut tx, meta::AUTHORITY_KEY).await?.unwrap_or_default();
    let next = meta::get(&mut tx, meta::NEXT_AUTHORITY_KEY).await?.filter(|next| !next.is_empty());
    let distrusting = match &next {
        Some(next) => nodes::distrusting(&mut tx, next).await?,
        None => Vec::new(),
    };
    let of_others = nodes::of_other_issuers(&mut tx, &issuing).await?;
    Ok(Progress { issuing, next, distrusting, of_others })
}
