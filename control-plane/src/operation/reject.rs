//! Keeps changed listings refused and out of the alerts.

use domain::audit::{Event, FunctionDifference};
use domain::id::PluginName;

use super::approve::{Decided, Standing, by_tool, shown};
use super::{By, Error};
use crate::store::Store;
use crate::store::changes::{self, Shown, State};

/// Rejects. For what is not as it was shown nothing is done. Nodes refused it before and go on doing
/// so, hence no head is raised.
///
/// # Errors
/// What the store says.
pub async fn reject(
    store: &Store,
    by: &By,
    plugin: &PluginName,
    functions: &[FunctionDifference],
) -> Result<Decided, Error> {
    let mut tx = store.begin_write().await?;
    let mut decided = Decided::default();
    let mut standing = Standing::default();
    for difference in functions {
        let key = (difference.version.clone(), difference.tool.clone());
        if let Some(stale) =
            standing.of(&mut tx, &key, difference.edge.as_ref(), false).await?.stale(difference)
        {
            decided.stale.push(stale);
            continue;
        }
        decided.functions.push(difference.clone());
    }
    for ((version, tool, _), functions) in by_tool(&decided.functions) {
        let shown: Vec<Shown> = functions.into_iter().map(shown).collect();
        changes::set_states(tx.tx(), (version, tool), &shown, State::Rejected).await?;
    }
    if !decided.functions.is_empty() {
        let (plugin, functions) = (plugin.clone(), decided.functions.clone());
        tx.audit(&by.origin, Event::ToolsReject { plugin, functions });
    }
    tx.commit(by.now).await?;
    Ok(decided)
}
