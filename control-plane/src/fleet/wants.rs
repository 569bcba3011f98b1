//! Which listing texts some node was asked for, and when: one node at a time, and not the same again and again, since
//! it may have it no longer while others wait to be asked.

use std::collections::{BTreeSet, HashMap};

use domain::digest::ListingHash;
use domain::id::NodeId;

/// After this long the next node is asked.
const NEXT_AFTER_MS: u64 = 2_000;

/// The longest that a node is not asked again.
const AGAIN_AFTER_MAX_MS: u64 = 60_000;

/// Most hashes remembered; beyond it, old ones are forgotten, which costs a question too many.
const REMEMBERED_MAX: usize = 100_000;

/// Most nodes remembered of one hash; beyond it, they may be asked too soon.
const NODES_MAX: usize = 1_000;

/// Who was asked for a text and when, in milliseconds of the server's monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Wants(HashMap<ListingHash, Asked>);

#[derive(Debug, Default)]
struct Asked {
    /// When anybody was.
    last: Option<u64>,
    /// How often each was.
    nodes: HashMap<NodeId, u64>,
}

impl Wants {
    /// Marks and answers those that this node is to be asked for: nobody was lately, and if it was itself, those
    /// that were not have had their turn.
    pub(super) fn claim(&mut self, node: &NodeId, hashes: &[ListingHash], now_ms: u64) -> Vec<ListingHash> {
        if self.0.len() > REMEMBERED_MAX {
            self.0.retain(|_, asked| asked.last.is_some_and(|last| last + NEXT_AFTER_MS > now_ms));
        }
        let free = hashes.iter().filter(|hash| self.0.entry(**hash).or_default().claim(node, now_ms));
        free.copied().collect()
    }

    /// Forgets those that arrived.
    pub(super) fn arrived(&mut self, hashes: &BTreeSet<ListingHash>) {
        for hash in hashes {
            self.0.remove(hash);
        }
    }
}

impl Asked {
    fn claim(&mut self, node: &NodeId, now_ms: u64) -> bool {
        let times = self.nodes.get(node).copied().unwrap_or_default();
        let wait = NEXT_AFTER_MS.saturating_mul(times + 1).min(AGAIN_AFTER_MAX_MS);
        if self.last.is_some_and(|last| last + wait > now_ms) {
            return false;
        }
        if self.nodes.len() >= NODES_MAX {
            self.nodes.clear();
        }
        self.last = Some(now_ms);
        self.nodes.insert(node.clone(), times + 1);
        true
    }
}
