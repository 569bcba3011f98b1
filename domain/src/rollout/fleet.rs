//! What is seen of the fleet when a rollout is decided.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{EdgeName, NodeId};
use crate::time::Timestamp;

/// The edges of a rollout's plan that exist.
pub type Fleet = BTreeMap<EdgeName, EdgeView>;

/// One edge.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EdgeView {
    /// Its nodes that may work. A node that was taken out of the fleet is not among them.
    pub nodes: BTreeMap<NodeId, NodeView>,
    /// The nodes that this rollout grants the version to.
    pub granted: BTreeSet<NodeId>,
    /// What of the version waits for a person on this edge: functions and endpoints, as people are told.
    pub waiting: Vec<String>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// When it was heard of last, if its stream is gone; `None`: it is connected.
    pub away_since: Option<Timestamp>,
    /// How far it has the version.
    pub progress: Progress,
}

/// How far a node has a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is known of it.
    Nothing,
    /// It is being downloaded, unpacked or started.
    Begun,
    /// It is called there.
    Serving,
    /// It cannot be run there, and why.
    Failed(String),
}
