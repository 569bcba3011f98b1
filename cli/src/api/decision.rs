//! What waits for a person, and what people decided.

use serde::Deserialize;
use serde_json::Value;

use super::{Moved, text};

/// A listing with its hash.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Listing {
    /// `v1:sha256:…`; absent where the function is gone.
    #[serde(default)]
    pub hash: Option<String>,
    /// The canonical text.
    #[serde(default, deserialize_with = "text")]
    pub listing: Option<String>,
    /// How it differs from the approved one.
    #[serde(default)]
    pub grades: Vec<String>,
    /// Nodes that saw it; empty for the approved one.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// How many nodes did.
    #[serde(default)]
    pub nodes_total: u64,
}

/// One open change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Change {
    /// Of the plugin.
    pub version: String,
    /// Tool ID.
    pub tool: String,
    /// The function's name within the tool.
    pub function: String,
    /// The edge that goes by a listing of its own, which `approved` is; none: the fleet's.
    #[serde(default)]
    pub edge: Option<String>,
    /// What the fleet, or that edge, goes by; none for a new function.
    pub approved: Option<Listing>,
    /// What nodes saw, newest first.
    #[serde(default)]
    pub variants: Vec<Listing>,
    /// How the change is graded.
    #[serde(default)]
    pub grades: Vec<String>,
    /// What is odd about its name or title.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// One open move of an origin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct OpenMove {
    /// What moved where.
    #[serde(flatten)]
    pub moved: Moved,
    /// What it lists at its new place, as far as it could be listed.
    #[serde(default)]
    pub functions: Vec<Value>,
}

/// Everything about one plugin that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Changes {
    /// Functions.
    #[serde(default, alias = "items")]
    pub changes: Vec<Change>,
    /// Origins.
    #[serde(default)]
    pub moved: Vec<OpenMove>,
    /// What edges go by for themselves.
    #[serde(default)]
    pub own: Vec<OwnListing>,
}

/// What an edge goes by for itself, beside what the fleet does.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct OwnListing {
    /// The edge.
    pub edge: String,
    /// Of the plugin.
    pub version: String,
    /// Tool ID.
    pub tool: String,
    /// The function's name within the tool.
    pub function: String,
    /// What the edge goes by; none: it does not go by the function.
    pub own: Option<Listing>,
    /// What the fleet goes by; none: it does not go by the function.
    pub fleet: Option<Listing>,
    /// When it was decided.
    pub approved_at: String,
    /// Who decided.
    pub approved_by: String,
}

/// The newest approval of a plugin that can be undone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct LastApproval {
    /// None if there is none.
    pub approval: Option<ApprovalAct>,
}

/// An approval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ApprovalAct {
    /// Its number.
    pub id: u64,
    /// When.
    pub approved_at: String,
    /// By whom.
    pub approved_by: String,
    /// What it did.
    pub functions: Vec<ReplacedListing>,
}

/// What an approval did to a function.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ReplacedListing {
    /// Of the plugin.
    pub version: String,
    /// Function ID.
    pub id: String,
    /// The edge that alone goes by it.
    pub edge: Option<String>,
    /// What was gone by before.
    pub earlier: Option<Listing>,
    /// What is gone by since.
    pub now: Option<Listing>,
}

/// What an approval did.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Approved {
    /// What is now the one the fleet goes by.
    #[serde(default)]
    pub approved: Vec<Value>,
    /// What was not applied, since its base had moved.
    #[serde(default)]
    pub stale: Vec<Value>,
    /// Edges that go by something else for themselves.
    #[serde(default)]
    pub own: Vec<Value>,
    /// The edges it concerns.
    #[serde(default)]
    pub edges: Vec<Raised>,
}

/// An edge and the generation of trust that carries an approval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Raised {
    /// The edge's name.
    pub edge: String,
    /// Nodes at this or a later one go by the approval.
    pub trust_generation: u64,
}

/// Calls that a person stopped.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Block {
    /// Its id.
    pub id: String,
    /// The one edge it is for.
    pub edge: Option<String>,
    /// Such as `tool team`.
    pub target: String,
    /// Why.
    pub reason: String,
    /// When.
    pub blocked_at: String,
    /// Who.
    pub blocked_by: String,
    /// When it was lifted.
    pub lifted_at: Option<String>,
    /// By whom.
    pub lifted_by: Option<String>,
}

/// How far one part of an edge's plugin set has come.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct PartState {
    /// The newest.
    pub generation: u64,
    /// Nodes that hold it durably.
    pub acknowledged: u64,
    /// Nodes that are connected.
    pub connected: u64,
    /// Connected nodes that have not acknowledged, by name.
    #[serde(default)]
    pub waiting: Vec<String>,
}

/// The parts of an edge.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Parts {
    /// What an approval changes.
    pub trust: PartState,
}
