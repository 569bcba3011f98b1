//! Has functions of a new version wait on an edge, where the fleet's policy says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::audit::Event;
use domain::digest::ListingHash;
use domain::id::{EdgeName, PluginVersion, ToolId};
use domain::review::{Review, to_review};

use super::{By, Error};
use crate::store::snapshots::{self, VersionSnapshot};
use crate::store::{WriteTx, assignments, policies, reviews};

/// Compares what a version's tool lists with what the edge goes by for the version that it had, once: when
/// the edge has the version and the tool its snapshot. What waits is gone by as it was before.
pub(super) async fn judge(
    tx: &mut WriteTx,
    by: &By,
    edge: &EdgeName,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<bool, Error> {
    if !reviews::put(tx.tx(), edge, (version, tool), by.now).await? {
        return Ok(false);
    }
    let review = policies::of_fleet(tx.tx()).await?.review_new_versions;
    if review == Review::Off {
        return Ok(false);
    }
    let history = assignments::history(tx.tx(), edge, &version.plugin).await?;
    let before = match history.iter().find(|earlier| *earlier != version) {
        Some(earlier) => Some(of_tool(&snapshots::of_version(tx.tx(), earlier, Some(edge)).await?, tool)),
        None => None,
    };
    let new = of_tool(&snapshots::of_version(tx.tx(), version, None).await?, tool);
    let waiting = to_review(review, before.as_ref(), &new);
    if waiting.is_empty() {
        return Ok(false);
    }
    let meanwhile: Vec<(&str, ListingHash)> =
        waiting.iter().filter_map(|(function, hash)| Some((&**function, (*hash)?))).collect();
    snapshots::put_all(tx.tx(), (version, tool), Some(edge), &meanwhile, by.as_stored()).await?;
    for function in waiting.iter().filter(|(_, hash)| hash.is_none()).map(|(function, _)| function) {
        snapshots::make_absent(tx.tx(), (version, tool), edge, function, by.as_stored()).await?;
    }
    let event = Event::ToolsReview {
        edge: edge.clone(),
        version: version.clone(),
        tool: tool.clone(),
        functions: waiting.into_keys().collect(),
    };
    tx.audit(&by.origin, event);
    Ok(true)
}

fn of_tool(snapshot: &VersionSnapshot, tool: &ToolId) -> BTreeMap<Arc<str>, ListingHash> {
    let functions = snapshot.functions.iter().filter(|((of, _), _)| of == tool);
    functions.map(|((_, name), approved)| (Arc::clone(name), approved.hash)).collect()
}
