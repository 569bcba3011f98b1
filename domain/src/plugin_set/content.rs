//! What the four parts say, once their resources were read and checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::Block;
use crate::digest::{Digest, ListingHash};
use crate::id::{PluginName, PluginVersion, ToolId};

/// What `trust` says: per version that the edge has, tries or still runs somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trust {
    /// By plugin version.
    pub versions: BTreeMap<PluginVersion, Arc<VersionTrust>>,
}

/// What the fleet goes by for one version.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct VersionTrust {
    /// By tool; a tool that is absent has no snapshot.
    pub tools: BTreeMap<ToolId, ToolTrust>,
    /// Blocks that touch it, by their ids.
    pub blocks: BTreeMap<Arc<str>, Block>,
}

/// What the fleet goes by for one tool of a version.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ToolTrust {
    /// Whether a first complete listing was recorded; an empty one counts.
    pub snapshot_taken: bool,
    /// By function name.
    pub functions: BTreeMap<Arc<str>, FunctionTrust>,
    /// For a remote tool.
    pub origin: Option<OriginTrust>,
}

/// One function's snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionTrust {
    /// The approved hash.
    pub hash: ListingHash,
    /// Order of approval on the edge: of two functions with one model name the lower stays.
    pub rank: u64,
}

/// Where a remote tool may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginTrust {
    /// Calls go to this origin only, at an address of this class once it is known.
    Pinned {
        /// `scheme://host[:port]`.
        origin: Arc<str>,
        /// `public`, `private` or `loopback`.
        address_class: Option<Arc<str>>,
    },
    /// It moved, and nobody approved that: not called.
    Moved {
        /// Where the version says it is.
        origin: Arc<str>,
        /// Where it was approved before.
        earlier: Vec<Arc<str>>,
    },
    /// It is new beside tools that were pinned, and nobody approved it: not called.
    New {
        /// Where the version says it is.
        origin: Arc<str>,
    },
    /// Its host comes from a connection's parameter.
    Connection,
}

/// What `plan` says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// By plugin.
    pub plugins: BTreeMap<PluginName, Arc<PlannedPlugin>>,
}

/// One plugin of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PlannedPlugin {
    /// What the edge goes by.
    pub installed: Option<PlannedVersion>,
    /// What a rollout or a candidate assignment tries: its source and version.
    pub candidate: Option<(Arc<str>, PlannedVersion)>,
}

/// One version as the control plane read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVersion {
    /// Which version.
    pub version: PluginVersion,
    /// Of the sorted (path, executable bit, file digest) list.
    pub content_digest: Digest,
    /// Of the archive that is downloaded.
    pub archive_sha256: Digest,
    /// Bytes of the archive.
    pub archive_length: u64,
    /// The control plane's reading of the manifest's tools.
    pub tools: BTreeMap<ToolId, PlannedTool>,
}

/// One tool as the control plane read it, for policy before a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTool {
    /// Its kind.
    pub kind: Kind,
    /// For kind `url`.
    pub url: Option<Arc<str>>,
    /// What it is reached with, for kind `url` with a connection.
    pub connection: Option<PlannedConnection>,
}

/// What a remote tool is reached with, without its secrets: nodes fetch those.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PlannedConnection {
    /// As listings over it are reported.
    pub name: Arc<str>,
    /// Another one whenever anything of it changed; 0: it was not set.
    pub version: u64,
    /// Parameters that are no secrets.
    pub params: BTreeMap<Arc<str>, Arc<str>>,
    /// Why it is of no use now, for people.
    pub problem: Option<Arc<str>>,
}

impl PlannedConnection {
    /// Whether manifests call it so: its own name has the edge behind it if it is for one.
    pub fn is_called(&self, name: &str) -> bool {
        self.name.split('@').next() == Some(name)
    }
}

/// How a tool runs (50-plugins, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A stdio MCP server.
    Command,
    /// A remote MCP server.
    Url,
    /// A script that follows the bash contract.
    Bash,
    /// Entries of a Node package.
    Node,
    /// Entries of a Python package.
    Python,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Command, Self::Url, Self::Bash, Self::Node, Self::Python];

    /// Its word in manifests, on the wire and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Url => "url",
            Self::Bash => "bash",
            Self::Node => "node",
            Self::Python => "python",
        }
    }

    /// Reads the word back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What `policy` says. The default allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Between two listings of a local tool.
    pub command_listing_interval_ms: u64,
    /// Between two listings of a remote tool.
    pub url_listing_interval_ms: u64,
    /// How old the listing that a call relies on may be; `None`: three intervals of its kind.
    pub listing_age_max_ms: Option<u64>,
    /// Kinds that are not run.
    pub forbidden_kinds: Vec<Kind>,
    /// Whether remote tools may be at private and loopback addresses.
    pub allow_private_addresses: bool,
    /// How long what a node was told counts as fresh without hearing more, at most; the control plane
    /// may say less.
    pub fresh_for_ms: u64,
    /// Whether a node that is past that refuses calls (`set_stale`) instead of going on.
    pub strict: bool,
    /// How long after its last contact a node that was started again may go by the set that it stored;
    /// `None`: not at all.
    pub offline_lease_ms: Option<u64>,
    /// What the kernel allows each tool process; a manifest may ask for less.
    pub tool_limits: ToolLimits,
}

/// What one tool may take of the machine. Each is the default as well as the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolLimits {
    /// Bytes of data of each of its processes.
    pub memory: u64,
    /// Open files of each of its processes.
    pub files: u64,
    /// Processes at once, its own included.
    pub processes: u64,
}

impl Default for ToolLimits {
    /// 4 GiB: what a run time that loads a model or compiles takes. 4,096 files: four times what systems
    /// commonly give. 256 processes: a build that uses every core of a large machine.
    fn default() -> Self {
        Self { memory: 4 << 30, files: 4_096, processes: 256 }
    }
}

/// A day, so that a weekend's outage shows as stale and a night's does not.
pub const FRESH_FOR_MS: u64 = 24 * 3_600_000;

impl Default for Policy {
    fn default() -> Self {
        Self {
            command_listing_interval_ms: 60_000,
            url_listing_interval_ms: 300_000,
            listing_age_max_ms: None,
            forbidden_kinds: Vec::new(),
            allow_private_addresses: true,
            fresh_for_ms: FRESH_FOR_MS,
            strict: false,
            offline_lease_ms: None,
            tool_limits: ToolLimits::default(),
        }
    }
}

impl Policy {
    /// Milliseconds between two listings of a tool of this kind.
    pub const fn listing_interval_ms(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Url => self.url_listing_interval_ms,
            Kind::Command | Kind::Bash | Kind::Node | Kind::Python => self.command_listing_interval_ms,
        }
    }

    /// How old, in milliseconds, the listing that a call of such a tool relies on may be.
    pub fn listing_age_max_ms(&self, kind: Kind) -> u64 {
        self.listing_age_max_ms.unwrap_or_else(|| self.listing_interval_ms(kind).saturating_mul(3))
    }
}

/// What one node is granted, by plugin.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Grants {
    /// By plugin.
    pub plugins: BTreeMap<PluginName, Grant>,
}

/// One grant: it counts only while the plan names its source as running with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Rollout and attempt, or assignment.
    pub source: Arc<str>,
    /// The version granted.
    pub version: PluginVersion,
    /// What for.
    pub usage: GrantUse,
}

/// What a grant is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantUse {
    /// Agents call it.
    Serve,
    /// Only evals call it.
    Gate,
}

impl GrantUse {
    /// Its word on the wire, in the store and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Gate => "gate",
        }
    }

    /// Reads the word back.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Serve, Self::Gate].into_iter().find(|usage| usage.as_str() == text)
    }
}
