//! The shapes of the control plane's HTTP API as this program reads them (`docs/api.md`).
//!
//! Members that are not needed for tables are not read; `--json` prints the server's own documents.

#![expect(clippy::struct_field_names, reason = "the API names the members")]

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A function that waits for approval, in `changed` of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Changed {
    /// Of the plugin.
    pub version: String,
    /// Function ID.
    pub function: String,
    /// `drifted`, `new` or `gone`.
    pub state: String,
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
    /// Endpoints that moved.
    #[serde(default)]
    pub moved: Vec<Moved>,
    /// What each node does with it.
    #[serde(default)]
    pub nodes: Vec<NodeState>,
}

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
    /// What the fleet goes by; none for a new function.
    pub approved: Option<Listing>,
    /// What nodes saw, newest first.
    #[serde(default)]
    pub variants: Vec<Listing>,
    /// How the change is graded.
    #[serde(default)]
    pub grades: Vec<String>,
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

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Node {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: String,
    /// Its edge.
    #[serde(default)]
    pub edge: String,
    /// Whether it has a stream now.
    #[serde(default)]
    pub connected: bool,
    /// The agent's version.
    #[serde(default)]
    pub agent_version: Option<String>,
    /// When it was last heard.
    #[serde(default)]
    pub last_seen: Option<String>,
    /// What it does with each version that it was given.
    #[serde(default)]
    pub versions: Vec<NodeVersion>,
    /// What keeps it from doing what it should.
    #[serde(default)]
    pub problems: Vec<String>,
    /// What it tries beside the installed version.
    #[serde(default)]
    pub grants: Vec<Assignment>,
    /// As its join token said.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// `active`, `quarantined`, `evicted` or `banned`.
    #[serde(default)]
    pub standing: Option<String>,
    /// Why it stands so.
    #[serde(default)]
    pub standing_reason: Option<String>,
    /// Who said so.
    #[serde(default)]
    pub standing_by: Option<String>,
    /// Its sessions, while it has copies.
    #[serde(default)]
    pub sessions: Vec<Session>,
    /// The certificate that it got last.
    #[serde(default)]
    pub certificate: Option<Certificate>,
}

impl Node {
    /// How it stands.
    pub(crate) fn standing(&self) -> &str {
        self.standing.as_deref().unwrap_or("active")
    }

    /// Its labels in one cell.
    pub(crate) fn labels(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if labels.is_empty() { "-".to_owned() } else { labels.join(",") }
    }

    /// Why it may not work, if so.
    pub(crate) fn standing_problem(&self) -> Option<String> {
        let by = self.standing_by.as_deref().unwrap_or("somebody");
        let why = self.standing_reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        match self.standing() {
            "active" => None,
            "quarantined" => {
                Some(format!("copies of it were seen; pick one: pintle node show {}", self.name))
            }
            other => Some(format!("{other} by {by}{why}")),
        }
    }
}

/// One of several copies of a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Session {
    /// What it is picked by.
    pub session: u64,
    /// The run of its agent.
    #[serde(default)]
    pub boot: Option<String>,
    /// From where it came last.
    #[serde(default)]
    pub address: Option<String>,
    /// When it was seen last.
    pub last_seen: String,
}

/// The certificate that a node got last.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Certificate {
    /// When it ends.
    #[serde(default)]
    pub until: Option<String>,
}

/// How a node stands after a verb.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Stands {
    /// The node's name.
    pub name: String,
    /// Its edge.
    #[serde(default)]
    pub edge: String,
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

/// A version as its node says that it stands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct NodeVersion {
    /// The plugin.
    pub plugin: String,
    /// The version.
    pub version: String,
    /// For example `installing`, `serving`, `failed`.
    pub state: String,
    /// Why, where it failed.
    #[serde(default)]
    pub reason: Option<String>,
    /// Its tools.
    #[serde(default)]
    pub tools: Vec<NodeTool>,
}

/// A tool as its node says that it stands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct NodeTool {
    /// Tool ID.
    pub tool: String,
    /// For example `running`.
    pub state: String,
    /// Why, where it does not run.
    #[serde(default)]
    pub reason: String,
    /// What the kernel confines its process to, or why to nothing.
    #[serde(default)]
    pub confined: String,
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
