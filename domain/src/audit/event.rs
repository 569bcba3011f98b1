//! The closed list of audit events, each with its fields.
//!
//! Secrets, arguments and results are never in one. Texts that came from plugins or nodes are made
//! visible here, once for all readers.

mod fields;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::digest::{Digest, ListingHash};
use crate::id::{EdgeName, NodeId, NodeName, PluginName, PluginVersion, ToolId};
use crate::label::Labels;
use crate::plugin_set::{Part, Position, Scope};
use crate::time::Timestamp;

/// How one function of a version differs from what the fleet goes by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionDifference {
    /// The version.
    pub version: PluginVersion,
    /// The tool.
    pub tool: ToolId,
    /// The function's name.
    pub function: Arc<str>,
    /// The edge that goes, or is to go, by a listing of its own; `None`: the fleet's.
    pub edge: Option<EdgeName>,
    /// The hash in force; `None` if the snapshot does not have it.
    pub approved: Option<ListingHash>,
    /// The hash seen; `None` if it is gone.
    pub seen: Option<ListingHash>,
}

/// A head that a node holds and that the database, at `base`, does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenHead {
    /// Whose part.
    pub scope: Scope,
    /// Which part.
    pub part: Part,
    /// Where the node has it.
    pub position: Position,
    /// Where the database has it.
    pub base: Position,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the audit log's own words, listed with their meaning in docs/api.md"
)]
pub enum Event {
    /// The fleet was made.
    FleetCreate { fleet: String, name: String },
    /// The fleet goes over to another authority: it is trusted beside the one that issues.
    FleetAuthorityAdd { key_sha256: String },
    /// The fleet's next authority issues certificates from here on.
    FleetAuthoritySwitch { key_sha256: String },
    /// An API token was made.
    TokenCreate { token: String, token_name: String, roles: Vec<String>, scopes: Vec<String> },
    /// An API token was revoked.
    TokenRevoke { token: String, token_name: String },
    /// A join token was made.
    JoinTokenCreate { token: String, edge: EdgeName, uses: u64, expires_at: Timestamp, labels: Labels },
    /// A join token was revoked.
    JoinTokenRevoke { token: String, edge: EdgeName },
    /// A node joined.
    NodeJoin { node: NodeId, node_name: NodeName, edge: EdgeName, token: String, agent_version: String },
    /// A node got a new certificate for its key; `lapsed` if its last one had ended.
    NodeRenew { node: NodeId, node_name: NodeName, until: Timestamp, lapsed: bool },
    /// A node must join again.
    NodeEvict { node: NodeId, node_name: NodeName, edge: EdgeName, reason: String },
    /// A node never comes back.
    NodeBan { node: NodeId, node_name: NodeName, edge: EdgeName, reason: String },
    /// An evicted node was taken off the record.
    NodeRemove { node: NodeId, node_name: NodeName, edge: EdgeName },
    /// Copies of a node were seen; none of them works until a person picks one. `sessions` are their counters.
    NodeClone { node: NodeId, node_name: NodeName, edge: EdgeName, sessions: Vec<u64> },
    /// A person picked the copy of a node that goes on.
    NodeKeep { node: NodeId, node_name: NodeName, edge: EdgeName, session: u64 },
    /// A node said that it runs other versions than it had said before.
    NodeVersionsSet { node: NodeId, node_name: NodeName, versions: Vec<PluginVersion> },
    /// An edge was made.
    EdgeCreate { edge: EdgeName },
    /// What the nodes of an edge may do was changed: per setting the earlier and the new value.
    EdgePolicySet { edge: EdgeName, changes: BTreeMap<&'static str, (String, String)> },
    /// A version was pushed.
    PluginVersionPush {
        version: PluginVersion,
        content_digest: Digest,
        archive_sha256: Digest,
        archive_length: u64,
        tools: Vec<ToolId>,
    },
    /// An edge goes by a version from now on.
    EdgeAssignmentSet { edge: EdgeName, version: PluginVersion, earlier: Option<semver::Version> },
    /// An edge has the plugin no longer.
    EdgeAssignmentUnset { edge: EdgeName, version: PluginVersion },
    /// Some nodes of an edge try a version beside the installed one, exactly these.
    EdgeCandidateSet {
        edge: EdgeName,
        version: PluginVersion,
        installed: Option<semver::Version>,
        nodes: Vec<NodeName>,
        source: String,
    },
    /// An edge tries the version no longer: it was promoted, or taken back.
    EdgeCandidateUnset { edge: EdgeName, version: PluginVersion, source: String, promoted: bool },
    /// The first complete listing of a tool became its snapshot.
    ToolsSnapshot {
        version: PluginVersion,
        tool: ToolId,
        node: NodeName,
        functions: BTreeMap<Arc<str>, ListingHash>,
    },
    /// A node saw a function list itself differently, for the first time or again.
    ToolsChanged { node: NodeName, difference: FunctionDifference },
    /// No node sees that difference any longer.
    ToolsRestored { difference: FunctionDifference },
    /// People made what was seen what the fleet goes by.
    ToolsApprove { plugin: PluginName, functions: Vec<FunctionDifference>, attended: bool },
    /// Functions of a new version wait on an edge, since they are not as the version before had them.
    ToolsReview { edge: EdgeName, version: PluginVersion, tool: ToolId, functions: Vec<Arc<str>> },
    /// People had edges go by what the fleet does again; `approved` is what they went by.
    ToolsClear { plugin: PluginName, functions: Vec<FunctionDifference>, attended: bool },
    /// People took an approval back; `seen` is what is gone by again.
    ToolsUndo { plugin: PluginName, approval: u64, functions: Vec<FunctionDifference>, attended: bool },
    /// A function lists itself differently again and again; what differs, as JSON pointers.
    ToolsVolatile { version: PluginVersion, tool: ToolId, function: Arc<str>, forms: u64, parts: Vec<String> },
    /// What the whole fleet holds to was changed: per setting the earlier and the new value.
    PolicySet { changes: BTreeMap<&'static str, (String, String)> },
    /// People keep what was seen refused.
    ToolsReject { plugin: PluginName, functions: Vec<FunctionDifference> },
    /// A remote tool may be called at its origin; again once the class of its address is known.
    EndpointPinned {
        edge: EdgeName,
        version: PluginVersion,
        tool: ToolId,
        origin: String,
        address_class: Option<String>,
    },
    /// A remote tool is at another origin than was approved, or new (then `earlier` is empty).
    EndpointMoved {
        edge: EdgeName,
        version: PluginVersion,
        tool: ToolId,
        earlier: Vec<String>,
        origin: String,
    },
    /// People approved an origin; on every edge if none is named.
    EndpointApprove {
        edge: Option<EdgeName>,
        version: PluginVersion,
        tool: ToolId,
        earlier: Vec<String>,
        origin: String,
        attended: bool,
    },
    /// A person stopped calls; on every edge if none is named. Or a node still held a block that the database
    /// had lost.
    BlockSet { block: String, edge: Option<EdgeName>, target: String, reason: String },
    /// A person lifted a block.
    BlockLift { block: String, edge: Option<EdgeName>, target: String },
    /// What remote tools are reached with was set, on every edge if none is named: per secret where it is.
    ConnectionSet {
        connection: String,
        edge: Option<EdgeName>,
        params: BTreeMap<String, String>,
        secrets: BTreeMap<String, String>,
        headers: Vec<String>,
        oauth: Option<String>,
    },
    /// It was taken off the record, with its secrets and tokens.
    ConnectionRemove { connection: String, edge: Option<EdgeName> },
    /// An authorization server gave a token for it, for the first time or again.
    ConnectionAuthorize { connection: String, edge: Option<EdgeName>, issuer: String },
    /// Its authorization server gives no token any longer.
    ConnectionRefused { connection: String, edge: Option<EdgeName>, reason: String },
    /// A rollout began.
    RolloutStart { rollout: String, version: PluginVersion, edges: Vec<EdgeName>, reason: String },
    /// A rollout moved, by itself or since a person said so.
    RolloutMove { rollout: String, version: PluginVersion, phase: String, reason: String },
    /// A node sent a listing whose hash was not asked for, or that is not in canonical form.
    ListingFalse { node: NodeName, hash: ListingHash, fault: String },
    /// A node holds what the database lost: it was restored from a copy, and a new epoch begins.
    StoreRewound { node: NodeId, node_name: NodeName, epoch: u64, earlier: u64, proven: Vec<ProvenHead> },
    /// What a node held as approved was read; so much of it the database does not know.
    OrphansFound { node_name: NodeName, edge: EdgeName, digest: Digest, count: u64 },
    /// People adopted again, or dropped, what only nodes held.
    OrphansDecided { plugin: PluginName, held: Vec<String>, adopted: bool },
    /// A request was denied.
    AccessDenied { action: String, missing: String },
}

impl Event {
    /// Its name, `noun.noun.verb`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::FleetCreate { .. } => "fleet.create",
            Self::FleetAuthorityAdd { .. } => "fleet.authority.add",
            Self::FleetAuthoritySwitch { .. } => "fleet.authority.switch",
            Self::TokenCreate { .. } => "token.create",
            Self::TokenRevoke { .. } => "token.revoke",
            Self::JoinTokenCreate { .. } => "join_token.create",
            Self::JoinTokenRevoke { .. } => "join_token.revoke",
            Self::NodeJoin { .. } => "node.join",
            Self::NodeRenew { .. } => "node.renew",
            Self::NodeEvict { .. } => "node.evict",
            Self::NodeBan { .. } => "node.ban",
            Self::NodeRemove { .. } => "node.remove",
            Self::NodeClone { .. } => "node.clone",
            Self::NodeKeep { .. } => "node.keep",
            Self::NodeVersionsSet { .. } => "node.versions.set",
            Self::EdgeCreate { .. } => "edge.create",
            Self::EdgePolicySet { .. } => "edge.policy.set",
            Self::PluginVersionPush { .. } => "plugin.version.push",
            Self::EdgeAssignmentSet { .. } => "edge.assignment.set",
            Self::EdgeAssignmentUnset { .. } => "edge.assignment.unset",
            Self::EdgeCandidateSet { .. } => "edge.candidate.set",
            Self::EdgeCandidateUnset { .. } => "edge.candidate.unset",
            Self::ToolsSnapshot { .. } => "plugin.tools.snapshot",
            Self::ToolsChanged { .. } => "plugin.tools.changed",
            Self::ToolsRestored { .. } => "plugin.tools.restored",
            Self::ToolsApprove { .. } => "plugin.tools.approve",
            Self::ToolsReview { .. } => "plugin.tools.review",
            Self::ToolsClear { .. } => "plugin.tools.clear",
            Self::ToolsUndo { .. } => "plugin.tools.undo",
            Self::ToolsVolatile { .. } => "plugin.tools.volatile",
            Self::ToolsReject { .. } => "plugin.tools.reject",
            Self::PolicySet { .. } => "fleet.policy.set",
            Self::EndpointPinned { .. } => "plugin.endpoint.pinned",
            Self::EndpointMoved { .. } => "plugin.endpoint.moved",
            Self::EndpointApprove { .. } => "plugin.endpoint.approve",
            Self::BlockSet { .. } => "block.set",
            Self::BlockLift { .. } => "block.lift",
            Self::ConnectionSet { .. } => "connection.set",
            Self::ConnectionRemove { .. } => "connection.remove",
            Self::ConnectionAuthorize { .. } => "connection.authorize",
            Self::ConnectionRefused { .. } => "connection.refused",
            Self::RolloutStart { .. } => "rollout.start",
            Self::RolloutMove { .. } => "rollout.move",
            Self::ListingFalse { .. } => "plugin.listing.false",
            Self::StoreRewound { .. } => "fleet.store.rewound",
            Self::OrphansFound { .. } => "fleet.orphans.found",
            Self::OrphansDecided { adopted: true, .. } => "fleet.orphans.adopt",
            Self::OrphansDecided { adopted: false, .. } => "fleet.orphans.drop",
            Self::AccessDenied { .. } => "access.denied",
        }
    }

    /// What it was done to: `plugin/NAME`, `edge/NAME`, `node/NAME`, `token/ID`, `join_token/ID`, `block/ID`,
    /// `connection/PLUGIN/NAME`, `rollout/ID` or `fleet`.
    pub fn subject(&self) -> String {
        match self {
            Self::FleetCreate { .. }
            | Self::FleetAuthorityAdd { .. }
            | Self::FleetAuthoritySwitch { .. }
            | Self::StoreRewound { .. }
            | Self::PolicySet { .. }
            | Self::AccessDenied { .. } => "fleet".to_owned(),
            Self::TokenCreate { token, .. } | Self::TokenRevoke { token, .. } => format!("token/{token}"),
            Self::JoinTokenCreate { token, .. } | Self::JoinTokenRevoke { token, .. } => {
                format!("join_token/{token}")
            }
            Self::BlockSet { block, .. } | Self::BlockLift { block, .. } => format!("block/{block}"),
            Self::NodeJoin { node_name, .. }
            | Self::NodeRenew { node_name, .. }
            | Self::NodeEvict { node_name, .. }
            | Self::NodeBan { node_name, .. }
            | Self::NodeRemove { node_name, .. }
            | Self::NodeClone { node_name, .. }
            | Self::NodeKeep { node_name, .. }
            | Self::NodeVersionsSet { node_name, .. } => format!("node/{node_name}"),
            Self::ConnectionSet { connection, .. }
            | Self::ConnectionRemove { connection, .. }
            | Self::ConnectionAuthorize { connection, .. }
            | Self::ConnectionRefused { connection, .. } => format!("connection/{connection}"),
            Self::RolloutStart { rollout, .. } | Self::RolloutMove { rollout, .. } => {
                format!("rollout/{rollout}")
            }
            Self::ListingFalse { node, .. } => format!("node/{node}"),
            Self::EdgeCreate { edge }
            | Self::OrphansFound { edge, .. }
            | Self::EdgePolicySet { edge, .. }
            | Self::EdgeAssignmentSet { edge, .. }
            | Self::EdgeAssignmentUnset { edge, .. }
            | Self::EdgeCandidateSet { edge, .. }
            | Self::EdgeCandidateUnset { edge, .. } => format!("edge/{edge}"),
            Self::PluginVersionPush { version, .. }
            | Self::ToolsSnapshot { version, .. }
            | Self::ToolsVolatile { version, .. }
            | Self::ToolsReview { version, .. }
            | Self::EndpointPinned { version, .. }
            | Self::EndpointMoved { version, .. }
            | Self::EndpointApprove { version, .. } => format!("plugin/{}", version.plugin),
            Self::ToolsChanged { difference, .. } | Self::ToolsRestored { difference } => {
                format!("plugin/{}", difference.version.plugin)
            }
            Self::ToolsApprove { plugin, .. }
            | Self::ToolsReject { plugin, .. }
            | Self::ToolsClear { plugin, .. }
            | Self::ToolsUndo { plugin, .. }
            | Self::OrphansDecided { plugin, .. } => {
                format!("plugin/{plugin}")
            }
        }
    }

    /// Its own fields.
    pub fn fields(&self) -> Value {
        match self {
            Self::FleetCreate { .. }
            | Self::FleetAuthorityAdd { .. }
            | Self::FleetAuthoritySwitch { .. }
            | Self::TokenCreate { .. }
            | Self::TokenRevoke { .. }
            | Self::JoinTokenCreate { .. }
            | Self::JoinTokenRevoke { .. }
            | Self::AccessDenied { .. } => self.fields_of_access(),
            Self::StoreRewound { .. } | Self::OrphansFound { .. } | Self::OrphansDecided { .. } => {
                self.fields_of_store()
            }
            Self::ConnectionSet { .. }
            | Self::ConnectionRemove { .. }
            | Self::ConnectionAuthorize { .. }
            | Self::ConnectionRefused { .. } => self.fields_of_connection(),
            Self::RolloutStart { .. } | Self::RolloutMove { .. } => self.fields_of_rollout(),
            Self::NodeRenew { .. }
            | Self::NodeEvict { .. }
            | Self::NodeBan { .. }
            | Self::NodeRemove { .. }
            | Self::NodeClone { .. }
            | Self::NodeKeep { .. } => self.fields_of_node(),
            Self::NodeJoin { .. }
            | Self::NodeVersionsSet { .. }
            | Self::EdgeCreate { .. }
            | Self::EdgePolicySet { .. }
            | Self::PolicySet { .. }
            | Self::PluginVersionPush { .. }
            | Self::EdgeAssignmentSet { .. }
            | Self::EdgeAssignmentUnset { .. }
            | Self::EdgeCandidateSet { .. }
            | Self::EdgeCandidateUnset { .. }
            | Self::ListingFalse { .. } => self.fields_of_fleet(),
            Self::ToolsSnapshot { .. }
            | Self::ToolsChanged { .. }
            | Self::ToolsRestored { .. }
            | Self::ToolsApprove { .. }
            | Self::ToolsReject { .. }
            | Self::ToolsClear { .. }
            | Self::ToolsUndo { .. }
            | Self::ToolsVolatile { .. }
            | Self::ToolsReview { .. }
            | Self::EndpointPinned { .. }
            | Self::EndpointMoved { .. }
            | Self::EndpointApprove { .. }
            | Self::BlockSet { .. }
            | Self::BlockLift { .. } => self.fields_of_tools(),
        }
    }
}
