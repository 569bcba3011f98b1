//! Takes an evicted node off the record. Its key never joins again, its name is free.

use domain::audit::Event;
use domain::plugin_set::Scope;
use domain::standing::Verb;

use super::expel::forget_what_it_had;
use super::find_node::{decide, find_node};
use super::{By, Error};
use crate::store::{NodeRecord, Store, WriteTx, heads, nodes};

/// Removes an evicted node, by name or id.
///
/// # Errors
/// There is no such node, or it is not evicted.
pub async fn remove_node(store: &Store, by: &By, wanted: &str) -> Result<NodeRecord, Error> {
    let mut tx = store.begin_write().await?;
    let node = find_node(tx.tx(), wanted).await?;
    decide(&node, Verb::Remove)?;
    take_off(&mut tx, by, &node).await?;
    tx.commit(by.now).await?;
    Ok(node)
}

/// Takes a node off the record, in the transaction of whatever wants its place.
pub(super) async fn take_off(tx: &mut WriteTx, by: &By, node: &NodeRecord) -> Result<(), Error> {
    forget_what_it_had(tx, by, node).await?;
    nodes::remove(tx.tx(), node, (by.now, &by.origin.actor)).await?;
    heads::remove(tx.tx(), &Scope::Node(node.id.clone())).await?;
    tx.stands_differently().await?;
    let (id, node_name, edge) = (node.id.clone(), node.name.clone(), node.edge.clone());
    tx.audit(&by.origin, Event::NodeRemove { node: id, node_name, edge });
    Ok(())
}
