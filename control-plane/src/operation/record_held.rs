//! Compares what a node holds as approved, from before the database was restored, with what the database
//! goes by: what only the node has waits for a person.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use domain::audit::Event;
use domain::digest::{Digest, ListingHash};
use domain::id::{PluginVersion, ToolId};
use domain::plugin_set::{OriginTrust, Part, Position, Scope, ToolTrust, Trust, VersionTrust};
use domain::time::Timestamp;

use super::block::{raise, set, versions_of};
use super::load_part::load_version;
use super::store_texts::canonical_fault;
use super::{By, Error};
use crate::store::{NodeRecord, Orphan, Store, StoredBlock, WriteTx, listings, orphans, plugins};

/// Most that is kept of one node's trust: more than a fleet approves between two backups.
const ORPHANS_MAX: usize = 10_000;

/// Whether a node that holds `trust` at this position, of an earlier epoch, is to be asked for all of
/// it: the database lost what was there, and nobody told it yet.
///
/// # Errors
/// What the store says.
pub async fn is_lost(
    store: &Store,
    node: &NodeRecord,
    (position, digest, forked): (Position, &Digest, bool),
) -> Result<bool, Error> {
    let mut tx = store.read().await?;
    let scope = Scope::Edge(node.edge.clone());
    let base = orphans::base(&mut tx, &scope, Part::Trust, position).await?;
    let is_beyond = base.is_some_and(|base| position > base);
    Ok((is_beyond || forked) && !orphans::is_salvaged(&mut tx, &node.edge, digest).await?)
}

/// Notes what is lost of a `trust` that the fleet signed with this digest; answers how much that is.
/// Texts are kept where something that is lost names them.
///
/// # Errors
/// What the store says.
pub async fn record_held(
    store: &Store,
    now: Timestamp,
    node: &NodeRecord,
    (digest, trust): (&Digest, &Trust),
    bodies: &[Bytes],
) -> Result<usize, Error> {
    let mut tx = store.begin_write().await?;
    if !orphans::salvage(tx.tx(), &node.edge, digest, (&node.name, now)).await? {
        return Ok(0);
    }
    let mut found = Vec::new();
    let by = By::node(now, &node.name);
    for (version, held) in &trust.versions {
        lost_of_version(&mut tx, node, now, (version, held), &mut found).await?;
        block_again(&mut tx, &by, node, held).await?;
    }
    found.truncate(ORPHANS_MAX);
    let hashes: BTreeSet<&str> = found.iter().map(|orphan| orphan.held.as_str()).collect();
    for text in bodies.iter().filter_map(|body| std::str::from_utf8(body).ok()) {
        let is_named = hashes.contains(ListingHash::of_canonical(text).to_string().as_str());
        if is_named && canonical_fault(text).is_none() {
            listings::put_text(tx.tx(), text).await?;
        }
    }
    let mut new = 0;
    for orphan in &found {
        new += usize::from(orphans::put(tx.tx(), orphan).await?);
    }
    let (edge, count) = (node.edge.clone(), new as u64);
    let event = Event::OrphansFound { node_name: node.name.clone(), edge, digest: *digest, count };
    tx.audit(&by.origin, event);
    tx.commit(now).await?;
    Ok(new)
}

/// A block that the database lost is in force again at once, until a person lifts it: what was stopped stays
/// stopped.
async fn block_again(tx: &mut WriteTx, by: &By, node: &NodeRecord, held: &VersionTrust) -> Result<(), Error> {
    for (id, block) in &held.blocks {
        let edge = (!block.is_fleet_wide).then(|| node.edge.clone());
        let stored = StoredBlock { id: id.to_string(), edge, block: block.clone(), lifted: None };
        if set(tx, by, &stored).await? {
            let versions = versions_of(tx, &block.target).await?;
            raise(tx, &versions, stored.edge.as_ref()).await?;
        }
    }
    Ok(())
}

async fn lost_of_version(
    tx: &mut WriteTx,
    node: &NodeRecord,
    now: Timestamp,
    (version, held): (&PluginVersion, &Arc<VersionTrust>),
    found: &mut Vec<Orphan>,
) -> Result<(), Error> {
    let orphan = |tool: Option<&ToolId>, function: Option<&Arc<str>>, held: String| Orphan {
        edge: node.edge.clone(),
        version: version.clone(),
        tool: tool.cloned(),
        function: function.cloned(),
        held,
        node: node.name.clone(),
        found_at: now,
    };
    if plugins::get(tx.tx(), version).await?.is_none() {
        found.push(orphan(None, None, String::new()));
        return Ok(());
    }
    let kept = load_version(tx.tx(), &node.edge, version).await?;
    let mut differing = Vec::new();
    for (tool, held) in &held.tools {
        let Some(kept) = kept.tools.get(tool) else { continue };
        let functions = lost_functions(kept, held).into_iter();
        differing.extend(functions.map(|(name, hash)| orphan(Some(tool), Some(&name), hash.to_string())));
        differing.extend(lost_origin(kept, held).map(|origin| orphan(Some(tool), None, origin.to_string())));
    }
    for orphan in differing {
        if !orphans::was_ever(tx.tx(), &orphan).await? {
            found.push(orphan);
        }
    }
    Ok(())
}

fn lost_functions(kept: &ToolTrust, held: &ToolTrust) -> Vec<(Arc<str>, ListingHash)> {
    let is_kept =
        |name: &Arc<str>, hash: ListingHash| kept.functions.get(name).is_some_and(|kept| kept.hash == hash);
    let held = held.functions.iter().map(|(name, trust)| (Arc::clone(name), trust.hash));
    held.filter(|(name, hash)| !is_kept(name, *hash)).collect()
}

fn lost_origin(kept: &ToolTrust, held: &ToolTrust) -> Option<Arc<str>> {
    let pinned = |tool: &ToolTrust| match &tool.origin {
        Some(OriginTrust::Pinned { origin, .. }) => Some(Arc::clone(origin)),
        _ => None,
    };
    pinned(held).filter(|origin| pinned(kept).as_ref() != Some(origin))
}
