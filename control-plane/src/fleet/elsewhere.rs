//! Which nodes have their streams at other servers of the database: written and read only where there may be any.
//!
//! A server writes once a second which streams came and went, and with the "last seen" of each minute that they
//! are still there. What a killed server wrote ends with that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use domain::id::NodeId;
use domain::time::Timestamp;

use super::{FLUSH_EVERY, Fleet, lock};
use crate::operation::note_node::note_streams;
use crate::store::NodeRecord;

/// Streams that came (true) and went since that was written last.
pub(super) type Moves = Arc<Mutex<BTreeMap<NodeId, bool>>>;

/// How long a stream counts after it was written last that its node was heard of: two flushes and their time.
fn counts_for_ms() -> i64 {
    i64::try_from(FLUSH_EVERY.as_millis()).unwrap_or(i64::MAX).saturating_mul(5) / 2
}

impl Fleet {
    /// Writes which streams came and went.
    pub(super) async fn write_moves(&self) {
        let moves = std::mem::take(&mut *lock(&self.inner.moves));
        if moves.is_empty() || !self.inner.store.is_shared() {
            return;
        }
        let batch: Vec<(NodeId, bool)> = moves.into_iter().collect();
        let now = (self.inner.clock)();
        if let Err(error) = note_streams(&self.inner.store, now, &self.inner.server, &batch).await {
            tracing::warn!(error = %crate::server::Chain(&error), nodes = batch.len(), "where streams are could not be written");
            let mut moves = lock(&self.inner.moves);
            for (node, is_here) in batch {
                moves.entry(node).or_insert(is_here);
            }
        }
    }

    /// This server's name among those of its database, and since when a stream at another must have been heard of.
    pub(super) fn others(&self) -> Option<(&str, Timestamp)> {
        let since = (self.inner.clock)().as_millis().saturating_sub(counts_for_ms());
        self.inner.store.is_shared().then(|| (&*self.inner.server, Timestamp::from_millis(since)))
    }

    /// Whether the node's stream is at another server, as far as is written.
    pub(crate) fn is_at_another_server(&self, node: &NodeRecord) -> bool {
        self.others().is_some_and(|(own, since)| {
            !node.stream.is_empty() && node.stream != own && node.last_seen_at >= Some(since)
        })
    }
}
