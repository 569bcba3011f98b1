//! Takes the newest approval of a plugin back: what it replaced is gone by again.

use std::collections::BTreeSet;

use domain::audit::{Event, FunctionDifference};
use domain::id::{EdgeName, PluginName, PluginVersion, ToolId};

use super::approve::{Decided, Stale, put, raise_for};
use super::reconcile_changes::reconcile_changes;
use super::{By, Code, Error};
use crate::store::approvals::{self, Replaced};
use crate::store::{Store, WriteTx, snapshots};

/// Undoes the approval with this number, if it is the newest of which something was not undone. What is not
/// gone by any longer as it left it stays as it is.
///
/// # Errors
/// Another one is the newest, or there is none.
pub async fn undo_approval(
    store: &Store,
    by: &By,
    plugin: &PluginName,
    approval: u64,
    attended: bool,
) -> Result<Decided, Error> {
    let mut tx = store.begin_write().await?;
    let newest = approvals::latest(tx.tx(), plugin).await?;
    let Some(act) = newest.as_ref().filter(|act| act.id == approval) else {
        let detail = match newest {
            Some(newest) => format!(
                "approval {approval} of {plugin} is not the newest that can be undone, that is {}",
                newest.id
            ),
            None => format!("no approval of {plugin} can be undone"),
        };
        return Err(Error::with_remedy(
            Code::ApprovalStale,
            detail,
            format!("pintle plugin approve-tools {plugin} --undo"),
        ));
    };
    let mut decided = Decided::default();
    for one in &act.replaced {
        match fault(&mut tx, one).await? {
            Some(stale) => decided.stale.push(stale),
            None => decided.functions.push(back(one)),
        }
        // What cannot be undone never can: the next time, the approval before is taken back.
        approvals::undone(tx.tx(), act.id, one, by.now).await?;
    }
    put(&mut tx, by, &decided.functions).await?;
    let (plugin, functions) = (plugin.clone(), decided.functions.clone());
    tx.audit(&by.origin, Event::ToolsUndo { plugin, approval, functions, attended });
    let touched: BTreeSet<(&PluginVersion, &ToolId)> =
        decided.functions.iter().map(|one| (&one.version, &one.tool)).collect();
    for (version, tool) in touched {
        reconcile_changes(&mut tx, by, version, tool).await?;
    }
    decided.edges = raise_for(&mut tx, &decided).await?;
    tx.commit(by.now).await?;
    Ok(decided)
}

/// What becomes of a function.
fn back(one: &Replaced) -> FunctionDifference {
    FunctionDifference {
        version: one.version.clone(),
        tool: one.tool.clone(),
        function: one.function.clone(),
        edge: one.edge.clone(),
        approved: one.now,
        seen: one.earlier,
    }
}

/// Why what an approval did to a function cannot be taken back.
async fn fault(tx: &mut WriteTx, one: &Replaced) -> Result<Option<Stale>, Error> {
    let snapshot = snapshots::of_version(tx.tx(), &one.version, one.edge.as_ref()).await?;
    let key = (one.tool.clone(), one.function.clone());
    let now = snapshot.functions.get(&key).map(|approved| approved.hash);
    if now == one.now {
        return Ok(None);
    }
    let who = one.edge.as_ref().map_or("the fleet", EdgeName::as_str);
    let text = now.map_or_else(|| "no listing".to_owned(), |hash| hash.to_string());
    Ok(Some(Stale {
        version: one.version.clone(),
        tool: one.tool.clone(),
        function: Some(one.function.clone()),
        approved: now,
        reason: format!("{who} goes by {text} meanwhile, which another approval decided"),
    }))
}
