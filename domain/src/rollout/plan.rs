//! What a person wants of a rollout.

use std::collections::BTreeSet;

use crate::id::{EdgeName, PluginVersion};

/// Waves of one plan.
pub const WAVES_MAX: usize = 32;

/// Steps of one wave.
pub const STEPS_MAX: usize = 32;

/// Edges of one plan.
pub const EDGES_MAX: usize = 1_000;

/// The longest time that a plan may name, in milliseconds: 30 days.
pub const TIME_MAX_MS: u64 = 30 * 24 * 3_600_000;

/// A rollout as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The version that is rolled out.
    pub to: PluginVersion,
    /// One after the other.
    pub waves: Vec<Wave>,
    /// How long nothing may move, not counting holds, before it has failed. Milliseconds.
    pub progress_deadline_ms: u64,
    /// How long a node is waited for that is away. Milliseconds.
    pub offline_grace_ms: u64,
    /// Nodes that may fail to run the version before the rollout has failed.
    pub failed_nodes: u32,
    /// What happens where functions of the version wait for approval.
    pub on_changes: OnChanges,
    /// What happens when it has failed.
    pub on_failure: OnFailure,
}

/// Edges that get the version together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wave {
    /// For people.
    pub name: String,
    /// Which.
    pub edges: Vec<EdgeName>,
    /// How many of them at once.
    pub parallel_edges: u32,
    /// What each of them goes through; the last one is all nodes.
    pub steps: Vec<Step>,
}

/// A part of an edge's nodes, and how long it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many nodes have the version.
    pub nodes: Share,
    /// How long they have it before more get it. Milliseconds.
    pub hold_ms: u64,
}

/// How many of an edge's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// So many.
    Count(u32),
    /// So many of a hundred, rounded up.
    Percent(u8),
}

impl Share {
    /// Of so many nodes; never more than there are.
    pub fn of(self, nodes: usize) -> usize {
        match self {
            Self::Count(count) => nodes.min(usize::try_from(count).unwrap_or(usize::MAX)),
            Self::Percent(percent) => nodes.saturating_mul(usize::from(percent)).div_ceil(100).min(nodes),
        }
    }

    /// Whether it is all of them, however many there are.
    const fn is_all(self) -> bool {
        matches!(self, Self::Percent(100))
    }
}

/// What happens where functions of the version wait for approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChanges {
    /// The rollout waits too.
    Wait,
    /// The rollout goes on; those functions wait.
    GoOn,
}

/// What happens when a rollout has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Every edge goes back to what it had.
    RollBack,
    /// It stays as it is until a person says more.
    Pause,
}

/// Why a plan is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// It does nothing.
    #[error("a plan has 1 to {WAVES_MAX} waves, not {0}")]
    Waves(usize),
    /// A wave does nothing.
    #[error("wave {wave} has {got} steps; 1 to {STEPS_MAX} are taken")]
    Steps {
        /// Which.
        wave: String,
        /// How many.
        got: usize,
    },
    /// A wave is for nobody.
    #[error("wave {0} names no edge")]
    NoEdge(String),
    /// No edge could begin.
    #[error("wave {0} takes no edge at a time; parallel_edges is 1 or more")]
    NoneAtOnce(String),
    /// Too much for one plan.
    #[error("the plan names {0} edges, at most {EDGES_MAX} are taken")]
    Edges(usize),
    /// An edge would get it twice.
    #[error("edge {0} is named twice")]
    EdgeTwice(EdgeName),
    /// A step that is none.
    #[error("step {step} of wave {wave} is for {got} nodes; a step is for 1 node or more, or 1% to 100%")]
    Share {
        /// Of which wave.
        wave: String,
        /// Which, from 1.
        step: usize,
        /// What was given.
        got: String,
    },
    /// A step that takes nodes away again.
    #[error("step {step} of wave {wave} is for fewer nodes than the one before it")]
    Fewer {
        /// Of which wave.
        wave: String,
        /// Which, from 1.
        step: usize,
    },
    /// The edge would never get the version.
    #[error("the last step of wave {0} is for all nodes: 100%")]
    NotAll(String),
    /// A time that is too long or none.
    #[error(
        "{what} is {got} ms; at most {TIME_MAX_MS} ms (30 days) are taken, and more than none where something is waited for"
    )]
    Time {
        /// Which.
        what: String,
        /// What was given.
        got: u64,
    },
}

impl Plan {
    /// Whether it can be carried out. How many nodes an edge has is judged when it begins.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn check(&self) -> Result<(), PlanFault> {
        if self.waves.is_empty() || self.waves.len() > WAVES_MAX {
            return Err(PlanFault::Waves(self.waves.len()));
        }
        let mut named = BTreeSet::new();
        for wave in &self.waves {
            wave.check()?;
            for edge in &wave.edges {
                if !named.insert(edge) {
                    return Err(PlanFault::EdgeTwice(edge.clone()));
                }
            }
        }
        if named.len() > EDGES_MAX {
            return Err(PlanFault::Edges(named.len()));
        }
        let deadline = self.progress_deadline_ms;
        if deadline == 0 || deadline > TIME_MAX_MS {
            return Err(PlanFault::Time { what: "progress_deadline".to_owned(), got: deadline });
        }
        if self.offline_grace_ms > TIME_MAX_MS {
            return Err(PlanFault::Time { what: "offline_grace".to_owned(), got: self.offline_grace_ms });
        }
        Ok(())
    }
}

impl Wave {
    fn check(&self) -> Result<(), PlanFault> {
        let wave = || self.name.clone();
        if self.edges.is_empty() {
            return Err(PlanFault::NoEdge(wave()));
        }
        if self.parallel_edges == 0 {
            return Err(PlanFault::NoneAtOnce(wave()));
        }
        if self.steps.is_empty() || self.steps.len() > STEPS_MAX {
            return Err(PlanFault::Steps { wave: wave(), got: self.steps.len() });
        }
        let mut before: Option<Share> = None;
        for (at, step) in self.steps.iter().enumerate() {
            let got = match step.nodes {
                Share::Count(0) => Some("0".to_owned()),
                Share::Percent(percent) if percent == 0 || percent > 100 => Some(format!("{percent}%")),
                _ => None,
            };
            if let Some(got) = got {
                return Err(PlanFault::Share { wave: wave(), step: at + 1, got });
            }
            if step.hold_ms > TIME_MAX_MS {
                let what = format!("hold of step {} of wave {}", at + 1, self.name);
                return Err(PlanFault::Time { what, got: step.hold_ms });
            }
            let is_fewer = match (before, step.nodes) {
                (Some(Share::Count(before)), Share::Count(now)) => now < before,
                (Some(Share::Percent(before)), Share::Percent(now)) => now < before,
                // How they compare depends on the edge; a step then takes no nodes away, and adds none.
                _ => false,
            };
            if is_fewer {
                return Err(PlanFault::Fewer { wave: wave(), step: at + 1 });
            }
            before = Some(step.nodes);
        }
        if !self.steps.last().is_some_and(|last| last.nodes.is_all()) {
            return Err(PlanFault::NotAll(wave()));
        }
        Ok(())
    }
}
