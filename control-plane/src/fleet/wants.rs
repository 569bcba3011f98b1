//! Which listing texts some node was asked for, and when: one node at a time.

use std::collections::{BTreeSet, HashMap};

use domain::digest::ListingHash;

/// After this long the next node is asked.
const NEXT_AFTER_MS: u64 = 2_000;

/// Most hashes remembered; beyond it, old ones are forgotten, which costs a question too many.
const REMEMBERED_MAX: usize = 100_000;

/// When somebody was asked for a text, in milliseconds of the server's monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Wants(HashMap<ListingHash, u64>);

impl Wants {
    /// Marks and answers those that nobody was asked for lately.
    pub(super) fn claim(&mut self, hashes: &[ListingHash], now_ms: u64) -> Vec<ListingHash> {
        if self.0.len() > REMEMBERED_MAX {
            self.0.retain(|_, asked| *asked + NEXT_AFTER_MS > now_ms);
        }
        let free = hashes.iter().filter(|hash| {
            let asked = self.0.get(hash);
            asked.is_none_or(|asked| *asked + NEXT_AFTER_MS <= now_ms)
        });
        let free: Vec<ListingHash> = free.copied().collect();
        self.0.extend(free.iter().map(|hash| (*hash, now_ms)));
        free
    }

    /// Forgets those that arrived.
    pub(super) fn arrived(&mut self, hashes: &BTreeSet<ListingHash>) {
        for hash in hashes {
            self.0.remove(hash);
        }
    }
}
