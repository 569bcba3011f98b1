//! The shapes of the control plane's HTTP API as this program reads them (`docs/api.md`).
//!
//! Members that are not needed for tables are not read; `--json` prints the server's own documents.

#![expect(clippy::struct_field_names, reason = "the API names the members")]

mod decision;
mod node;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub(crate) use decision::*;
pub(crate) use node::*;

/// A function that waits for approval, in `changed` of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Changed {
    /// Of the plugin.
    pub version: String,
    /// Function ID.
    pub function: String,
    /// The edge that goes by a listing of its own; none: the fleet's.
    #[serde(default)]
    pub edge: Option<String>,
    /// `drifted`, `new`, `gone` or `volatile`.
    pub state: String,
    /// Since when it lists itself differently again and again, and what differs.
    #[serde(default)]
    pub volatile: Option<Volatile>,
    /// Whether every form of it was rejected.
    #[serde(default)]
    pub rejected: bool,
    /// Some of the nodes that saw it so.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// How many nodes did.
    #[serde(default)]
    pub nodes_total: u64,
}

/// What the whole fleet holds to when listings change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct FleetPolicy {
    /// `off`, `changed` or `all`.
    pub review_new_versions: String,
    /// Whether a change of notation is approved by a rule.
    pub approve_notation: bool,
    /// Whether nobody approves what they pushed or assigned.
    pub four_eyes: bool,
}

/// A function with an odd name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Warned {
    /// Of the plugin.
    pub version: String,
    /// Function ID.
    pub function: String,
    /// What is odd.
    pub warnings: Vec<String>,
}

/// Of a function that lists itself differently again and again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Volatile {
    /// When that was noticed.
    pub since: String,
    /// JSON pointers to what differs.
    #[serde(default)]
    pub parts: Vec<String>,
}

/// A function that is not listed, snapshotted or called.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct LeftOut {
    /// Function ID.
    pub function: String,
    /// The reason's code.
    pub code: String,
    /// The reason.
    #[serde(default)]
    pub reason: String,
    /// Nodes that saw it so.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// How many nodes did, where `nodes` is cut.
    #[serde(default)]
    pub nodes_total: u64,
}

/// A remote tool whose origin differs from the pinned one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Moved {
    /// Of the plugin.
    pub version: String,
    /// Tool ID.
    pub tool: String,
    /// The edge where it is judged so, if one is named.
    #[serde(default)]
    pub edge: Option<String>,
    /// Origins that are pinned; none for a new tool.
    #[serde(default)]
    pub from: Vec<String>,
    /// The origin that waits.
    pub to: String,
}

/// A version of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Version {
    /// `SemVer`.
    pub version: String,
    /// Edges where it is installed.
    #[serde(default)]
    pub edges: Vec<String>,
    /// The content digest.
    #[serde(default)]
    pub content_digest: String,
    /// When it was pushed.
    #[serde(default)]
    pub pushed_at: String,
    /// Its tools.
    #[serde(default)]
    pub tools: Vec<Tool>,
}

/// A tool of a version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Tool {
    /// Tool ID.
    pub tool: String,
    /// When and from whom its snapshot was taken; none if nobody listed it completely yet.
    #[serde(default)]
    pub snapshot: Option<Value>,
}

/// What one node does with one version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct NodeState {
    /// The node's name.
    pub node: String,
    /// Its edge.
    #[serde(default)]
    pub edge: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// For example `installing`, `serving`, `failed`.
    pub state: String,
    /// Why, where it failed.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A plugin with everything that is to be said about it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Plugin {
    /// Its name.
    pub name: String,
    /// Every version that was pushed.
    #[serde(default)]
    pub versions: Vec<Version>,
    /// What waits for approval.
    #[serde(default)]
    pub changed: Vec<Changed>,
    /// What is left out.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// What is callable but not listed to models.
    #[serde(default)]
    pub not_shown: Vec<LeftOut>,
    /// Functions with odd names.
    #[serde(default)]
    pub warned: Vec<Warned>,
    /// Endpoints that moved.
    #[serde(default)]
    pub moved: Vec<Moved>,
    /// What each node does with it.
    #[serde(default)]
    pub nodes: Vec<NodeState>,
}

/// A row of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct CatalogEntry {
    /// Function ID.
    pub id: String,
    /// As models see it.
    #[serde(default)]
    pub model_name: String,
    /// The plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// The edge.
    #[serde(default)]
    pub edge: String,
    /// `callable`, `drifted`, `new`, …
    pub state: String,
    /// The snapshot's canonical listing.
    #[serde(default, deserialize_with = "text")]
    pub listing: Option<String>,
}

/// An edge.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Edge {
    /// Its name.
    pub name: String,
    /// How many nodes belong to it.
    #[serde(default)]
    pub nodes_total: u64,
    /// How many of them are connected.
    #[serde(default)]
    pub nodes_connected: u64,
    /// What is installed on it.
    #[serde(default)]
    pub assignments: Vec<Assignment>,
    /// What some of its nodes try.
    #[serde(default)]
    pub candidates: Vec<Candidate>,
    /// What its nodes may do.
    #[serde(default)]
    pub policy: Policy,
}

/// What the nodes of an edge may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Policy {
    /// Whether a stale node refuses calls.
    pub strict: bool,
    /// How long what a node was told counts as fresh.
    pub fresh_for_ms: u64,
    /// How long a restarted node may go by its stored set; 0: not at all.
    pub offline_lease_ms: u64,
    /// Kinds that are not run.
    pub forbidden_kinds: Vec<String>,
    /// Bytes of data of each tool process.
    pub tool_memory_bytes: u64,
    /// Open files of each tool process.
    pub tool_files: u64,
    /// Processes of each tool.
    pub tool_processes: u64,
}

/// A version that some nodes of an edge try.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Candidate {
    /// The plugin.
    pub plugin: String,
    /// The version.
    pub version: String,
    /// The nodes.
    #[serde(default)]
    pub nodes: Vec<String>,
}

/// A version on an edge.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Assignment {
    /// The plugin.
    pub plugin: String,
    /// The installed version.
    pub version: String,
}

/// A join token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct JoinToken {
    /// What it is revoked by.
    pub id: String,
    /// The edge of its nodes.
    pub edge: String,
    /// `usable`, `used`, `expired` or `revoked`.
    #[serde(default)]
    pub state: String,
    /// How many nodes may join with it.
    pub uses: u64,
    /// How many did.
    pub used: u64,
    /// When it ends.
    pub expires_at: String,
    /// Who made it.
    #[serde(default)]
    pub created_by: String,
    /// Those of its nodes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// What only nodes hold since the database was restored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Orphan {
    /// What it is called in commands.
    pub id: String,
    /// The edge whose nodes hold it.
    pub edge: String,
    /// The plugin.
    pub plugin: String,
    /// The version.
    pub version: String,
    /// The tool; none: the version itself.
    pub tool: Option<String>,
    /// The function; none: an origin.
    pub function: Option<String>,
    /// The listing hash, or the origin.
    pub held: Option<String>,
    /// The node that it was learned from.
    pub node: String,
}

/// An audit event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Event {
    /// Its place in the chain.
    pub seq: u64,
    /// When.
    pub at: String,
    /// Who.
    #[serde(default)]
    pub actor: String,
    /// What: `noun.noun.verb`.
    pub name: String,
    /// To what.
    #[serde(default)]
    pub subject: String,
}

/// What verifying the audit log found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Verified {
    /// Events read.
    pub events: u64,
    /// The hash of the newest.
    pub head: String,
    /// Whether each follows from the one before.
    pub ok: bool,
    /// The first that does not.
    #[serde(default)]
    pub first_bad: Option<u64>,
}

/// Listings come as canonical text or as the document itself.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Option::<Value>::deserialize(deserializer)? {
        None => None,
        Some(Value::String(text)) => Some(text),
        Some(other) => Some(other.to_string()),
    })
}
