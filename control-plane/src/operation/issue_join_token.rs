//! Makes, lists and revokes join tokens.

use domain::audit::Event;
use domain::id::EdgeName;
use domain::label::Labels;
use domain::time::Timestamp;

use super::{By, Code, Error};
use crate::auth::secret;
use crate::store::tokens::{self, JoinToken};
use crate::store::{Store, edges};

/// Longest life of a join token: one that is made for an image lasts as long as images do; one that
/// is forgotten ends.
const TTL_MAX_MS: u64 = 90 * 24 * 3_600_000;

/// Most nodes that one token admits: the largest fleet.
const USES_MAX: u64 = 100_000;

/// A join token, with its secret, which is shown this once.
#[derive(Debug, Clone)]
pub struct IssuedJoinToken {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: String,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// Makes a join token for an edge, without labels.
///
/// # Errors
/// As [`issue_labelled`].
pub async fn issue_join_token(
    store: &Store,
    by: &By,
    edge: &EdgeName,
    uses: u64,
    ttl_ms: u64,
) -> Result<IssuedJoinToken, Error> {
    issue_labelled(store, by, edge, (uses, ttl_ms), Labels::default()).await
}

/// Makes a join token for an edge, for so many nodes and milliseconds; the nodes get its labels.
///
/// # Errors
/// No such edge; uses or life outside their bounds.
pub async fn issue_labelled(
    store: &Store,
    by: &By,
    edge: &EdgeName,
    (uses, ttl_ms): (u64, u64),
    labels: Labels,
) -> Result<IssuedJoinToken, Error> {
    if !(1..=USES_MAX).contains(&uses) {
        return Err(Error::refused(Code::Invalid, format!("uses is {uses}, expected 1 to {USES_MAX}")));
    }
    if !(1_000..=TTL_MAX_MS).contains(&ttl_ms) {
        let detail = format!("ttl_ms is {ttl_ms}, expected 1000 (a second) to {TTL_MAX_MS} (90 days)");
        return Err(Error::refused(Code::Invalid, detail));
    }
    let mut tx = store.begin_write().await?;
    if edges::get(tx.tx(), edge).await?.is_none() {
        return Err(Error::no_edge(edge));
    }
    let (id, secret) = (secret::new_id(), secret::new_secret());
    let expires_at = by.now.plus_millis(i64::try_from(ttl_ms).unwrap_or(i64::MAX));
    let token = JoinToken {
        id: id.clone(),
        secret_sha256: secret::digest(&secret),
        edge: edge.clone(),
        uses,
        used: 0,
        created_at: by.now,
        created_by: by.origin.actor.clone(),
        expires_at,
        revoked_at: None,
        labels: labels.clone(),
    };
    tokens::insert_join(tx.tx(), &token).await?;
    let (token, edge) = (id.clone(), edge.clone());
    tx.audit(&by.origin, Event::JoinTokenCreate { token, edge, uses, expires_at, labels });
    tx.commit(by.now).await?;
    Ok(IssuedJoinToken { id, secret, expires_at })
}

/// Revokes a join token. Nodes that joined with it stay.
///
/// # Errors
/// No such token that is in force.
pub async fn revoke_join_token(store: &Store, by: &By, id: &str) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    let token = tokens::get_join(tx.tx(), id).await?;
    let Some(token) = token.filter(|token| token.revoked_at.is_none()) else {
        return Err(Error::refused(Code::NotFound, "there is no join token of that id that is in force"));
    };
    tokens::revoke_join(tx.tx(), id, by.now).await?;
    tx.audit(&by.origin, Event::JoinTokenRevoke { token: token.id, edge: token.edge });
    tx.commit(by.now).await?;
    Ok(())
}
