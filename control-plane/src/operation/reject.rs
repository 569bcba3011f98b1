//! Keeps changed listings refused and out of the alerts.

use domain::audit::{Event, FunctionDifference};
use domain::id::PluginName;

use super::approve::{Decided, Standing};
use super::{By, Error};
use crate::store::Store;
use crate::store::changes::{self, State};

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
        if let Some(stale) = standing.of(&mut tx, &key, false).await?.stale(difference) {
            decided.stale.push(stale);
            continue;
        }
        let key = (&difference.version, &difference.tool);
        changes::set_state(tx.tx(), key, &difference.function, difference.seen, State::Rejected).await?;
        decided.functions.push(difference.clone());
    }
    if !decided.functions.is_empty() {
        let (plugin, functions) = (plugin.clone(), decided.functions.clone());
        tx.audit(&by.origin, Event::ToolsReject { plugin, functions });
    }
    tx.commit(by.now).await?;
    Ok(decided)
}
