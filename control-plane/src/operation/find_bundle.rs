//! Finds what a node may have: its record, and the archives that its plan names.

use std::path::{Path, PathBuf};

use domain::digest::Digest;
use domain::id::{NodeId, NodeName};
use domain::standing::Standing;

use super::Error;
use super::push_version::{UPLOAD_MAX, folder, stage_error};
use crate::store::{Blobs, NodeRecord, Store, meta, nodes, plugins};

/// The file of an archive, brought here first if it was pushed to another server; `None` unless the plan of the
/// node's edge names it, and the node may work and has this key.
///
/// # Errors
/// What the store says.
pub async fn bundle_for(
    (store, blobs): (&Store, &Blobs),
    (node, key): (&NodeId, &Digest),
    archive: &Digest,
) -> Result<Option<PathBuf>, Error> {
    let mut tx = store.read().await?;
    let Some(node) = nodes::get(&mut tx, node).await? else { return Ok(None) };
    if node.standing.standing != Standing::Active || node.public_key_sha256 != *key {
        return Ok(None);
    }
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

/// How often nodes came to stand differently.
///
/// # Errors
/// What the store says.
pub async fn standings(store: &Store) -> Result<u64, Error> {
    let mut tx = store.read().await?;
    Ok(meta::counted(&mut tx, meta::STANDINGS).await?)
}

/// What is on record of a node, and how often nodes had come to stand differently at that moment.
///
/// # Errors
/// What the store says.
pub async fn counted_record(store: &Store, node: &NodeId) -> Result<(u64, Option<NodeRecord>), Error> {
    let mut tx = store.read().await?;
    let counted = meta::counted(&mut tx, meta::STANDINGS).await?;
    Ok((counted, nodes::get(&mut tx, node).await?))
}

/// The same of all nodes.
///
/// # Errors
/// What the store says.
pub async fn records(store: &Store) -> Result<(u64, Vec<NodeRecord>), Error> {
    let mut tx = store.read().await?;
    let counted = meta::counted(&mut tx, meta::STANDINGS).await?;
    Ok((counted, nodes::all(&mut tx).await?))
}

/// The session counters of nodes that may work, as servers wrote them.
///
/// # Errors
/// What the store says.
pub async fn counters(store: &Store) -> Result<Vec<(NodeId, u64)>, Error> {
    let mut tx = store.read().await?;
    Ok(nodes::counters(&mut tx).await?)
}

/// The name of a node that was removed.
///
/// # Errors
/// What the store says.
pub async fn former_node(store: &Store, node: &NodeId) -> Result<Option<NodeName>, Error> {
    let mut tx = store.read().await?;
    Ok(nodes::former(&mut tx, node).await?)
}

/// The key that session counters are sealed with.
///
/// # Errors
/// What the store says; it is none.
pub async fn session_key(store: &Store) -> Result<[u8; 32], Error> {
    let mut tx = store.read().await?;
    let text = meta::get(&mut tx, meta::SESSION_KEY).await?.unwrap_or_default();
    let mut key = [0; 32];
    hex::decode_to_slice(&text, &mut key)
        .map_err(|fault| crate::store::Error::inconsistent("the key of session counters", "", fault))?;
    Ok(key)
}

/// How many nodes the fleet has.
///
/// # Errors
/// What the store says.
pub async fn fleet_size(store: &Store) -> Result<u64, Error> {
    let mut tx = store.read().await?;
    Ok(nodes::count(&mut tx).await?)
}
