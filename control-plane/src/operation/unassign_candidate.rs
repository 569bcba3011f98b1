//! Ends what an edge tries: its nodes go back to the installed version.

use domain::audit::Event;
use domain::id::{EdgeName, PluginName};
use domain::plugin_set::{Part, Scope};

use super::assign::refuse_in_rollout;
use super::{By, Code, Error};
use crate::store::candidates::{self, Candidate};
use crate::store::{Store, WriteTx, edges};

/// Ends the candidate of a plugin on an edge. The plan alone says so: what nodes were granted counts no
/// longer.
///
/// # Errors
/// No such edge; it tries none of the plugin.
pub async fn unassign_candidate(
    store: &Store,
    by: &By,
    edge: &EdgeName,
    plugin: &PluginName,
) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    if edges::get(tx.tx(), edge).await?.is_none() {
        return Err(Error::no_edge(edge));
    }
    refuse_in_rollout(tx.tx(), edge, plugin).await?;
    let Some(candidate) = candidates::of_plugin(tx.tx(), edge, plugin).await? else {
        let detail = format!("edge {edge} tries no candidate of {plugin}");
        return Err(Error::refused(Code::NotAssigned, detail));
    };
    end(&mut tx, by, edge, &candidate, false).await?;
    tx.commit(by.now).await?;
    Ok(())
}

/// Ends a candidate, since it was promoted or people want it no longer.
pub(super) async fn end(
    tx: &mut WriteTx,
    by: &By,
    edge: &EdgeName,
    candidate: &Candidate,
    promoted: bool,
) -> Result<(), Error> {
    candidates::end(tx.tx(), edge, &candidate.version.plugin, by.now).await?;
    tx.audit(
        &by.origin,
        Event::EdgeCandidateUnset {
            edge: edge.clone(),
            version: candidate.version.clone(),
            source: candidate.source.to_string(),
            promoted,
        },
    );
    tx.raise(Scope::Edge(edge.clone()), Part::Trust);
    tx.raise(Scope::Edge(edge.clone()), Part::Plan);
    Ok(())
}
