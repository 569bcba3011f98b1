//! What a node holds and observes, as the guard is told it.
//!
//! Times are of two clocks: `_ms` is the node's monotonic one, [`Timestamp`] the wall's, for people.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::digest::ListingHash;
use crate::id::{EdgeName, FunctionId, PluginName, PluginVersion, ToolId};
use crate::plugin_set::{Kind, Policy, Trust};
use crate::refusal::{Code, Refusal};
use crate::time::Timestamp;

/// Everything that the decision of a node depends on.
#[derive(Clone, Debug)]
pub struct View {
    /// The edge that the node belongs to.
    pub edge: EdgeName,
    /// Whether calls are made at all.
    pub set: SetState,
    /// What the fleet goes by.
    pub trust: Arc<Trust>,
    /// Limits.
    pub policy: Policy,
    /// The plugins that the node has or is to have.
    pub plugins: BTreeMap<PluginName, PluginState>,
    /// Canonical texts of listings that the node has, by hash.
    pub texts: BTreeMap<ListingHash, Arc<str>>,
}

/// Whether the node holds the set of this boot.
#[derive(Clone, Debug)]
pub enum SetState {
    /// It waits for its set, from `server`, since then.
    Waiting {
        /// The control plane's address.
        server: Arc<str>,
        /// Since when.
        since: Timestamp,
    },
    /// It holds the set.
    Held,
    /// Calls are stopped for another reason that holds for the whole node.
    Closed(Refusal),
}

/// What a node does with one plugin.
#[derive(Clone, Debug)]
pub enum PluginState {
    /// This version is called: it is assigned, or outgoing while its replacement installs beside it.
    Serving(VersionView),
    /// The assigned version is not up yet, and none is called meanwhile.
    Installing {
        /// The assigned version.
        version: PluginVersion,
        /// Its tools, as planned.
        tools: Vec<ToolId>,
        /// Why it could not be installed, if that was tried.
        failed: Option<Arc<str>>,
        /// A version that is on the disk but not called, since the node started again.
        earlier: Option<PluginVersion>,
    },
    /// No version is assigned, but one is still on the disk.
    Unassigned {
        /// The tools of the version on the disk.
        tools: Vec<ToolId>,
    },
}

/// A version that is called.
#[derive(Clone, Debug)]
pub struct VersionView {
    /// Which.
    pub version: PluginVersion,
    /// Its tools.
    pub tools: BTreeMap<ToolId, ToolView>,
    /// Functions left out, by the rules of `name` and `listing`, over all tools of the version.
    pub left_out: BTreeMap<FunctionId, LeftOut>,
}

/// Why a function is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// One of `unreadable`, `name`, `reserved`, `twice`, `collides`.
    pub code: Code,
    /// Why, and of whom it could pass for; no stop at its end.
    pub why: Arc<str>,
}

/// One tool of a version that is called.
#[derive(Clone, Debug)]
pub struct ToolView {
    /// Its kind.
    pub kind: Kind,
    /// Where it is called, if it is remote: the origin in the verified bundle.
    pub origin: Option<Arc<str>>,
    /// Whether it can be called at all.
    pub run: RunState,
    /// The newest list that ended, over its connection.
    pub listing: Option<Arc<ToolListing>>,
    /// Set from a notice that the list changed until a list asked for after it ended.
    pub relisting: Option<Timestamp>,
    /// Why the newest try to list got no answer at all, if so.
    pub relist_failed: Option<(Timestamp, Arc<str>)>,
}

/// Whether a tool can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It is up.
    Running,
    /// It is starting or crashed.
    NotRunning {
        /// Since when.
        since: Timestamp,
        /// Why, and what happens next.
        reason: Arc<str>,
    },
    /// A remote tool does not answer.
    Unreachable {
        /// Since when.
        since: Timestamp,
        /// Why.
        reason: Arc<str>,
    },
    /// Something else holds for all its functions, such as a redirect or an address.
    Refused(Refusal),
}

/// What one list of a tool showed.
#[derive(Clone, Debug, Default)]
pub struct ToolListing {
    /// When it was asked for.
    pub asked_at_ms: u64,
    /// Whether it was read to its end.
    pub complete: bool,
    /// Why not, and since when.
    pub incomplete: Option<(Timestamp, Arc<str>)>,
    /// What it showed, by function name.
    pub functions: BTreeMap<Arc<str>, Shown>,
}

/// One function in a list.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its hash.
    pub hash: ListingHash,
    /// Why it is not shown to models though it may be called.
    pub not_shown: Option<Arc<str>>,
}
