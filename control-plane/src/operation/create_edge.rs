//! Makes an edge.

use domain::audit::Event;
use domain::id::EdgeName;
use domain::plugin_set::{Part, Scope};

use super::{By, Error};
use crate::store::{Store, edges};

/// Makes an edge with an empty plugin set; answers whether it was new.
///
/// # Errors
/// What the store says.
pub async fn create_edge(store: &Store, by: &By, edge: &EdgeName) -> Result<bool, Error> {
    let mut tx = store.begin_write().await?;
    if !edges::insert(tx.tx(), edge, by.now, &by.origin.actor).await? {
        return Ok(false);
    }
    for part in Part::OF_EDGE {
        tx.raise(Scope::Edge(edge.clone()), part);
    }
    tx.audit(&by.origin, Event::EdgeCreate { edge: edge.clone() });
    tx.commit(by.now).await?;
    Ok(true)
}
