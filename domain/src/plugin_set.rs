//! The plugin set: what a node is told to hold, the order of what it is told, and the rule by which
//! it accepts something newer.
//!
//! A set is three parts of an edge (`trust`, `plan`, `policy`) and one small part of the node's own
//! (`grants`). Each part is a manifest of resources by digest and has its own position (30-nodes, 2).

mod content;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use content::{
    FRESH_FOR_MS, FunctionTrust, Grant, GrantUse, Grants, Kind, OriginTrust, Plan, PlannedConnection,
    PlannedPlugin, PlannedTool, PlannedVersion, Policy, ToolLimits, ToolTrust, Trust, VersionTrust,
};

use crate::digest::Digest;
use crate::id::{EdgeName, NodeId};
use crate::time::Timestamp;

/// Most resources that one part may have: what 20 MB of manifest at 100 bytes a line would hold is
/// far more than the fleet's largest edge; beyond this a manifest is a mistake.
pub const RESOURCES_MAX: usize = 10_000;

/// One of the four parts of a plugin set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Approved hashes, pins and blocks: what an approval changes.
    Trust,
    /// Which versions the edge has and tries.
    Plan,
    /// Limits and permissions.
    Policy,
    /// What this one node is granted beside the plan.
    Grants,
}

impl Part {
    /// All parts, in the order in which they are sent.
    pub const ALL: [Self; 4] = [Self::Trust, Self::Grants, Self::Policy, Self::Plan];

    /// The parts that all nodes of an edge share.
    pub const OF_EDGE: [Self; 3] = [Self::Trust, Self::Policy, Self::Plan];

    /// Its word in the store, in logs and in messages to people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Plan => "plan",
            Self::Policy => "policy",
            Self::Grants => "grants",
        }
    }

    /// Reads the word back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == text)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The order of what a part said: first the epoch (raised when a database was restored), then the
/// generation (raised in the transaction of each change).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Raised only by a rewound store.
    pub epoch: u64,
    /// Raised by each change of the part.
    pub generation: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.generation)
    }
}

/// Whose part a head speaks of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A part that all nodes of the edge share.
    Edge(EdgeName),
    /// The grants of one node.
    Node(NodeId),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edge(edge) => write!(f, "edge/{edge}"),
            Self::Node(node) => write!(f, "node/{node}"),
        }
    }
}

impl Scope {
    /// Reads `edge/NAME` or `node/ID`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('/')? {
            ("edge", name) => EdgeName::parse(name).ok().map(Self::Edge),
            ("node", id) => NodeId::parse(id).ok().map(Self::Node),
            _ => None,
        }
    }
}

/// What is signed: which content a part of a scope has at a position, and for how long that may be
/// relied upon without hearing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The fleet's id: a head of another fleet is refused.
    pub fleet: Arc<str>,
    /// Whose part.
    pub scope: Scope,
    /// Which part.
    pub part: Part,
    /// Its place in the order.
    pub position: Position,
    /// The manifest's digest.
    pub digest: Digest,
    /// When it was signed, by the server's clock.
    pub issued: Timestamp,
    /// Until when it may be relied upon, by the server's clock.
    pub fresh_until: Timestamp,
}

/// The resources of one part: name to digest. Absence is removal.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Manifest(pub BTreeMap<Arc<str>, Digest>);

impl Manifest {
    /// SHA-256 of its lines, `NAME LF DIGEST LF` in byte order of the names.
    pub fn digest(&self) -> Digest {
        let mut lines = String::with_capacity(self.0.len() * 96);
        for (name, digest) in &self.0 {
            lines.push_str(name);
            lines.push('\n');
            lines.push_str(&digest.to_string());
            lines.push('\n');
        }
        Digest::of(lines.as_bytes())
    }
}

/// What a receiver does with a part that it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// Newer than what is held: make it durable, then acknowledge.
    Apply,
    /// The same as what is held: acknowledge again.
    Held,
}

/// Why a part is not accepted. What is held stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptFault {
    /// Nothing moves backwards.
    #[error("accept {part} {got}: it is older than the held {held}")]
    Outdated {
        /// Which part.
        part: Part,
        /// What is held.
        held: Position,
        /// What was sent.
        got: Position,
    },
    /// One position with two contents: one of them is not the control plane's.
    #[error("accept {part} {position}: its digest {got} differs from the held {held} of the same generation")]
    Forked {
        /// Which part.
        part: Part,
        /// The position that both claim.
        position: Position,
        /// The held content.
        held: Digest,
        /// The content sent.
        got: Digest,
    },
}

/// The accept rule: older is refused, equal must be identical, newer is applied.
///
/// # Errors
/// [`AcceptFault`] names both sides.
pub fn accept(
    part: Part,
    held: Option<(Position, Digest)>,
    got: (Position, Digest),
) -> Result<Acceptance, AcceptFault> {
    let Some((position, digest)) = held else { return Ok(Acceptance::Apply) };
    match got.0.cmp(&position) {
        std::cmp::Ordering::Greater => Ok(Acceptance::Apply),
        std::cmp::Ordering::Less => Err(AcceptFault::Outdated { part, held: position, got: got.0 }),
        std::cmp::Ordering::Equal if digest == got.1 => Ok(Acceptance::Held),
        std::cmp::Ordering::Equal => Err(AcceptFault::Forked { part, position, held: digest, got: got.1 }),
    }
}

/// The version that a node serves of a plugin: the one that a counting grant names, else the edge's
/// installed one. A grant counts only while the plan names its source as running with its version.
pub fn assigned<'p>(planned: &'p PlannedPlugin, grant: Option<&Grant>) -> Option<&'p PlannedVersion> {
    let granted = grant.filter(|grant| grant.usage == GrantUse::Serve).and_then(|grant| {
        let (source, candidate) = planned.candidate.as_ref()?;
        (*source == grant.source && candidate.version == grant.version).then_some(candidate)
    });
    granted.or(planned.installed.as_ref())
}
