//! A person steers a rollout.

use domain::rollout::{CommandFault, Verb, command};

use super::record;
use crate::operation::assign::refuse_in_rollout;
use crate::operation::{By, Code, Error};
use crate::store::{Rollout, Store, rollouts};

/// What a verb came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// How the rollout stands.
    pub rollout: Rollout,
    /// Whether anything changed.
    pub changed: bool,
}

/// Says a verb to a rollout.
///
/// # Errors
/// There is none; the verb says nothing to one that stands so.
pub async fn steer(store: &Store, by: &By, id: &str, verb: &Verb) -> Result<Said, Error> {
    let mut tx = store.begin_write().await?;
    let Some(rollout) = rollouts::find(tx.tx(), id).await? else { return Err(no_rollout(id)) };
    let said = command(&rollout.plan, &rollout.state, verb, by.now);
    let decision = said.map_err(|fault| {
        let detail = format!("rollout {id} of {}: {fault}", rollout.plan.to);
        match fault {
            CommandFault::NotCompleted => Error::with_remedy(
                Code::RolloutDiffers,
                detail,
                format!("pintle rollout abort {id} --reason TEXT"),
            ),
            CommandFault::Ended => {
                Error::with_remedy(Code::RolloutDiffers, detail, format!("pintle rollout show {id}"))
            }
            _ => Error::refused(Code::RolloutDiffers, detail),
        }
    })?;
    let Some(state) = decision.state else { return Ok(Said { rollout, changed: false }) };
    if matches!(verb, Verb::Undo(_)) {
        for edge in rollout.state.edges.keys() {
            refuse_in_rollout(tx.tx(), edge, &rollout.plan.to.plugin).await?;
        }
    }
    record(&mut tx, by, rollout, state, decision.reason).await?;
    tx.commit(by.now).await?;
    let mut tx = store.read().await?;
    let rollout = rollouts::find(&mut tx, id).await?.ok_or_else(|| no_rollout(id))?;
    Ok(Said { rollout, changed: true })
}

/// There is none.
pub(crate) fn no_rollout(id: &str) -> Error {
    let shown = domain::visible::make_visible_up_to(id, 100);
    Error::with_remedy(Code::NotFound, format!("there is no rollout {shown}"), "pintle rollout list")
}
