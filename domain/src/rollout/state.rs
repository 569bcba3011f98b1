//! How a rollout stands.

use std::collections::BTreeMap;

use crate::id::{EdgeName, NodeId};
use crate::time::Timestamp;

/// How a rollout stands; kept as it is between two decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// What it is about to do.
    pub phase: Phase,
    /// The wave that is under way, from 0.
    pub wave: usize,
    /// The edges that have begun.
    pub edges: BTreeMap<EdgeName, Run>,
    /// When something moved last; the deadline counts from here.
    pub moved_at: Timestamp,
}

/// What a rollout is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was done yet.
    Pending,
    /// Nodes get the version.
    Progressing,
    /// Nothing is done until a person says so, or too much time has passed.
    Paused {
        /// When that began: no other clock runs meanwhile.
        since: Timestamp,
        /// Why.
        why: Pause,
    },
    /// Edges go back to what they had.
    RollingBack {
        /// Why.
        reason: String,
    },
    /// Every edge has the version.
    Completed,
    /// No edge has it on account of this rollout.
    RolledBack {
        /// Why.
        reason: String,
    },
}

impl Phase {
    /// Its word in the API and the store.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Progressing => "progressing",
            Self::Paused { .. } => "paused",
            Self::RollingBack { .. } => "rolling_back",
            Self::Completed => "completed",
            Self::RolledBack { .. } => "rolled_back",
        }
    }
}

/// Why a rollout is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A person said so.
    Person,
    /// It failed, and its plan says that a person decides.
    Failed(String),
    /// Nobody approved what waits.
    Unapproved(String),
}

/// How the rollout stands on one edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The nodes that the edge had when it began, in the order in which they get the version.
    pub members: Vec<NodeId>,
    /// The step that is under way, from 0.
    pub step: usize,
    /// What of it.
    pub part: Part,
}

/// What of a step is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its nodes install and start the version.
    Installing,
    /// They have it, since then.
    Holding(Timestamp),
    /// The version is the edge's installed one.
    Promoted,
    /// The edge has what it had before.
    Reverted,
}

impl State {
    /// Of a rollout that nothing was done of.
    pub const fn new(now: Timestamp) -> Self {
        Self { phase: Phase::Pending, wave: 0, edges: BTreeMap::new(), moved_at: now }
    }

    /// Whether nothing comes after it.
    pub const fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Completed | Phase::RolledBack { .. })
    }

    /// Lets clocks run as if the pause had not been.
    pub(super) fn skip_pause(&mut self, since: Timestamp, now: Timestamp) {
        let pause = now.millis_since(since).max(0);
        self.moved_at = self.moved_at.plus_millis(pause);
        for run in self.edges.values_mut() {
            if let Part::Holding(since) = &mut run.part {
                *since = since.plus_millis(pause);
            }
        }
    }
}
