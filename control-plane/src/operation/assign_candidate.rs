//! Has an edge try a version: some of its nodes serve it beside the installed one.

use std::collections::{BTreeMap, BTreeSet};

use domain::audit::Event;
use domain::id::{EdgeName, NodeId, NodeName, PluginVersion};
use domain::plugin_set::{Part, Scope};
use uuid::Uuid;

use super::assign::{Checked, OffTool, UnsetTool, WaitingTool, check_and_pin, refuse_in_rollout};
use super::{By, Code, Error, unassign_candidate};
use crate::store::candidates::{self, Candidate};
use crate::store::{Store, WriteTx, edges, nodes, plugins};

/// Most nodes that one request names: more than that is a rollout.
pub const NODES_MAX: usize = 1_000;

/// A candidate as it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Whether anything changed.
    pub changed: bool,
    /// What the plan and the grants name.
    pub source: String,
    /// The installed version, which all other nodes go on with.
    pub installed: Option<semver::Version>,
    /// Remote tools that wait for a person, since they are at another origin.
    pub waiting: Vec<WaitingTool>,
    /// Tools whose kind the edge's policy forbids.
    pub off: Vec<OffTool>,
    /// Remote tools whose connection is of no use yet.
    pub unset: Vec<UnsetTool>,
}

/// Grants a version to exactly these nodes of an edge, beside the installed version. Another version
/// that the edge tries of the plugin ends; of the same version, the nodes are replaced.
///
/// # Errors
/// No such edge, version or node of that edge; no node or more than [`NODES_MAX`]; the installed version
/// itself; otherwise as [`super::assign::assign`].
pub async fn assign_candidate(
    store: &Store,
    by: &By,
    edge: &EdgeName,
    version: &PluginVersion,
    names: &BTreeSet<NodeName>,
) -> Result<Tried, Error> {
    if names.is_empty() || names.len() > NODES_MAX {
        let detail = format!("a candidate is for 1 to {NODES_MAX} nodes, not {}", names.len());
        return Err(Error::refused(Code::Invalid, detail));
    }
    let mut tx = store.begin_write().await?;
    if edges::get(tx.tx(), edge).await?.is_none() {
        return Err(Error::no_edge(edge));
    }
    if plugins::get(tx.tx(), version).await?.is_none() {
        return Err(Error::no_version(version));
    }
    refuse_in_rollout(tx.tx(), edge, &version.plugin).await?;
    let wanted = find_nodes(&mut tx, edge, names).await?;
    let Checked { installed, waiting, off, unset } = check_and_pin(&mut tx, by, edge, version).await?;
    if installed.as_ref() == Some(version) {
        let detail = format!("{version} is the installed version of edge {edge}; every node has it");
        return Err(Error::refused(Code::Invalid, detail));
    }
    let installed = installed.map(|installed| installed.version);
    let earlier = candidates::of_plugin(tx.tx(), edge, &version.plugin).await?;
    let (candidate, before) = match earlier {
        Some(candidate) if candidate.version == *version => {
            let before = candidates::nodes_of(tx.tx(), &candidate.source).await?;
            (candidate, before.into_iter().collect())
        }
        earlier => {
            if let Some(earlier) = earlier {
                unassign_candidate::end(&mut tx, by, edge, &earlier, false).await?;
            }
            (begin(&mut tx, by, edge, version).await?, BTreeMap::new())
        }
    };
    let source = candidate.source.to_string();
    if before == wanted {
        return Ok(Tried { changed: false, source, installed, waiting, off, unset });
    }
    for (_, node) in wanted.iter().filter(|(name, _)| !before.contains_key(*name)) {
        candidates::grant(tx.tx(), node, &candidate, by.as_stored()).await?;
        tx.raise_grants(edge, node);
    }
    for (_, node) in before.iter().filter(|(name, _)| !wanted.contains_key(*name)) {
        candidates::take_back(tx.tx(), node, &version.plugin).await?;
        tx.raise_grants(edge, node);
    }
    let nodes = wanted.into_keys().collect();
    let event = Event::EdgeCandidateSet {
        edge: edge.clone(),
        version: version.clone(),
        installed: installed.clone(),
        nodes,
        source: source.clone(),
    };
    tx.audit(&by.origin, event);
    tx.commit(by.now).await?;
    Ok(Tried { changed: true, source, installed, waiting, off, unset })
}

async fn begin(
    tx: &mut WriteTx,
    by: &By,
    edge: &EdgeName,
    version: &PluginVersion,
) -> Result<Candidate, Error> {
    let candidate = Candidate {
        // Never used again, so that a grant of an earlier one says nothing.
        source: format!("assignment/{}", Uuid::now_v7()).into(),
        version: version.clone(),
        set_at: by.now,
        set_by: by.origin.actor.clone(),
    };
    candidates::put(tx.tx(), edge, &candidate).await?;
    tx.raise(Scope::Edge(edge.clone()), Part::Trust);
    tx.raise(Scope::Edge(edge.clone()), Part::Plan);
    Ok(candidate)
}

async fn find_nodes(
    tx: &mut WriteTx,
    edge: &EdgeName,
    names: &BTreeSet<NodeName>,
) -> Result<BTreeMap<NodeName, NodeId>, Error> {
    let mut found = BTreeMap::new();
    for name in names {
        let node = nodes::by_name(tx.tx(), name.as_str()).await?;
        let fault = match node {
            Some(node) if node.edge == *edge => {
                found.insert(node.name, node.id);
                continue;
            }
            Some(node) => format!("node {name} is of edge {}, not of edge {edge}", node.edge),
            None => format!("there is no node {name}"),
        };
        return Err(Error::with_remedy(Code::NotFound, fault, format!("pintle node list --edge {edge}")));
    }
    Ok(found)
}
