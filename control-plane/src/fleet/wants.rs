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

/// Most nodes remembered, of all hashes together: some 20 MB. Beyond it, they may be asked too soon.
const NODES_MAX: usize = 200_000;

/// Who was asked for a text and when, in milliseconds of the server's monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Wants {
    hashes: HashMap<ListingHash, Asked>,
    /// Nodes remembered, of all hashes.
    nodes: usize,
}

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
        if self.hashes.len() > REMEMBERED_MAX {
            self.hashes.retain(|_, asked| asked.last.is_some_and(|last| last + NEXT_AFTER_MS > now_ms));
            self.nodes = self.hashes.values().map(|asked| asked.nodes.len()).sum();
        }
        if self.nodes > NODES_MAX {
            self.hashes.values_mut().for_each(|asked| asked.nodes = HashMap::new());
            self.nodes = 0;
        }
        let mut claimed = Vec::new();
        for hash in hashes {
            let asked = self.hashes.entry(*hash).or_default();
            let before = asked.nodes.len();
            if asked.claim(node, now_ms) {
                claimed.push(*hash);
            }
            self.nodes += asked.nodes.len() - before;
        }
        claimed
    }

    /// Forgets those that arrived.
    pub(super) fn arrived(&mut self, hashes: &BTreeSet<ListingHash>) {
        for hash in hashes {
            self.nodes -= self.hashes.remove(hash).map_or(0, |asked| asked.nodes.len());
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
        self.last = Some(now_ms);
        self.nodes.insert(node.clone(), times + 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_nodes_is_bounded_over_all_texts_together() {
        let mut wants = Wants::default();
        let hashes: Vec<ListingHash> =
            (0..1_000).map(|text| ListingHash::of_canonical(&format!("{{\"name\":\"f{text}\"}}"))).collect();
        for (turn, id) in (0..600_u64).zip(1..) {
            let node = NodeId::parse(&format!("n-{id}")).unwrap();
            assert_eq!(wants.claim(&node, &hashes, turn * NEXT_AFTER_MS).len(), hashes.len());
            let remembered: usize = wants.hashes.values().map(|asked| asked.nodes.len()).sum();
            assert_eq!(remembered, wants.nodes);
            assert!(remembered <= NODES_MAX + hashes.len(), "{remembered}");
        }
        wants.arrived(&hashes.into_iter().collect());
        assert_eq!((wants.nodes, wants.hashes.len()), (0, 0));
    }
}
