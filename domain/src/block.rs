//! Blocks: calls that a person stopped, whatever else was approved or assigned, until a person lifts that
//! (20-listings, 5).

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::id::{IdFault, PluginName, PluginVersion, ToolId};
use crate::time::Timestamp;

/// Most characters of a function's ID: a tool ID, a dot, and as long a name as a listing may have.
const FUNCTION_MAX: usize = 128 + 1 + 128;

/// What is not called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// One function, by its ID. Compared as a whole: an ID is never taken apart.
    Function(Arc<str>),
    /// All of a tool.
    Tool(ToolId),
    /// All of a plugin, in every version.
    Plugin(PluginName),
    /// All of one version.
    Version(PluginVersion),
}

impl Target {
    /// A function by its ID, `tool.function`.
    ///
    /// # Errors
    /// It is no ID.
    pub fn function(id: &str) -> Result<Self, IdFault> {
        let is_id = id.len() <= FUNCTION_MAX
            && !id.chars().any(|c| c.is_control() || c.is_whitespace())
            && id.split_once('.').is_some_and(|(tool, function)| !tool.is_empty() && !function.is_empty());
        if is_id {
            return Ok(Self::Function(id.into()));
        }
        let got = id.chars().take(100).flat_map(char::escape_debug).collect();
        Err(IdFault { kind: "a function's ID", rule: "TOOL.FUNCTION, such as team.hello", got })
    }

    /// A plugin `NAME`, or one version of it, `NAME@VERSION`.
    ///
    /// # Errors
    /// It is neither.
    pub fn plugin(text: &str) -> Result<Self, IdFault> {
        if text.contains('@') {
            PluginVersion::parse(text).map(Self::Version)
        } else {
            PluginName::parse(text).map(Self::Plugin)
        }
    }

    /// Reads what [`fmt::Display`] writes: `function ID`, `tool ID`, `plugin NAME` or `plugin NAME@VERSION`.
    ///
    /// # Errors
    /// It is none of them.
    pub fn parse(text: &str) -> Result<Self, IdFault> {
        match text.split_once(' ') {
            Some(("function", id)) => Self::function(id),
            Some(("tool", id)) => ToolId::parse(id).map(Self::Tool),
            Some(("plugin", name)) => Self::plugin(name),
            _ => {
                let got = text.chars().take(100).flat_map(char::escape_debug).collect();
                Err(IdFault { kind: "what a block is for", rule: "function ID, tool ID or plugin NAME", got })
            }
        }
    }

    /// Whether every function of that tool of that version is meant.
    pub fn covers_tool(&self, version: &PluginVersion, tool: &ToolId) -> bool {
        match self {
            Self::Function(_) => false,
            Self::Tool(id) => id == tool,
            Self::Plugin(name) => *name == version.plugin,
            Self::Version(one) => one == version,
        }
    }

    /// Whether that function of that tool of that version is meant.
    pub fn covers(&self, version: &PluginVersion, tool: &ToolId, function: &str) -> bool {
        match self {
            Self::Function(id) => {
                id.strip_prefix(tool.as_str()).and_then(|rest| rest.strip_prefix('.')) == Some(function)
            }
            _ => self.covers_tool(version, tool),
        }
    }

    /// Whether it can mean anything of a version with that tool.
    pub fn touches(&self, version: &PluginVersion, tool: &ToolId) -> bool {
        match self {
            Self::Function(id) => id.strip_prefix(tool.as_str()).is_some_and(|rest| rest.starts_with('.')),
            _ => self.covers_tool(version, tool),
        }
    }

    /// The flag by which the command names it.
    pub fn flag(&self) -> String {
        match self {
            Self::Function(id) => format!("--function {id}"),
            Self::Tool(id) => format!("--tool {id}"),
            Self::Plugin(name) => format!("--plugin {name}"),
            Self::Version(version) => format!("--plugin {version}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(id) => write!(f, "function {id}"),
            Self::Tool(id) => write!(f, "tool {id}"),
            Self::Plugin(name) => write!(f, "plugin {name}"),
            Self::Version(version) => write!(f, "plugin {version}"),
        }
    }
}

/// One block, as a node is told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What is not called.
    pub target: Target,
    /// Whether it holds for every edge, and not for this one alone.
    pub is_fleet_wide: bool,
    /// Why, in its person's words, made visible.
    pub reason: Arc<str>,
    /// Who did it.
    pub by: Arc<str>,
    /// When.
    pub at: Timestamp,
}
