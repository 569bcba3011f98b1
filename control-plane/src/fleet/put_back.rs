//! A database that was put back under this server while it runs: a backup was restored, or a standby took over that
//! had lagged behind.
//!
//! What memory has was committed before it was built, so a database that says less, read later, lost it. A new epoch
//! says that another server found out. Then nothing in memory counts, and every node is to say Hello anew: what it
//! shows is the proof that the database lost something, and may be all that is left of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::plugin_set::{Part, Position, Scope};

use super::{Edge, Farewell, Fleet, Standing, lock};

impl Fleet {
    /// Where the parts of edges stand in memory.
    pub(super) fn held(&self) -> Vec<Standing> {
        let edges: Vec<Arc<Edge>> = lock(&self.inner.edges).values().cloned().collect();
        let parts = edges.iter().flat_map(|edge| {
            let set = edge.set();
            Part::OF_EDGE.into_iter().filter_map(move |part| {
                let built = set.get(part)?;
                Some((Scope::Edge(edge.name.clone()), part, built.position))
            })
        });
        parts.collect()
    }

    /// Forgets everything and ends all streams if the database was put back; `held` was read before `now` was.
    /// Answers whether it did.
    pub(super) fn starts_over(&self, held: &[Standing], now: &[Standing]) -> bool {
        let Some(why) = put_back(held, now, self.inner.store.is_shared()) else { return false };
        let count = u32::try_from(self.connected_count()).unwrap_or(u32::MAX);
        tracing::error!(nodes = count, "{why}: all nodes are asked anew");
        let edges = std::mem::take(&mut *lock(&self.inner.edges));
        lock(&self.inner.known).clear();
        lock(&self.inner.noted).clear();
        lock(&self.inner.counters).clear();
        lock(&self.inner.grants_seen).clear();
        self.inner.size.store(0, Ordering::Relaxed);
        self.inner.standings.store(0, Ordering::Release);
        for edge in edges.values() {
            edge.signal_all(|own| own.farewell = Some(Farewell::drain(count)));
        }
        true
    }
}

/// Why the database is another than the one that memory was built from; `None` if it is not.
fn put_back(held: &[Standing], now: &[Standing], is_shared: bool) -> Option<&'static str> {
    let now: BTreeMap<(&Scope, Part), Position> =
        now.iter().map(|(scope, part, position)| ((scope, *part), *position)).collect();
    let pairs = held
        .iter()
        .map(|(scope, part, position)| (*position, now.get(&(scope, *part)).copied().unwrap_or_default()));
    let pairs: Vec<(Position, Position)> = pairs.collect();
    if pairs.iter().any(|(held, now)| now < held) {
        return Some("the database is older than it was: it was put back");
    }
    let is_new = pairs.iter().any(|(held, now)| now.epoch > held.epoch);
    (is_shared && is_new).then_some("another server began a new epoch")
}

#[cfg(test)]
mod tests {
    use domain::id::EdgeName;

    use super::*;

    fn at(edge: &str, epoch: u64, generation: u64) -> Standing {
        (Scope::Edge(EdgeName::parse(edge).unwrap()), Part::Trust, Position { epoch, generation })
    }

    #[test]
    fn a_part_that_went_back_or_is_gone_says_that_the_database_was_put_back() {
        let held = [at("a", 1, 4), at("b", 1, 9)];
        for now in [vec![at("a", 1, 3), at("b", 1, 9)], vec![at("a", 1, 4)], Vec::new()] {
            assert!(put_back(&held, &now, false).unwrap().contains("put back"), "{now:?}");
        }
    }

    #[test]
    fn what_is_the_same_or_newer_says_nothing() {
        let held = [at("a", 1, 4), at("b", 1, 9)];
        for now in [held.to_vec(), vec![at("a", 1, 5), at("b", 1, 10), at("c", 1, 1)]] {
            assert_eq!(put_back(&held, &now, true), None);
        }
        assert_eq!(put_back(&[], &held, true), None, "nothing is in memory yet");
    }

    #[test]
    fn an_epoch_that_another_server_began_makes_this_one_start_over_too() {
        let (held, now) = ([at("a", 1, 4)], [at("a", 2, 5)]);
        assert!(put_back(&held, &now, true).unwrap().contains("epoch"));
        assert_eq!(put_back(&held, &now, false), None, "there is no other");
    }
}
