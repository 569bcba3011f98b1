//! What people and nodes do to the fleet, one verb per file: load, decide in `domain`, record.
//!
//! Called by `api` and `grpc`; each operation is one transaction with its audit events. What is
//! refused comes back as [`Refused`], with a code and the remedy; nothing of it was kept.

pub mod approve;
pub mod assign;
pub mod assign_candidate;
pub mod block;
pub mod clear_own;
pub mod create_edge;
pub mod decide_orphans;
pub mod expel;
pub mod find_bundle;
pub(crate) mod find_node;
pub mod issue_join_token;
pub mod issue_token;
pub mod join;
pub mod keep_session;
pub(crate) mod keep_token;
pub mod load_nodes;
pub mod load_part;
mod notation;
pub mod note_node;
pub mod push_version;
pub mod quarantine;
mod reconcile_changes;
pub mod record_held;
pub mod record_listing;
pub mod reject;
pub mod remove_connection;
pub mod remove_node;
pub mod renew;
mod review;
pub mod rewind;
pub mod roll_authority;
pub mod rollout;
pub mod set_connection;
pub mod set_fleet_policy;
pub mod set_policy;
pub mod start_fleet;
pub mod store_texts;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod unassign;
pub mod unassign_candidate;
pub mod undo_approval;
pub mod verify_audit;

pub(crate) use reconcile_changes::VOLATILE;

use domain::audit::Origin;
use domain::id::{EdgeName, PluginVersion};
use domain::time::Timestamp;

use crate::store;

/// Who asks, and when.
#[derive(Debug, Clone)]
pub struct By {
    /// By the server's clock.
    pub now: Timestamp,
    /// For the audit log.
    pub origin: Origin,
}

impl By {
    /// A node, over its stream.
    pub fn node(now: Timestamp, name: &domain::id::NodeName) -> Self {
        Self { now, origin: Origin { actor: format!("node/{name}"), source: "stream".to_owned() } }
    }

    fn as_stored(&self) -> store::By<'_> {
        store::By { at: self.now, who: &self.origin.actor }
    }
}

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The data folder.
    #[error("{what} {path}")]
    Folder {
        /// What was to be done, such as "write".
        what: &'static str,
        /// To which file.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A rule.
    #[error("{0}")]
    Refused(Box<Refused>),
}

/// What a rule says against it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refused {
    /// Stable, for programs.
    pub code: Code,
    /// A sentence with both sides of a comparison.
    pub detail: String,
    /// What to do, as an exact command where there is one.
    pub remedy: Option<String>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)*) => {
        /// Why an operation is refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its stable word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

codes! {
    /// What was asked for is not there.
    NotFound = "not_found",
    /// A value breaks its rule.
    Invalid = "invalid",
    /// The bytes are no bundle that may be pushed.
    BadBundle = "bad_bundle",
    /// The bytes that arrived are not those that were announced.
    ArchiveDiffers = "archive_differs",
    /// More bytes than may be sent.
    TooLarge = "too_large",
    /// The version was pushed with other content.
    VersionDiffers = "version_differs",
    /// Nodes do not run this kind of tool.
    KindNotBuilt = "kind_not_built",
    /// Another plugin of the edge has a tool of that ID.
    ToolTaken = "tool_taken",
    /// No node's hold of it waits for a decision.
    NoOrphan = "no_orphan",
    /// What nodes hold cannot be adopted as the database is.
    NotAdoptable = "not_adoptable",
    /// The plugin is not assigned to the edge.
    NotAssigned = "not_assigned",
    /// The join token is unknown, revoked, expired or used up.
    JoinRefused = "join_refused",
    /// The node was evicted: it must join again.
    NodeEvicted = "node_evicted",
    /// The node was banned.
    NodeBanned = "node_banned",
    /// Copies of the node were seen, and nobody picked one yet.
    NodeQuarantined = "node_quarantined",
    /// The node's certificate ended too long ago.
    RenewalOver = "renewal_over",
    /// The verb does not apply to a node that stands so.
    StandingDiffers = "standing_differs",
    /// What was shown has changed meanwhile; nothing was done for it.
    ApprovalStale = "approval_stale",
    /// A connection comes to nothing: an authorization server refuses, or a secret is not where it should be.
    ConnectionRefused = "connection_refused",
    /// A rollout of the plugin is under way there.
    InRollout = "in_rollout",
    /// The verb says nothing to a rollout that stands so.
    RolloutDiffers = "rollout_differs",
    /// The version was rolled back before.
    RolledBack = "rolled_back",
    /// The fleet's policy wants somebody else to approve.
    FourEyes = "four_eyes",
    /// No token, or none that is in force.
    Unauthenticated = "unauthenticated",
    /// The token's roles or scopes do not do.
    Denied = "denied",
    /// The path has no such method.
    MethodNotAllowed = "method_not_allowed",
}

impl Error {
    pub(crate) fn refused(code: Code, detail: impl Into<String>) -> Self {
        Self::Refused(Box::new(Refused { code, detail: detail.into(), remedy: None }))
    }

    pub(crate) fn with_remedy(code: Code, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Refused(Box::new(Refused { code, detail: detail.into(), remedy: Some(remedy.into()) }))
    }

    pub(crate) fn no_edge(edge: &EdgeName) -> Self {
        Self::with_remedy(
            Code::NotFound,
            format!("there is no edge {edge}"),
            format!("pintle edge create {edge}"),
        )
    }

    pub(crate) fn no_version(version: &PluginVersion) -> Self {
        Self::with_remedy(
            Code::NotFound,
            format!("{version} was never pushed"),
            format!("pintle plugin push {}-{}.pintle", version.plugin, version.version),
        )
    }

    /// The rule that refused it, if one did.
    pub fn refusal(&self) -> Option<&Refused> {
        match self {
            Self::Refused(refused) => Some(refused),
            Self::Store(_) | Self::Folder { .. } => None,
        }
    }
}
