//! What people say to a rollout.

use super::decide::Decision;
use super::plan::Plan;
use super::state::{Part, Pause, Phase, State};
use crate::time::Timestamp;

/// What a person says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Every edge goes back to what it had, for this reason. Outranks all else.
    Abort(String),
    /// Nothing is done from here on.
    Pause,
    /// It goes on where it was; its deadline begins anew.
    Resume,
    /// What holds now has held long enough.
    Advance,
    /// Every edge goes back to what it had, though all have it by now; for this reason.
    Undo(String),
}

/// How long a completed rollout can be undone: what was installed before is not known to fit for ever.
pub const UNDO_MS: i64 = 7 * 24 * 3_600_000;

/// Why a verb says nothing to a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandFault {
    /// Nothing comes after it.
    #[error("it has ended")]
    Ended,
    /// It is not paused.
    #[error("it is not paused")]
    NotPaused,
    /// It is under way to where it was.
    #[error("it is being rolled back, which nothing stops")]
    RollingBack,
    /// Nothing holds.
    #[error("none of its steps is holding")]
    NothingHolds,
    /// It is under way.
    #[error("it has not completed; abort it")]
    NotCompleted,
    /// It was long ago.
    #[error("it completed more than 7 days ago; assign the version that you want")]
    TooLate,
}

/// What a verb comes to.
///
/// # Errors
/// It says nothing to a rollout that stands so.
pub fn command(plan: &Plan, state: &State, verb: &Verb, now: Timestamp) -> Result<Decision, CommandFault> {
    let mut next = state.clone();
    let told = match (verb, &state.phase) {
        (Verb::Undo(_), Phase::Completed) if now.millis_since(state.moved_at) > UNDO_MS => {
            return Err(CommandFault::TooLate);
        }
        (Verb::Undo(reason), Phase::Completed) => {
            next.phase = Phase::RollingBack { reason: format!("undone: {reason}") };
            next.moved_at = now;
            format!("it is undone: {reason}")
        }
        (_, Phase::Completed | Phase::RolledBack { .. }) => return Err(CommandFault::Ended),
        // Once is enough, and what was said first stands.
        (Verb::Abort(_), Phase::RollingBack { .. }) | (Verb::Pause, Phase::Paused { .. }) => {
            return Ok(nothing());
        }
        (Verb::Abort(reason), _) => {
            next.phase = Phase::RollingBack { reason: format!("aborted: {reason}") };
            format!("it was aborted: {reason}")
        }
        (_, Phase::RollingBack { .. }) => return Err(CommandFault::RollingBack),
        (Verb::Undo(_), _) => return Err(CommandFault::NotCompleted),
        (Verb::Pause, Phase::Pending | Phase::Progressing) => {
            next.phase = Phase::Paused { since: now, why: Pause::Person };
            "it was paused".to_owned()
        }
        (Verb::Resume, Phase::Paused { since, .. }) => {
            next.skip_pause(*since, now);
            next.phase = Phase::Progressing;
            next.moved_at = now;
            "it goes on".to_owned()
        }
        (Verb::Resume, _) => return Err(CommandFault::NotPaused),
        (Verb::Advance, Phase::Paused { .. } | Phase::Pending) => return Err(CommandFault::NothingHolds),
        (Verb::Advance, Phase::Progressing) => advance(plan, &mut next)?,
    };
    Ok(Decision::moved(next, Vec::new(), told))
}

const fn nothing() -> Decision {
    Decision { state: None, actions: Vec::new(), reason: String::new(), waits: Vec::new() }
}

fn advance(plan: &Plan, state: &mut State) -> Result<String, CommandFault> {
    let steps = plan.waves.get(state.wave).map(|wave| wave.steps.as_slice()).unwrap_or_default();
    let mut advanced = Vec::new();
    for (edge, run) in &mut state.edges {
        let (Part::Holding(since), Some(step)) = (&mut run.part, steps.get(run.step)) else { continue };
        *since = since.plus_millis(i64::try_from(step.hold_ms).unwrap_or(i64::MAX).saturating_neg());
        advanced.push(edge.to_string());
    }
    if advanced.is_empty() {
        return Err(CommandFault::NothingHolds);
    }
    Ok(format!("what holds has held long enough on {}", advanced.join(", ")))
}
