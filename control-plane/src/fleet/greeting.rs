//! What a node says of itself when it connects and later: noted in the database if it is new.
//!
//! What was noted last is kept in memory, so that a node that comes back as it was is answered without
//! a word to the database (30-nodes, 2). What an earlier session of the node said may be noted meanwhile, here or
//! by another server. So once the session's counter is on record, which ends that, what is on record is compared
//! with what this server remembers, behind the answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::digest::Digest;
use domain::id::NodeId;
use domain::plugin_set::{Part, Scope};
use proto::convert::{Hello, Status};

use super::{Counter, Edge, Farewell, Fleet, Judged, Turn, lock};
use crate::operation::note_node::Speaker;
use crate::operation::{self, find_bundle, note_node};
use crate::server::Chain;

/// What a node said of itself last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) agent_version: Arc<str>,
    pub(super) said: Digest,
}

/// What a Hello is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeted {
    /// A Welcome.
    Welcome {
        /// Nodes of the fleet.
        fleet_size: u32,
        /// What the node is to keep for its next Hello.
        counter: Option<Counter>,
        /// Whether the Hello is to be noted again, behind the answer: see [`Fleet::note_again`].
        again: bool,
    },
    /// A Goodbye.
    Turned(Turn),
}

impl Fleet {
    /// Judges who says this Hello, and notes what it says. The edge's trust speaks of what the node has
    /// when this returns.
    ///
    /// # Errors
    /// The database.
    pub async fn greet(
        &self,
        node: &NodeId,
        edge: &Edge,
        address: &str,
        hello: &Hello,
    ) -> Result<Greeted, super::Error> {
        match self.judge(node, address, hello).await? {
            Judged::Turned(turn) => Ok(Greeted::Turned(turn)),
            Judged::Right(counter) => {
                let session = counter.as_ref().map(|counter| counter.session);
                let (fleet_size, again) = self.note(Speaker { node, session }, edge, hello).await?;
                Ok(Greeted::Welcome { fleet_size, counter, again })
            }
        }
    }

    /// Answers how many nodes the fleet has, and whether it is to be noted again.
    async fn note(
        &self,
        speaker: Speaker<'_>,
        edge: &Edge,
        hello: &Hello,
    ) -> Result<(u32, bool), super::Error> {
        let node = speaker.node;
        let fault = |source| super::Error::Load { scope: Scope::Node(node.clone()), source };
        let noted = Noted {
            agent_version: Arc::clone(&hello.agent_version),
            said: note_node::said_digest(&hello.versions, &hello.status),
        };
        let is_noted = lock(&self.inner.noted).get(node) == Some(&noted) && speaks_of_all(edge, hello);
        if !is_noted {
            let _turn = self.turn().await;
            let now = (self.inner.clock)();
            let (agent, versions) = (&hello.agent_version, &hello.versions);
            let noting =
                note_node::note_hello(&self.inner.store, now, speaker, agent, versions, &hello.status);
            if let Some(said) = noting.await.map_err(fault)? {
                self.remember(node, Noted { said, ..noted });
            }
            if !speaks_of_all(edge, hello) {
                self.look(false).await?;
            }
        }
        let size = match self.inner.size.load(Ordering::Relaxed) {
            0 => find_bundle::fleet_size(&self.inner.store).await.map_err(fault)?,
            counted => counted,
        };
        let again = is_noted && self.inner.store.is_shared();
        Ok((u32::try_from(size).unwrap_or(u32::MAX), again))
    }

    /// Notes how everything stands on a node, unless it has a later session than the one that says so.
    ///
    /// # Errors
    /// The database.
    pub async fn note_status(&self, speaker: Speaker<'_>, status: &Status) -> Result<(), operation::Error> {
        let node = speaker.node;
        if !self.counts(node, speaker.session) {
            return Ok(());
        }
        // While it is being noted nothing is certain.
        let earlier = lock(&self.inner.noted).remove(node);
        let said = note_node::note_status(&self.inner.store, (self.inner.clock)(), speaker, status).await?;
        if let (Some(earlier), Some(said)) = (earlier, said) {
            self.remember(node, Noted { agent_version: earlier.agent_version, said });
        }
        Ok(())
    }

    fn remember(&self, node: &NodeId, noted: Noted) {
        lock(&self.inner.noted).insert(node.clone(), noted);
    }

    /// Notes again what is noted by this server: if another noted something else since, this is newer. The stream
    /// does so in the order of what the node said, or a status that came later would be undone.
    pub async fn note_again(&self, speaker: Speaker<'_>, hello: &Hello) {
        if !self.counts(speaker.node, speaker.session) {
            return;
        }
        let _turn = self.turn().await;
        let (store, now) = (&self.inner.store, (self.inner.clock)());
        let (agent, versions) = (&hello.agent_version, &hello.versions);
        let noted = note_node::note_hello(store, now, speaker, agent, versions, &hello.status).await;
        if let Err(error) = noted {
            tracing::debug!(error = %Chain(&error), node.id = %speaker.node, "what a node said could not be checked");
            lock(&self.inner.noted).remove(speaker.node);
        }
    }

    /// Has nodes connect anew of which something else is on record than this server remembers: what an earlier
    /// session said was noted after what a later one did, before that one's counter was on record.
    ///
    /// # Errors
    /// The database.
    pub(super) async fn compare_noted(&self, nodes: &[NodeId]) -> Result<(), operation::Error> {
        let remembered: Vec<(NodeId, Noted)> = {
            let noted = lock(&self.inner.noted);
            nodes.iter().filter_map(|node| Some((node.clone(), noted.get(node)?.clone()))).collect()
        };
        let on_record = note_node::noted(&self.inner.store, nodes).await?;
        for (node, remembered) in remembered {
            if on_record.get(&node).is_none_or(|said| *said == remembered.said) {
                continue;
            }
            let mut noted = lock(&self.inner.noted);
            // Else something newer was noted while this was read.
            if noted.get(&node) != Some(&remembered) {
                continue;
            }
            noted.remove(&node);
            drop(noted);
            tracing::info!(node.id = %node, "an earlier session of a node was noted late; it is asked anew");
            if let Some(edge) = self.edge_of(&node) {
                edge.signal(&node, |own| own.farewell = Some(Farewell::Forgotten));
            }
        }
        Ok(())
    }
}

/// Whether the edge's trust speaks of everything that the node has.
fn speaks_of_all(edge: &Edge, hello: &Hello) -> bool {
    let set = edge.set();
    let Some(trust) = set.get(Part::Trust) else { return hello.versions.is_empty() };
    let named = &trust.content.manifest.0;
    hello.versions.iter().all(|version| named.contains_key(version.to_string().as_str()))
}
