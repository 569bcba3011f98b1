//! Takes a plugin away from an edge.

use domain::audit::Event;
use domain::id::{EdgeName, PluginName};
use domain::plugin_set::{Part, Scope};

use super::assign::refuse_in_rollout;
use super::{By, Code, Error, unassign_candidate};
use crate::store::{Store, assignments, candidates, edges};

/// Takes a plugin away from an edge, with what the edge tries of it. Its snapshots and pins stay, so
/// that assigning it again needs no approval.
///
/// # Errors
/// No such edge; the plugin is not assigned there.
pub async fn unassign(store: &Store, by: &By, edge: &EdgeName, plugin: &PluginName) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    if edges::get(tx.tx(), edge).await?.is_none() {
        return Err(Error::no_edge(edge));
    }
    refuse_in_rollout(tx.tx(), edge, plugin).await?;
    let assigned = assignments::of_edge(tx.tx(), edge).await?;
    let Some(assigned) = assigned.into_iter().find(|one| one.version.plugin == *plugin) else {
        return Err(Error::refused(Code::NotAssigned, format!("{plugin} is not assigned to edge {edge}")));
    };
    if let Some(candidate) = candidates::of_plugin(tx.tx(), edge, plugin).await? {
        unassign_candidate::end(&mut tx, by, edge, &candidate, false).await?;
    }
    assignments::delete(tx.tx(), edge, plugin).await?;
    tx.audit(&by.origin, Event::EdgeAssignmentUnset { edge: edge.clone(), version: assigned.version });
    tx.raise(Scope::Edge(edge.clone()), Part::Trust);
    tx.raise(Scope::Edge(edge.clone()), Part::Plan);
    tx.commit(by.now).await?;
    Ok(())
}
