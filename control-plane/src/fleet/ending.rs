//! Why a node's stream ends for another reason than that the server stops: words for the node and its people.

use std::sync::Arc;

use domain::id::NodeName;
use domain::standing::Standing;
use rand::RngExt as _;

use crate::store::NodeRecord;

/// How often a quarantined node asks whether a person picked: often enough that the pick is felt as one, seldom
/// enough that a fleet of them costs nothing.
const ASK_AGAIN_MS: std::ops::Range<u32> = 10_000..20_000;

/// How soon a challenge is to be repeated.
const REPEAT_MS: u32 = 100;

/// A node that may not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// How it stands; never active.
    pub standing: Standing,
    /// A sentence for its people.
    pub reason: Arc<str>,
}

/// What is said to whoever is turned away: a Goodbye.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The Goodbye's code.
    pub code: &'static str,
    /// Its reason.
    pub reason: Arc<str>,
    /// When to come back; 0 says nothing.
    pub after_ms: u32,
    /// What to repeat then.
    pub challenge: Vec<u8>,
}

impl Ending {
    /// Why this node may not work; `None` if it may.
    pub fn of(node: &NodeRecord) -> Option<Self> {
        let stands = &node.standing;
        let name = &node.name;
        let at = stands.at.map(|at| format!(" at {at}")).unwrap_or_default();
        let why = if stands.reason.is_empty() { String::new() } else { format!(": {}", stands.reason) };
        let by = &stands.by;
        let reason = match stands.standing {
            Standing::Active => return None,
            Standing::Evicted => format!("node {name} was evicted by {by}{at}{why}"),
            Standing::Banned => format!("node {name} was banned by {by}{at}{why}"),
            Standing::Quarantined => format!(
                "copies of node {name} were seen{at}, and none of them works until a person picks one: \
                 pintle node show {name}"
            ),
        };
        Some(Self { standing: stands.standing, reason: reason.into() })
    }

    /// A node that was removed after it was evicted.
    pub fn removed(name: &NodeName) -> Self {
        Self {
            standing: Standing::Evicted,
            reason: format!("node {name} was evicted and taken off the record").into(),
        }
    }

    /// What it is told.
    pub fn turn(&self) -> Turn {
        let after_ms = match self.standing {
            Standing::Quarantined => rand::rng().random_range(ASK_AGAIN_MS),
            Standing::Active | Standing::Evicted | Standing::Banned => 0,
        };
        Turn {
            code: self.standing.as_str(),
            reason: Arc::clone(&self.reason),
            after_ms,
            challenge: Vec::new(),
        }
    }
}

impl Turn {
    /// It is to say Hello again with this.
    pub fn repeat(challenge: Vec<u8>) -> Self {
        let reason = "its session counter is older than one that was acknowledged; it is to show a challenge";
        Self { code: "repeat", reason: reason.into(), after_ms: REPEAT_MS, challenge }
    }

    /// It is a copy that a person did not pick.
    pub fn not_kept(name: &NodeName) -> Self {
        let reason = format!("this machine is a copy of node {name}, and a person picked another one");
        Self { code: Standing::Evicted.as_str(), reason: reason.into(), after_ms: 0, challenge: Vec::new() }
    }

    /// It was taken off the record while it said Hello.
    pub(super) fn unknown() -> Self {
        let reason = "this node is on record no longer";
        Self { code: "refused", reason: reason.into(), after_ms: 5_000, challenge: Vec::new() }
    }
}
