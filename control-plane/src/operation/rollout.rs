//! Rollouts: started and steered by people, moved by every server alike.
//!
//! [`move_on`] loads how one stands and what is seen of its edges, has [`domain::rollout::decide`] say what comes next, and
//! records that with its audit event, the grants and the assignments in one transaction. Writers of a fleet go one after
//! the other, so what was seen is still so when it is recorded, and no move is made twice.

mod act;
mod observe;
mod start;
mod steer;

pub use observe::Presence;
pub use start::{Started, start_rollout};
pub use steer::{Said, steer};

use domain::audit::{Event, Origin};
use domain::rollout::{Fleet, Phase, State, decide};
use domain::time::Timestamp;

use super::{By, Error};
use crate::store::{Rollout, Store, WriteTx, rollouts};

/// Moves of one rollout that are made in a row before others get their turn.
const MOVES_MAX: usize = 50;

/// Moves every rollout on that has not ended, as far as it goes now. Answers how many moves were made.
///
/// # Errors
/// What the store says.
pub async fn move_all(
    store: &Store,
    presence: &dyn Presence,
    clock: fn() -> Timestamp,
) -> Result<usize, Error> {
    let mut tx = store.read().await?;
    let under_way = rollouts::under_way(&mut tx).await?;
    drop(tx);
    let mut moves = 0;
    for id in under_way {
        for _ in 0..MOVES_MAX {
            if !move_on(store, presence, &id, clock()).await? {
                break;
            }
            moves += 1;
        }
    }
    Ok(moves)
}

/// Makes the next move of a rollout, if there is one; answers whether there was.
///
/// # Errors
/// What the store says.
pub async fn move_on(
    store: &Store,
    presence: &dyn Presence,
    id: &str,
    now: Timestamp,
) -> Result<bool, Error> {
    // Most looks find nothing to do, and keep no writer out.
    let mut tx = store.read().await?;
    let Some(rollout) = rollouts::find(&mut tx, id).await?.filter(|one| !one.state.is_ended()) else {
        return Ok(false);
    };
    let seen = observe::observe(&mut tx, presence, &rollout).await?;
    drop(tx);
    let decision = decide(id, &rollout.plan, &rollout.state, &seen, now);
    let by = By { now, origin: Origin::system("rollout") };
    if decision.state.is_none() {
        return Ok(false);
    }
    let mut tx = store.begin_write().await?;
    let Some(mut rollout) = rollouts::find(tx.tx(), id).await?.filter(|one| !one.state.is_ended()) else {
        return Ok(false);
    };
    let seen = observe::observe(tx.tx(), presence, &rollout).await?;
    let decision = decide(id, &rollout.plan, &rollout.state, &seen, now);
    let Some(state) = decision.state else { return Ok(false) };
    for action in &decision.actions {
        match act::act(&mut tx, &by, &mut rollout, action).await {
            Ok(()) => {}
            Err(Error::Refused(refused)) if !matches!(state.phase, Phase::RollingBack { .. }) => {
                drop(tx);
                return give_up(store, &by, id, refused.detail).await;
            }
            Err(error) => return Err(error),
        }
    }
    record(&mut tx, &by, rollout, state, decision.reason).await?;
    tx.commit(now).await?;
    Ok(true)
}

/// A rollout, what is seen of its edges, and what it waits for.
#[derive(Debug, Clone)]
pub struct Looked {
    /// It.
    pub rollout: Rollout,
    /// Its edges, as far as they have begun or may begin next.
    pub fleet: Fleet,
    /// Line by line.
    pub waits: Vec<String>,
}

/// Looks at a rollout.
///
/// # Errors
/// There is none of that id.
pub async fn look(store: &Store, presence: &dyn Presence, id: &str, now: Timestamp) -> Result<Looked, Error> {
    let mut tx = store.read().await?;
    let rollout = rollouts::find(&mut tx, id).await?.ok_or_else(|| steer::no_rollout(id))?;
    let fleet = observe::observe(&mut tx, presence, &rollout).await?;
    let waits = decide(id, &rollout.plan, &rollout.state, &fleet, now).waits;
    Ok(Looked { rollout, fleet, waits })
}

/// Rollouts before an id, the newest first; from the newest on if it is empty.
///
/// # Errors
/// What the store says.
pub async fn list_rollouts(store: &Store, before: &str, limit: u64) -> Result<Vec<Rollout>, Error> {
    let mut tx = store.read().await?;
    Ok(rollouts::page(&mut tx, before, limit).await?)
}

/// What the rollout would do cannot be done: its edges go back.
async fn give_up(store: &Store, by: &By, id: &str, reason: String) -> Result<bool, Error> {
    let mut tx = store.begin_write().await?;
    let Some(rollout) = rollouts::find(tx.tx(), id).await?.filter(|one| !one.state.is_ended()) else {
        return Ok(false);
    };
    let phase = Phase::RollingBack { reason: reason.clone() };
    let state = State { phase, moved_at: by.now, ..rollout.state.clone() };
    record(&mut tx, by, rollout, state, reason).await?;
    tx.commit(by.now).await?;
    Ok(true)
}

/// Keeps a move with its audit event.
async fn record(
    tx: &mut WriteTx,
    by: &By,
    rollout: Rollout,
    state: State,
    reason: String,
) -> Result<(), Error> {
    let event = Event::RolloutMove {
        rollout: rollout.id.clone(),
        version: rollout.plan.to.clone(),
        phase: state.phase.as_str().to_owned(),
        reason: reason.clone(),
    };
    let moved = Rollout { state, reason, ..rollout };
    rollouts::update(tx.tx(), &moved, by.now).await?;
    tx.audit(&by.origin, event);
    Ok(())
}
