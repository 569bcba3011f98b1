//! What the node has and does.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::digest::Digest;
use crate::id::{PluginName, PluginVersion, ToolId};
use crate::plugin_set::Kind;
use crate::time::Timestamp;

/// Everything that is on the node's disk or runs there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// By plugin.
    pub plugins: BTreeMap<PluginName, Plugin>,
}

/// One plugin's versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugin {
    /// The version that is called.
    pub called: Option<PluginVersion>,
    /// Every version of which there is anything; one that only failed to install is there too.
    pub versions: BTreeMap<PluginVersion, Version>,
}

/// One version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Of what: names its folder.
    pub content: Digest,
    /// Where it is on its way.
    pub stage: Stage,
    /// Its tools, by the verified manifest; none before it is installed.
    pub tools: BTreeMap<ToolId, Tool>,
}

/// Where a version is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Being downloaded, verified or unpacked.
    Downloading,
    /// Not on the disk; the last try failed.
    Failed(Failure),
    /// On the disk, whole and verified. Its tools may run.
    Installed,
    /// Its calls are ending and its tools stop.
    Stopping,
}

/// An install that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why, for people.
    pub reason: Arc<str>,
    /// How often in a row.
    pub attempts: u32,
    /// When it may be tried again.
    pub next_try: Timestamp,
}

/// One tool of an installed version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its kind.
    pub kind: Kind,
    /// Whether it is kept running: started, and started again when it ends.
    pub on: bool,
    /// How its newest list ended.
    pub listed: Listed,
}

/// How the newest list of a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// None ended yet.
    Not,
    /// It was not read to its end, or the tool does not start or answer.
    Partly,
    /// It was read to its end.
    Completely,
}
