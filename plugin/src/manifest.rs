//! The one model of a plugin's manifest that the rest of the workspace knows.
//!
//! One file per format reads into it (`pintle_yaml` today). A manifest is kept as its original
//! text and read again where it is needed, so no second form of it can disagree with the first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::id::{PluginName, ToolId};

mod fault;
mod pintle_yaml;
mod reader;
mod variable;
mod yaml;

pub use fault::ManifestFault;
pub(crate) use fault::shown;
pub use variable::{Place, expand};

/// The native manifest's file name, at the root of a plugin.
pub const FILE_NAME: &str = "pintle.yaml";

/// Bytes of a manifest: hundred times what a large plugin needs, and read into memory as a whole.
pub const MOST_BYTES: u64 = 256 * 1024;

/// A plugin's manifest, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The plugin's name.
    pub name: PluginName,
    /// The version; immutable once pushed.
    pub version: semver::Version,
    /// One sentence for people; may be empty.
    pub description: String,
    /// The tools by their ID.
    pub tools: BTreeMap<ToolId, ToolSpec>,
    /// What each tool may do. A tool that is not named declares nothing.
    pub permissions: BTreeMap<ToolId, Permissions>,
    /// What each tool may take of its machine; an edge's policy may allow less.
    pub limits: BTreeMap<ToolId, ToolLimits>,
    /// JSON pointers below `/_meta` that do not count towards a listing's hash, by tool.
    pub listing_ignore: BTreeMap<ToolId, Vec<String>>,
    /// What remote tools are reached with, by the connection's name.
    pub connections: BTreeMap<String, Connection>,
    /// The folder with evals, relative to the plugin's root.
    pub evals: Option<String>,
    /// Settings that people may give the plugin's tools.
    pub config_keys: Vec<String>,
}

/// How one tool is run or reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolSpec {
    /// An MCP server over stdio.
    Command {
        /// Program and arguments; may hold `${plugin}` and `${work}` (see [`expand`]). Never empty;
        /// the program is absolute, under `${plugin}/`, or a bare name to be found on `PATH`.
        command: Vec<String>,
        /// Environment beside what the node sets; values may hold the same variables.
        env: BTreeMap<String, String>,
    },
    /// An MCP server over streamable HTTP.
    Url {
        /// As written; its host may hold `${params.NAME}` of the connection.
        url: String,
        /// The connection it is reached with.
        connection: Option<String>,
        /// Whether plain `http` to another machine is wanted.
        allow_http: bool,
        /// Which transport it has.
        transport: Transport,
    },
    /// One bash script.
    Bash {
        /// The script, relative to the plugin's root.
        path: String,
        /// How arguments reach it.
        args: BashArgs,
    },
    /// A package with entries under `package.json#agent.tools`.
    Node {
        /// The package's folder, relative to the plugin's root.
        path: String,
    },
    /// A folder with an `agent_plugin.json`.
    Python {
        /// The folder, relative to the plugin's root.
        path: String,
    },
}

/// How a remote tool is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Streamable HTTP; where the server refuses it, the transport of 2024-11-05.
    #[default]
    Http,
    /// The transport of 2024-11-05 only: a GET that names where to POST.
    Sse,
}

/// How a bash tool gets its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BashArgs {
    /// `--name value`.
    #[default]
    Flags,
    /// In the order of the schema.
    Positional,
    /// One JSON object on stdin.
    Json,
}

/// The kinds of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`ToolSpec::Command`].
    Command,
    /// [`ToolSpec::Url`].
    Url,
    /// [`ToolSpec::Bash`].
    Bash,
    /// [`ToolSpec::Node`].
    Node,
    /// [`ToolSpec::Python`].
    Python,
}

/// What a tool declares that it does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Paths it reads: absolute, or under `${plugin}` or `${work}`.
    pub read: Vec<String>,
    /// Paths it writes, in the same form.
    pub write: Vec<String>,
    /// `host:port` pairs it connects to.
    pub net: Vec<String>,
    /// The category of its functions; a tool without one counts as `write`.
    pub category: Option<Category>,
}

/// The most that a tool needs of its machine; `None`: what the edge's policy allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolLimits {
    /// Bytes of data of each of its processes; 16 MiB at least.
    pub memory: Option<u64>,
    /// Open files of each of its processes; 16 at least.
    pub files: Option<u64>,
    /// Processes at once; 1 at least.
    pub processes: Option<u64>,
    /// Calls under way at once; 1 at least.
    pub calls: Option<usize>,
    /// For one call; a second at least.
    pub deadline: Option<Duration>,
    /// For its answer to the probe that finds out its protocol revision, where the node's own setting does
    /// not suit it; 10 ms at least.
    pub probe: Option<Duration>,
}

/// What a function does to the world, as its author declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Reads only.
    Read,
    /// Writes.
    Write,
    /// Destroys what cannot be brought back.
    Destructive,
    /// Talks to other machines.
    Network,
    /// Handles secrets.
    Secrets,
}

/// The parameters a remote tool is reached with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// By name.
    pub params: BTreeMap<String, Param>,
}

/// One parameter of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Param {
    /// Whether the connection is of no use without it.
    pub required: bool,
    /// Whether its value is sealed and never shown.
    pub secret: bool,
    /// For the person who fills it in.
    pub description: String,
}

impl Manifest {
    /// Reads the text of a `pintle.yaml` as a new bundle's: tool IDs are held to the present rules.
    ///
    /// # Errors
    /// Every fault that was found, at most 50, in the order of their lines.
    pub fn read(text: &str) -> Result<Self, Vec<ManifestFault>> {
        pintle_yaml::read(text, pintle_yaml::Ids::New)
    }

    /// Reads the manifest of a bundle that was accepted before. Its tool IDs may break rules that
    /// came later (characters, reserved names, IDs that models would read as one): the node judges
    /// those one by one, so that one of them never costs the plugin its other tools.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub fn read_accepted(text: &str) -> Result<Self, Vec<ManifestFault>> {
        pintle_yaml::read(text, pintle_yaml::Ids::Accepted)
    }

    /// Files of the plugin that are started directly, so that they are packed as executable:
    /// the `x` of a command that begins with `${plugin}/x`.
    pub fn programs(&self) -> BTreeSet<&str> {
        fn program(spec: &ToolSpec) -> Option<&str> {
            match spec {
                ToolSpec::Command { command, .. } => command.first()?.strip_prefix("${plugin}/"),
                _ => None,
            }
        }
        self.tools.values().filter_map(program).collect()
    }
}

impl ToolSpec {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Command { .. } => Kind::Command,
            Self::Url { .. } => Kind::Url,
            Self::Bash { .. } => Kind::Bash,
            Self::Node { .. } => Kind::Node,
            Self::Python { .. } => Kind::Python,
        }
    }
}

impl Kind {
    /// As manifests, settings and refusals write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Url => "url",
            Self::Bash => "bash",
            Self::Node => "node",
            Self::Python => "python",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Transport {
    /// Each with its word in a manifest.
    const WORDS: [(&'static str, Self); 2] = [("http", Self::Http), ("sse", Self::Sse)];
}

impl BashArgs {
    /// Each with its word in a manifest.
    const WORDS: [(&'static str, Self); 3] =
        [("flags", Self::Flags), ("positional", Self::Positional), ("json", Self::Json)];
}

impl Category {
    /// Each with its word in a manifest.
    const WORDS: [(&'static str, Self); 5] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("destructive", Self::Destructive),
        ("network", Self::Network),
        ("secrets", Self::Secrets),
    ];

    /// As manifests and permission rules write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
            Self::Network => "network",
            Self::Secrets => "secrets",
        }
    }
}

#[cfg(test)]
mod tests;
