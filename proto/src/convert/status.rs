//! `NodeStatus`: how each version and tool stands on a node. Always the whole.

use std::sync::Arc;

use domain::digest::Digest;
use domain::id::{PluginVersion, ToolId};
use prost::Message as _;

use super::fields::{at_most, cut, plugin_version, tool, value};
use super::{Error, LIST_MAX, TEXT_MAX};
use crate::v1;

/// How everything stands on a node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Status {
    /// Each version that the node has or wants.
    pub versions: Vec<VersionStatus>,
}

/// How one version stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionStatus {
    /// Which version.
    pub version: PluginVersion,
    /// Where it is on its way.
    pub state: VersionState,
    /// Why, for people; may be empty.
    pub reason: Arc<str>,
    /// Its tools.
    pub tools: Vec<ToolStatus>,
}

/// How one tool stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolStatus {
    /// Which tool.
    pub tool: ToolId,
    /// How it is.
    pub state: ToolState,
    /// Why, for people; may be empty.
    pub reason: Arc<str>,
    /// What the kernel confines its process to, or why to nothing, for people; empty for what is no
    /// process here.
    pub confined: Arc<str>,
}

macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its word on the wire, in the store and in messages.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// Reads the word back.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|state| state.as_str() == text)
            }
        }
    };
}

words! {
    /// Where a version is on its way.
    VersionState {
        /// Being downloaded, verified or unpacked.
        Installing = "installing",
        /// Its tools are being started and listed.
        Starting = "starting",
        /// Calls go to it.
        Serving = "serving",
        /// Calls go to it until its replacement serves.
        Outgoing = "outgoing",
        /// It cannot be installed or started; tried again by itself.
        Failed = "failed",
    }
}

words! {
    /// How a tool is.
    ToolState {
        /// Its process is starting, or its first list is being read.
        Starting = "starting",
        /// It answers.
        Running = "running",
        /// Its process is not up.
        NotRunning = "not_running",
        /// The remote tool cannot be reached.
        Unreachable = "unreachable",
        /// The edge does not run tools of its kind.
        KindOff = "kind_off",
    }
}

impl Status {
    /// What a heartbeat says of it: SHA-256 of the encoded `NodeStatus`.
    pub fn digest(&self) -> Digest {
        Digest::of(&v1::NodeStatus::from(self).encode_to_vec())
    }
}

impl From<&Status> for v1::NodeStatus {
    fn from(status: &Status) -> Self {
        Self { versions: status.versions.iter().map(Into::into).collect() }
    }
}

impl From<&VersionStatus> for v1::VersionStatus {
    fn from(status: &VersionStatus) -> Self {
        let tools = status.tools.iter().map(|tool| v1::ToolStatus {
            tool: tool.tool.as_str().to_owned(),
            state: tool.state.as_str().to_owned(),
            reason: cut(&tool.reason, TEXT_MAX).to_owned(),
            confined: cut(&tool.confined, TEXT_MAX).to_owned(),
        });
        Self {
            plugin: status.version.plugin.as_str().to_owned(),
            version: status.version.version.to_string(),
            state: status.state.as_str().to_owned(),
            reason: cut(&status.reason, TEXT_MAX).to_owned(),
            tools: tools.collect(),
        }
    }
}

impl TryFrom<v1::NodeStatus> for Status {
    type Error = Error;

    fn try_from(wire: v1::NodeStatus) -> Result<Self, Error> {
        at_most("NodeStatus.versions", wire.versions.len(), LIST_MAX, "versions")?;
        Ok(Self { versions: wire.versions.iter().map(version_status).collect::<Result<_, _>>()? })
    }
}

fn version_status(wire: &v1::VersionStatus) -> Result<VersionStatus, Error> {
    let state = VersionState::parse(&wire.state).ok_or_else(|| {
        value("VersionStatus.state", &wire.state, "installing, starting, serving, outgoing or failed")
    })?;
    at_most("VersionStatus.tools", wire.tools.len(), LIST_MAX, "tools")?;
    Ok(VersionStatus {
        version: plugin_version(
            ("VersionStatus.plugin", "VersionStatus.version"),
            &wire.plugin,
            &wire.version,
        )?,
        state,
        reason: cut(&wire.reason, TEXT_MAX).into(),
        tools: wire.tools.iter().map(tool_status).collect::<Result<_, _>>()?,
    })
}

fn tool_status(wire: &v1::ToolStatus) -> Result<ToolStatus, Error> {
    let state = ToolState::parse(&wire.state).ok_or_else(|| {
        value("ToolStatus.state", &wire.state, "starting, running, not_running, unreachable or kind_off")
    })?;
    Ok(ToolStatus {
        tool: tool("ToolStatus.tool", &wire.tool)?,
        state,
        reason: cut(&wire.reason, TEXT_MAX).into(),
        confined: cut(&wire.confined, TEXT_MAX).into(),
    })
}
