//! Rollouts: a version moves over edges in waves, and on each edge over its nodes in steps.
//!
//! [`decide`] is one pure function, `(plan, state, fleet, now) -> (state, actions, report)`, and makes one move at most; who
//! calls it records state and actions in one transaction, if the state is still what it was given, and asks again.
//! [`command`] is what people say. The rules are those of 40-rollouts; the invariants are in the tests:
//!
//! - aborting outranks everything, and is taken in every state that has not ended;
//! - every state that has not ended has a deadline and says what happens then; a pause stops the clock;
//! - who is a canary is decided by rank over the nodes that an edge had when its first step began, and stays so;
//! - a node that is away is neither a success nor a failure;
//! - the installed version of an edge moves when the edge's last step has held, and not before.

mod command;
mod decide;
mod fleet;
mod plan;
mod state;
#[cfg(test)]
mod tests;

pub use command::{CommandFault, UNDO_MS, Verb, command};
pub use decide::{Action, Decision, decide};
pub use fleet::{EdgeView, Fleet, NodeView, Progress};
pub use plan::{
    EDGES_MAX, OnChanges, OnFailure, Plan, PlanFault, STEPS_MAX, Share, Step, TIME_MAX_MS, WAVES_MAX, Wave,
};
pub use state::{Part, Pause, Phase, Run, State};

use crate::digest::Digest;
use crate::id::NodeId;

/// The order in which nodes of an edge become canaries: by SHA-256 of the rollout's id and the node's, so that it is
/// another in each rollout, and the same whoever works it out.
pub fn rank(rollout: &str, nodes: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
    let mut ranked: Vec<(Digest, NodeId)> = nodes
        .into_iter()
        .map(|node| (Digest::of_parts([rollout.as_bytes(), node.as_str().as_bytes()]), node))
        .collect();
    ranked.sort();
    ranked.dedup_by(|(_, a), (_, b)| a == b);
    ranked.into_iter().map(|(_, node)| node).collect()
}
