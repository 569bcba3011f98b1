//! Begins a new epoch, since a node holds what the fleet signed and the database does not have: it was
//! restored from a copy.

use domain::audit::{Event, ProvenHead};
use domain::plugin_set::{Part, Position, Scope};
use domain::time::Timestamp;

use super::{By, Error};
use crate::store::{NodeRecord, Store, heads, meta};

/// A head that was validly signed by the fleet's authority and that a node holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Whose part.
    pub scope: Scope,
    /// Which part.
    pub part: Part,
    /// Where it stands there.
    pub position: Position,
    /// The database has another content at that very position.
    pub forked: bool,
}

/// Begins a new epoch if the proof still stands against the heads as they are in this transaction, and
/// moves every head past what is proven; answers whether it did. Another replica, or another node's
/// stream, may have done so before.
///
/// # Errors
/// What the store says.
pub async fn rewind(
    store: &Store,
    now: Timestamp,
    node: &NodeRecord,
    proofs: &[Proof],
) -> Result<bool, Error> {
    let by = By::node(now, &node.name);
    let mut tx = store.begin_write().await?;
    let mut proven = Vec::new();
    for proof in proofs {
        let base = heads::get(tx.tx(), &proof.scope, proof.part).await?.unwrap_or_default();
        if proof.position > base || (proof.forked && proof.position == base) {
            let (scope, part, position) = (proof.scope.clone(), proof.part, proof.position);
            proven.push(ProvenHead { scope, part, position, base });
        }
    }
    if proven.is_empty() {
        return Ok(false);
    }
    let earlier = meta::epoch(tx.tx()).await?;
    let newest = proven.iter().map(|proof| proof.position.epoch).max().unwrap_or_default();
    let epoch = earlier.max(newest) + 1;
    let jump: Vec<(Scope, Part, Position)> =
        proven.iter().map(|proof| (proof.scope.clone(), proof.part, proof.position)).collect();
    tx.rewind(epoch, &jump).await?;
    tracing::error!(
        epoch,
        node.name = %node.name,
        "the database is older than what nodes hold: it was restored; a new epoch begins"
    );
    let (node, node_name) = (node.id.clone(), node.name.clone());
    tx.audit(&by.origin, Event::StoreRewound { node, node_name, epoch, earlier, proven });
    tx.commit(now).await?;
    Ok(true)
}
