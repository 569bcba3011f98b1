//! What every simulated fleet is made of: edges, nodes, versions of two plugins, and the words of their
//! functions. Prepared once and shared by all seeds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use control_plane::simulation::{Prepared, Pushed};
use domain::digest::Digest;
use domain::id::{EdgeName, NodeName, PluginName, PluginVersion, ToolId};
use domain::plugin_set::Head;
use domain::time::Timestamp;
use node_agent::simulation::Verify;
use proto::identity::NodeIdentity;
use proto::v1;

/// Edges and nodes, in the order of their ids.
const NODES: [(&str, &str); 4] = [("eu", "n1"), ("eu", "n2"), ("us", "n3"), ("eu", "n4")];

/// A tool and its functions.
type Tool = (&'static str, &'static [&'static str]);

/// A plugin, its versions and its tools.
type Plugin = (&'static str, &'static [&'static str], &'static [Tool]);

/// Plugins, each with its versions and their tools with functions.
const PLUGINS: [Plugin; 2] = [
    ("alpha", &["1.0.0", "1.1.0", "2.0.0"], &[("alpha", &["one", "two"])]),
    ("beta", &["1.0.0", "1.1.0"], &[("beta", &["read", "write"]), ("gamma", &["peek"])]),
];

/// A function that no version has at first: tools add it.
pub(crate) const EXTRA: &str = "extra";

/// A node's machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    pub(crate) identity: NodeIdentity,
}

/// A version of a plugin.
#[derive(Debug)]
pub(crate) struct Release {
    pub(crate) version: PluginVersion,
    pub(crate) content: Digest,
    pub(crate) manifest: String,
    /// Tools with their functions.
    pub(crate) tools: Vec<(ToolId, Vec<&'static str>)>,
    /// The variant of the words that its functions have at first.
    pub(crate) words: u64,
}

/// Everything that all seeds share.
pub struct Scene {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) edges: Vec<EdgeName>,
    pub(crate) plugins: Vec<PluginName>,
    pub(crate) releases: Vec<Release>,
    /// The names of all functions that any tool may have.
    pub(crate) functions: Vec<String>,
    pub(crate) verify: Verify,
    /// The wall's clock when every simulation begins: now, since certificates are issued by the real clock.
    pub(crate) wall_ms: i64,
    /// Whose folders those of all seeds are in.
    pub(crate) folder: std::path::PathBuf,
}

impl std::fmt::Debug for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Scene {
    /// Prepares it in a folder, best one in memory.
    ///
    /// # Errors
    /// The machine's.
    pub fn new(folder: &Path) -> anyhow::Result<Self> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let wall_ms = i64::try_from(since.as_millis())?;
        let releases = releases()?;
        let pushed: Vec<Pushed> = releases
            .iter()
            .map(|release| Pushed {
                version: release.version.clone(),
                content: release.content,
                tools: release.tools.iter().map(|(tool, _)| tool.clone()).collect(),
            })
            .collect();
        let mut nodes = Vec::new();
        for (edge, name) in NODES {
            nodes.push((EdgeName::parse(edge)?, NodeName::parse(name)?));
        }
        let now = Timestamp::from_millis(wall_ms);
        let prepared = Prepared::new(&folder.join("prepared"), now, &nodes, &pushed)?;
        let machines = NODES.iter().zip(&prepared.nodes);
        let machines =
            machines.map(|((_, name), identity)| Machine { name, identity: identity.clone() }).collect();
        let fleet = prepared.nodes.first().map_or_else(|| "".into(), |node| Arc::clone(&node.fleet));
        let verify = verify(fleet, prepared.authority());
        let plugins = PLUGINS.iter().map(|(name, ..)| PluginName::parse(name)).collect::<Result<_, _>>()?;
        let mut edges: Vec<EdgeName> = nodes.into_iter().map(|(edge, _)| edge).collect();
        edges.sort();
        edges.dedup();
        Ok(Self {
            prepared: Arc::new(prepared),
            machines,
            edges,
            plugins,
            functions: functions(),
            releases,
            verify,
            wall_ms,
            folder: folder.to_owned(),
        })
    }

    /// The versions of a plugin, oldest first.
    pub(crate) fn versions_of<'a>(
        &'a self,
        plugin: &'a PluginName,
    ) -> impl Iterator<Item = &'a PluginVersion> {
        self.releases.iter().map(|release| &release.version).filter(move |version| version.plugin == *plugin)
    }

    pub(crate) fn release(&self, version: &PluginVersion) -> Option<&Release> {
        self.releases.iter().find(|release| release.version == *version)
    }
}

fn functions() -> Vec<String> {
    let tools = PLUGINS.iter().flat_map(|(_, _, tools)| tools.iter());
    let of = |(tool, functions): &(&str, &[&str])| {
        functions.iter().chain([&EXTRA]).map(|function| format!("{tool}.{function}")).collect::<Vec<_>>()
    };
    tools.flat_map(of).collect()
}

fn releases() -> anyhow::Result<Vec<Release>> {
    let mut releases = Vec::new();
    for (plugin, versions, tools) in PLUGINS {
        for (number, version) in versions.iter().enumerate() {
            let mut manifest = format!("name: {plugin}\nversion: {version}\ndescription: d\ntools:\n");
            let mut of_version = Vec::new();
            for (tool, functions) in tools {
                manifest.extend(["  ", tool, ": { command: [\"server\"] }\n"]);
                of_version.push((ToolId::parse(tool)?, functions.to_vec()));
            }
            releases.push(Release {
                version: PluginVersion::parse(&format!("{plugin}@{version}"))?,
                content: Digest::of(format!("content of {plugin}@{version}").as_bytes()),
                manifest,
                tools: of_version,
                // The second version of a plugin says what the first does.
                words: u64::from(number >= 2),
            });
        }
    }
    Ok(releases)
}

/// What a function says about itself in a variant of its words.
fn words(function: &str, variant: u64) -> String {
    format!("{function} does what it says, as of {variant}")
}

/// The raw entry of a list.
pub(crate) fn entry(function: &str, variant: u64) -> Box<str> {
    let words = words(function, variant);
    format!(r#"{{"name":"{function}","description":"{words}","inputSchema":{{"type":"object"}}}}"#).into()
}

/// The canonical text that is hashed, by the rules of listings and none of their code.
pub(crate) fn canonical(function: &str, variant: u64) -> String {
    format!(r#"{{"description":"{}","inputSchema":{{"type":"object"}}}}"#, words(function, variant))
}

/// The real check, remembered: a simulation verifies each head many times over.
fn verify(fleet: Arc<str>, authority: Vec<u8>) -> Verify {
    let known: Mutex<BTreeMap<Digest, Head>> = Mutex::default();
    Arc::new(move |signed: &v1::SignedHead| {
        let bytes = [signed.statement.as_slice(), &signed.signature, &signed.signer].concat();
        let key = Digest::of(&bytes);
        if let Some(head) = known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(head.clone());
        }
        let head = proto::head::verify(signed, &fleet, &[&authority]).map_err(|error| error.to_string())?;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > 4_096 {
            known.clear();
        }
        known.insert(key, head.clone());
        Ok(head)
    })
}

#[cfg(test)]
mod tests {
    use domain::digest::ListingHash;
    use domain::listing::judge_entry;

    use super::*;

    #[test]
    fn the_observers_text_is_the_one_that_is_hashed() {
        let judged = judge_entry(&entry("one", 3), &[]).unwrap();
        assert_eq!(&*judged.canonical, canonical("one", 3));
        assert_eq!(judged.hash, ListingHash::of_canonical(&canonical("one", 3)));
    }
}
