//! Evicts and bans nodes: an evicted one must join again with a new key, a banned one never comes back.
//!
//! What the node said that it runs and saw goes with it, so that it holds up nothing; that it was there stays.

use std::collections::BTreeSet;

use domain::audit::Event;
use domain::id::PluginVersion;
use domain::plugin_set::{Part, Scope};
use domain::standing::{Change, Verb};
use domain::visible::make_visible_up_to;

use super::find_node::{decide, find_node};
use super::reconcile_changes::reconcile_changes;
use super::{By, Error};
use crate::store::{NodeRecord, Stands, Store, WriteTx, assignments, nodes, sightings};

/// Most characters of a reason: two sentences.
const REASON_MAX: usize = 300;

/// Evicts a node, by name or id; of one that is evicted already nothing changes.
///
/// # Errors
/// There is no such node, or it is banned.
pub async fn evict(store: &Store, by: &By, wanted: &str, reason: &str) -> Result<NodeRecord, Error> {
    expel(store, by, wanted, (Verb::Evict, reason)).await
}

/// Bans a node, by name or id; of one that is banned already nothing changes.
///
/// # Errors
/// There is no such node.
pub async fn ban(store: &Store, by: &By, wanted: &str, reason: &str) -> Result<NodeRecord, Error> {
    expel(store, by, wanted, (Verb::Ban, reason)).await
}

async fn expel(
    store: &Store,
    by: &By,
    wanted: &str,
    (verb, reason): (Verb, &str),
) -> Result<NodeRecord, Error> {
    let mut tx = store.begin_write().await?;
    let mut node = find_node(tx.tx(), wanted).await?;
    let Change::To(standing) = decide(&node, verb)? else { return Ok(node) };
    let reason = make_visible_up_to(reason, REASON_MAX);
    node.standing =
        Stands { standing, reason: reason.clone(), by: by.origin.actor.clone(), at: Some(by.now) };
    "[]".clone_into(&mut node.copies);
    nodes::set_standing(tx.tx(), &node).await?;
    forget_what_it_had(&mut tx, by, &node).await?;
    tx.stands_differently().await?;
    let (id, node_name, edge) = (node.id.clone(), node.name.clone(), node.edge.clone());
    tx.audit(
        &by.origin,
        match verb {
            Verb::Ban => Event::NodeBan { node: id, node_name, edge, reason },
            _ => Event::NodeEvict { node: id, node_name, edge, reason },
        },
    );
    tx.commit(by.now).await?;
    Ok(node)
}

/// Drops what a node said that it runs and what its tools showed. Changes that only it saw are over; the
/// edge's trust is raised if it named a version for this node alone.
pub(super) async fn forget_what_it_had(tx: &mut WriteTx, by: &By, node: &NodeRecord) -> Result<(), Error> {
    let had = nodes::versions::of(tx.tx(), &node.id).await?.into_iter().map(|entry| entry.version);
    let had: BTreeSet<PluginVersion> = had.collect();
    let showed = sightings::versions_of(tx.tx(), &node.id).await?;
    for version in &had {
        nodes::versions::drop(tx.tx(), &node.id, version).await?;
    }
    for version in showed {
        for tool in sightings::drop_version(tx.tx(), &node.id, &version).await? {
            reconcile_changes(tx, by, &version, &tool).await?;
        }
    }
    for version in &had {
        if !assignments::is_on(tx.tx(), &node.edge, version, None).await? {
            tx.raise(Scope::Edge(node.edge.clone()), Part::Trust);
            break;
        }
    }
    Ok(())
}
