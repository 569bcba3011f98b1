//! What a node says of itself when it connects and later: noted in the database if it is new.
//!
//! What was noted last is kept in memory, so that a node that comes back as it was is answered without
//! a word to the database (30-nodes, 2). That holds only for a server that has the database to itself:
//! with others, another may have noted something else meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::digest::Digest;
use domain::id::NodeId;
use domain::plugin_set::{Part, Scope};
use proto::convert::{Hello, Status};

use super::{Edge, Fleet, lock};
use crate::operation::{self, find_bundle, note_node};

/// What a node said of itself last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    agent_version: Arc<str>,
    said: Digest,
}

impl Fleet {
    /// Notes what a node said as it connected; answers how many nodes the fleet has. The edge's trust
    /// speaks of what the node has when this returns.
    ///
    /// # Errors
    /// The database.
    pub async fn greet(&self, node: &NodeId, edge: &Edge, hello: &Hello) -> Result<u32, super::Error> {
        let fault = |source| super::Error::Load { scope: Scope::Node(node.clone()), source };
        let noted = Noted {
            agent_version: Arc::clone(&hello.agent_version),
            said: note_node::said_digest(&hello.versions, &hello.status),
        };
        let is_noted = lock(&self.inner.noted).get(node) == Some(&noted);
        if !is_noted {
            let _turn = self.turn().await;
            let now = (self.inner.clock)();
            let (agent, versions) = (&hello.agent_version, &hello.versions);
            note_node::note_hello(&self.inner.store, now, node, agent, versions, &hello.status)
                .await
                .map_err(fault)?;
            self.remember(node, noted);
            let set = edge.set();
            let trust = set.get(Part::Trust);
            let is_named =
                |name: &str| trust.is_some_and(|trust| trust.content.manifest.0.contains_key(name));
            if !hello.versions.iter().all(|version| is_named(&version.to_string())) {
                self.look(false).await?;
            }
        }
        let size = match self.inner.size.load(Ordering::Relaxed) {
            0 => find_bundle::fleet_size(&self.inner.store).await.map_err(fault)?,
            counted => counted,
        };
        Ok(u32::try_from(size).unwrap_or(u32::MAX))
    }

    /// Notes how everything stands on a node.
    ///
    /// # Errors
    /// The database.
    pub async fn note_status(&self, node: &NodeId, status: &Status) -> Result<(), operation::Error> {
        // While it is being noted nothing is certain.
        let earlier = lock(&self.inner.noted).remove(node);
        note_node::note_status(&self.inner.store, (self.inner.clock)(), node, status).await?;
        if let Some(earlier) = earlier {
            let said = note_node::said_digest(&[], status);
            self.remember(node, Noted { agent_version: earlier.agent_version, said });
        }
        Ok(())
    }

    fn remember(&self, node: &NodeId, noted: Noted) {
        if !self.inner.store.is_shared() {
            lock(&self.inner.noted).insert(node.clone(), noted);
        }
    }
}
