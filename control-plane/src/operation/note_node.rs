//! Notes what nodes say of themselves: which versions they have, how those stand, that they are here.

use std::collections::{BTreeMap, BTreeSet};

use domain::audit::Event;
use domain::clone::Succession;
use domain::digest::Digest;
use domain::id::{NodeId, PluginVersion};
use domain::plugin_set::{Part, Scope};
use domain::standing::Standing;
use domain::time::Timestamp;
use domain::visible::{make_visible, make_visible_up_to};
use proto::convert::{Status, VersionStatus};
use serde_json::json;

use super::reconcile_changes::reconcile_changes;
use super::{By, Error};
use crate::store::nodes::versions::NodeVersion;
use crate::store::{NodeRecord, Store, Transaction, WriteTx, assignments, nodes, sightings};

/// Most characters of an agent's version that are kept: SemVer with a commit.
const AGENT_VERSION_MAX: usize = 64;

/// Nodes whose "last seen" one statement writes: some 60 KB of text.
const SEEN_AT_ONCE: usize = 1_000;

/// Who says something: a node, in one of its sessions.
#[derive(Clone, Copy, Debug)]
pub struct Speaker<'a> {
    /// The node.
    pub node: &'a NodeId,
    /// Where the session stands among the node's; unknown of nodes that keep no session counter.
    pub session: Option<Succession>,
}

impl<'a> From<&'a NodeId> for Speaker<'a> {
    fn from(node: &'a NodeId) -> Self {
        Self { node, session: None }
    }
}

impl Speaker<'_> {
    /// The node's record, if it may work and has no later session: whoever writes asks in its own transaction.
    pub(super) async fn counts(&self, tx: &mut Transaction) -> Result<Option<NodeRecord>, Error> {
        let record = nodes::get(tx, self.node).await?;
        Ok(record.filter(|record| {
            record.standing.standing == Standing::Active
                && self.session.is_none_or(|session| session.counts(record.known.acknowledged))
        }))
    }

    /// Ends what earlier sessions say, if this one can.
    pub(super) async fn succeed(&self, tx: &mut Transaction, record: &NodeRecord) -> Result<(), Error> {
        let kept = self.session.and_then(|session| session.kept());
        if let Some(kept) = kept.filter(|kept| *kept > record.known.acknowledged) {
            nodes::kept(tx, &[(self.node.clone(), kept)]).await?;
        }
        Ok(())
    }
}

/// Notes what a node said as it connected. If it has a version that its edge's trust does not speak
/// of, the trust does from here on (30-nodes, 2). Costs no write if nothing is new. Answers what is on
/// record now, as [`said_digest`] has it; `None` if this was passed over, as what an earlier session of the node says
/// is.
///
/// # Errors
/// What the store says.
pub async fn note_hello(
    store: &Store,
    now: Timestamp,
    speaker: impl Into<Speaker<'_>>,
    agent_version: &str,
    versions: &[PluginVersion],
    status: &Status,
) -> Result<Option<Digest>, Error> {
    let agent_version = make_visible_up_to(agent_version, AGENT_VERSION_MAX);
    note_said(store, now, speaker.into(), Some(&agent_version), said(versions, status)).await
}

/// Notes a node's status. Costs no write if nothing is new. Answers as [`note_hello`] does.
///
/// # Errors
/// What the store says.
pub async fn note_status(
    store: &Store,
    now: Timestamp,
    speaker: impl Into<Speaker<'_>>,
    status: &Status,
) -> Result<Option<Digest>, Error> {
    note_said(store, now, speaker.into(), None, said(&[], status)).await
}

/// Stands for what a node said: two that are equal are noted alike.
pub(crate) fn said_digest(versions: &[PluginVersion], status: &Status) -> Digest {
    digest_of(said(versions, status).values())
}

/// The same of what is on record; `entries` stand in the order of their versions.
pub(crate) fn digest_of<'a>(entries: impl Iterator<Item = &'a NodeVersion>) -> Digest {
    let mut bytes = Vec::new();
    for entry in entries {
        for field in [&entry.version.to_string(), &entry.state, &entry.reason, &entry.tools] {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field.as_bytes());
        }
    }
    Digest::of(&bytes)
}

async fn note_said(
    store: &Store,
    now: Timestamp,
    speaker: Speaker<'_>,
    agent_version: Option<&str>,
    mut said: BTreeMap<PluginVersion, NodeVersion>,
) -> Result<Option<Digest>, Error> {
    let mut tx = store.read().await?;
    let Some(record) = speaker.counts(&mut tx).await? else { return Ok(None) };
    let is_same_agent = agent_version.is_none_or(|version| version == record.agent_version);
    let before = as_map(nodes::versions::of(&mut tx, speaker.node).await?);
    if before != said {
        // It can have nothing else, and reads and reports nothing of what is not its edge's.
        let ever = assignments::ever_on(&mut tx, &record.edge).await?;
        said.retain(|version, _| ever.contains(version));
    }
    drop(tx);
    let noted = Some(digest_of(said.values()));
    if is_same_agent && before == said {
        return Ok(noted);
    }
    let mut tx = store.begin_write().await?;
    // Asked again, since only now nobody else writes.
    let Some(record) = speaker.counts(tx.tx()).await? else { return Ok(None) };
    speaker.succeed(tx.tx(), &record).await?;
    if let Some(version) = agent_version {
        nodes::set_agent(tx.tx(), speaker.node, version).await?;
    }
    note(&mut tx, now, &record, &said).await?;
    tx.commit(now).await?;
    Ok(noted)
}

/// Notes when nodes were last heard of, and which session counters they have on their disks, all in one
/// transaction. From then on nothing counts that an earlier session of theirs said.
///
/// # Errors
/// What the store says.
pub async fn note_alive(
    store: &Store,
    now: Timestamp,
    seen: &[(NodeId, Timestamp)],
    kept: &[(NodeId, u64)],
) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    for some in seen.chunks(SEEN_AT_ONCE) {
        nodes::seen(tx.tx(), some).await?;
    }
    for some in kept.chunks(SEEN_AT_ONCE) {
        nodes::kept(tx.tx(), some).await?;
    }
    tx.commit(now).await?;
    Ok(())
}

/// Notes which nodes' streams came to this server and which left it.
///
/// # Errors
/// What the store says.
pub async fn note_streams(
    store: &Store,
    now: Timestamp,
    server: &str,
    batch: &[(NodeId, bool)],
) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    for some in batch.chunks(SEEN_AT_ONCE) {
        nodes::streams(tx.tx(), now, server, some).await?;
    }
    tx.commit(now).await?;
    Ok(())
}

/// What stands on record of these nodes, each as [`said_digest`] has it.
///
/// # Errors
/// What the store says.
pub async fn noted(store: &Store, which: &[NodeId]) -> Result<BTreeMap<NodeId, Digest>, Error> {
    let mut tx = store.read().await?;
    let mut noted = BTreeMap::new();
    for some in which.chunks(SEEN_AT_ONCE) {
        let mut on_record = nodes::versions::of_nodes(&mut tx, some).await?;
        for node in some {
            let versions = as_map(on_record.remove(node).unwrap_or_default());
            noted.insert(node.clone(), digest_of(versions.values()));
        }
    }
    Ok(noted)
}

/// What a node says of each version that it has.
fn said(versions: &[PluginVersion], status: &Status) -> BTreeMap<PluginVersion, NodeVersion> {
    let silent = |version: &PluginVersion| NodeVersion {
        version: version.clone(),
        state: "installed".to_owned(),
        reason: String::new(),
        tools: "[]".to_owned(),
    };
    let mut said: BTreeMap<PluginVersion, NodeVersion> =
        versions.iter().map(|version| (version.clone(), silent(version))).collect();
    said.extend(status.versions.iter().map(|status| (status.version.clone(), node_version(status))));
    said
}

fn node_version(status: &VersionStatus) -> NodeVersion {
    let tools: Vec<serde_json::Value> = status
        .tools
        .iter()
        .map(|tool| {
            json!({
                "tool": tool.tool.as_str(),
                "state": tool.state.as_str(),
                "reason": make_visible(&tool.reason),
                "confined": make_visible(&tool.confined),
            })
        })
        .collect();
    NodeVersion {
        version: status.version.clone(),
        state: status.state.as_str().to_owned(),
        reason: make_visible(&status.reason).into_owned(),
        tools: serde_json::Value::from(tools).to_string(),
    }
}

fn as_map(versions: Vec<NodeVersion>) -> BTreeMap<PluginVersion, NodeVersion> {
    versions.into_iter().map(|entry| (entry.version.clone(), entry)).collect()
}

/// Records what is said in place of what was said before. Only another set of versions is a change
/// of state, which is audited; it raises the edge's trust if no other node has what is new or gone.
async fn note(
    tx: &mut WriteTx,
    now: Timestamp,
    node: &NodeRecord,
    said: &BTreeMap<PluginVersion, NodeVersion>,
) -> Result<(), Error> {
    let by = By::node(now, &node.name);
    let before = as_map(nodes::versions::of(tx.tx(), &node.id).await?);
    for (version, entry) in said {
        if before.get(version) != Some(entry) {
            nodes::versions::put(tx.tx(), &node.id, entry).await?;
        }
    }
    let is_gone = |version: &&PluginVersion| !said.contains_key(*version);
    for version in before.keys().filter(is_gone) {
        nodes::versions::drop(tx.tx(), &node.id, version).await?;
        for tool in sightings::drop_version(tx.tx(), &node.id, version).await? {
            reconcile_changes(tx, &by, version, &tool).await?;
        }
    }
    let (before, after): (BTreeSet<_>, BTreeSet<_>) = (before.keys().collect(), said.keys().collect());
    if before == after {
        return Ok(());
    }
    // One node more or less that has a version changes nothing of what the edge's trust says, and
    // raising it would have all of them acknowledge it for each of them.
    for version in before.symmetric_difference(&after) {
        if !assignments::is_on(tx.tx(), &node.edge, version, Some(&node.id)).await? {
            tx.raise(Scope::Edge(node.edge.clone()), Part::Trust);
            break;
        }
    }
    let versions = after.into_iter().cloned().collect();
    let (node, node_name) = (node.id.clone(), node.name.clone());
    tx.audit(&by.origin, Event::NodeVersionsSet { node, node_name, versions });
    Ok(())
}
