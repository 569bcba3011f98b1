//! What a server takes into its memory when it starts: every node, so that a fleet that comes back at once
//! is answered without a question to the database for each.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::plugin_set::Scope;
use proto::convert::Content;

use super::greeting::Noted;
use super::{Error, Fleet, Known, lock, part};
use crate::operation::load_nodes::{LoadedNode, load_nodes};
use crate::server::Chain;

/// Nodes whose parts are signed before others get the processor: some 10 ms.
const SIGNED_AT_ONCE: usize = 100;

impl Fleet {
    /// Reads every node. What cannot be read is read again when its node connects.
    pub(super) async fn warm(&self) {
        let loaded = match load_nodes(&self.inner.store).await {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the nodes could not be read ahead");
                return;
            }
        };
        self.inner.size.store(loaded.len() as u64, Ordering::Relaxed);
        for (index, node) in loaded.into_iter().enumerate() {
            if index % SIGNED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            if let Err(error) = self.take_in(node) {
                tracing::warn!(error = %Chain(&error), "a node could not be taken in");
            }
        }
    }

    fn take_in(&self, node: LoadedNode) -> Result<(), Error> {
        let id = node.record.id.clone();
        if lock(&self.inner.known).contains_key(&id) {
            return Ok(());
        }
        let scope = Scope::Node(id.clone());
        let content = Content::Grants(node.grants);
        let draft = part::Draft::new(scope.clone(), node.position, &content);
        let grants = draft
            .sign(&self.inner.signer, (self.inner.clock)(), None)
            .map_err(|source| Error::Sign { scope, part: domain::plugin_set::Part::Grants, source })?;
        let noted = Noted { agent_version: node.record.agent_version.as_str().into(), said: node.said };
        lock(&self.inner.noted).entry(id.clone()).or_insert(noted);
        let known = Known { record: node.record, grants: Arc::new(grants) };
        lock(&self.inner.known).entry(id).or_insert_with(|| Arc::new(known));
        Ok(())
    }
}
