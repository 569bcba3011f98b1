//! Finds the archive that a node may download.

use std::path::{Path, PathBuf};

use domain::digest::Digest;
use domain::id::NodeId;

use super::Error;
use super::push_version::{UPLOAD_MAX, folder, stage_error};
use crate::store::{Blobs, NodeRecord, Store, nodes, plugins};

/// The file of an archive, brought here first if it was pushed to another server; `None` unless the plan of the node's edge names it.
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
    if !plugins::is_archive_planned(&mut tx, &node.edge, archive).await? {
        return Ok(None);
    }
    drop(tx);
    let path = blobs.path(archive);
    if store.is_shared() && !is_here(&path).await? {
        bring((store, blobs), archive, &path).await?;
    }
    Ok(Some(path))
}

async fn is_here(path: &Path) -> Result<bool, Error> {
    tokio::fs::try_exists(path).await.map_err(|source| folder("look for", path, source))
}

/// It was pushed to another server: its pieces are put together here, and are what their name says.
async fn bring((store, blobs): (&Store, &Blobs), archive: &Digest, path: &Path) -> Result<(), Error> {
    let _alone = blobs.bringing().await;
    if is_here(path).await? {
        return Ok(());
    }
    let staged = blobs.stage(store.archive(*archive), UPLOAD_MAX).await.map_err(stage_error)?;
    if staged.sha256 != *archive {
        let got = format!("{} bytes with SHA-256 {} in the database", staged.length, staged.sha256);
        return Err(folder("put together", path, std::io::Error::other(got)));
    }
    blobs.keep(&staged).await.map_err(|(path, source)| folder("keep the archive as", &path, source))
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
