//! Has an edge go by what the fleet does again, for functions that it decided about itself.

use std::collections::{BTreeMap, BTreeSet};

use domain::audit::{Event, FunctionDifference};
use domain::id::{EdgeName, PluginName, PluginVersion};

use super::approve::{Decided, Stale, raise_for};
use super::reconcile_changes::reconcile_changes;
use super::{By, Error};
use crate::store::snapshots::{self, VersionSnapshot};
use crate::store::{Store, edges};

/// Drops what an edge has of its own: exactly what was shown, `approved` being what the edge goes by and `seen`
/// what the fleet does.
///
/// # Errors
/// No such edge.
pub async fn clear_own(
    store: &Store,
    by: &By,
    plugin: &PluginName,
    edge: &EdgeName,
    (functions, attended): (&[FunctionDifference], bool),
) -> Result<Decided, Error> {
    let mut tx = store.begin_write().await?;
    if edges::get(tx.tx(), edge).await?.is_none() {
        return Err(Error::no_edge(edge));
    }
    let mut decided = Decided::default();
    let mut known: BTreeMap<PluginVersion, (VersionSnapshot, VersionSnapshot)> = BTreeMap::new();
    for one in functions {
        if !known.contains_key(&one.version) {
            let own = snapshots::of_version(tx.tx(), &one.version, Some(edge)).await?;
            let fleet = snapshots::of_version(tx.tx(), &one.version, None).await?;
            known.insert(one.version.clone(), (own, fleet));
        }
        let Some((own, fleet)) = known.get(&one.version) else { continue };
        if let Some(stale) = fault(edge, one, own, fleet) {
            decided.stale.push(stale);
            continue;
        }
        snapshots::drop_own(tx.tx(), (&one.version, &one.tool), edge, &one.function).await?;
        decided.functions.push(FunctionDifference { edge: Some(edge.clone()), ..one.clone() });
    }
    if !decided.functions.is_empty() {
        let (plugin, functions) = (plugin.clone(), decided.functions.clone());
        tx.audit(&by.origin, Event::ToolsClear { plugin, functions, attended });
    }
    let touched: BTreeSet<_> = decided.functions.iter().map(|one| (&one.version, &one.tool)).collect();
    for (version, tool) in touched {
        reconcile_changes(&mut tx, by, version, tool).await?;
    }
    decided.edges = raise_for(&mut tx, &decided).await?;
    tx.commit(by.now).await?;
    Ok(decided)
}

/// Why it is not, or no longer, as it was shown.
fn fault(
    edge: &EdgeName,
    one: &FunctionDifference,
    own: &VersionSnapshot,
    fleet: &VersionSnapshot,
) -> Option<Stale> {
    let key = (one.tool.clone(), one.function.clone());
    let of = |snapshot: &VersionSnapshot| snapshot.functions.get(&key).map(|approved| approved.hash);
    let reason = if !own.own.contains(&key) {
        format!("edge {edge} goes by what the fleet does")
    } else if of(own) != one.approved || of(fleet) != one.seen {
        "it is another meanwhile than was shown".to_owned()
    } else {
        return None;
    };
    Some(Stale {
        version: one.version.clone(),
        tool: one.tool.clone(),
        function: Some(one.function.clone()),
        approved: of(own),
        reason,
    })
}
