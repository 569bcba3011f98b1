//! Nodes: where they stand, what runs on them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Assignment;

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
