//! Finds the archive that a node may download.

use std::path::PathBuf;

use domain::digest::Digest;
use domain::id::NodeId;

use super::Error;
use crate::store::{Blobs, NodeRecord, Store, nodes, plugins};

/// The file of an archive; `None` unless the plan of the node's edge names it.
///
/// # Errors
/// What the store says.
pub async fn bundle_for(
    (store, blobs): (&Store, &Blobs),
    node: &NodeId,
    archive: &Digest,
) -> Result<Option<PathBuf>, Error> {
    let mut tx = store.read().await?;
    let Some(node) = nodes::get(&mut tx, node).await? else { return Ok(None) };
    let is_planned = plugins::is_archive_planned(&mut tx, &node.edge, archive).await?;
    Ok(is_planned.then(|| blobs.path(archive)))
}

/// What is on record of a node; `None` if it never joined.
///
/// # Errors
/// What the store says.
pub async fn node_record(store: &Store, node: &NodeId) -> Result<Option<NodeRecord>, Error> {
    let mut tx = store.read().await?;
    Ok(nodes::get(&mut tx, node).await?)
}

/// How many nodes the fleet has.
///
/// # Errors
/// What the store says.
pub async fn fleet_size(store: &Store) -> Result<u64, Error> {
    let mut tx = store.read().await?;
    Ok(nodes::count(&mut tx).await?)
}
