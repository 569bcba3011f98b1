//! Tells nodes from their copies as they connect (`domain::clone`), with what this server remembers and what is
//! on record.
//!
//! What a node acknowledged is remembered here at once and written in batches. A server that forgot, or that
//! reads an older record, lets a copy pass for a while and never accuses the node itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use domain::clone::{Known, Succession, Verdict, judge, next};
use domain::id::NodeId;
use domain::plugin_set::Scope;
use domain::standing::Standing;
use proto::convert::Hello;

use super::ending::{Ending, Turn};
use super::{Error, Farewell, Fleet, lock};
use crate::operation::find_bundle::{counters, session_key};
use crate::operation::quarantine::{SeenSession, quarantine};
use crate::pki::Seal;
use crate::store::NodeRecord;

/// A node's counters as this server knows them beyond the record.
#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    acknowledged: u64,
    issued: u64,
    /// The session that was welcomed last.
    last: Option<SeenSession>,
    unflushed: bool,
}

/// What a Hello is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// It goes on; with a counter for its next Hello, unless it keeps none.
    Right(Option<Counter>),
    /// It does not.
    Turned(Turn),
}

/// A counter that a node is to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Itself.
    pub value: u64,
    /// Where the session stands that it was given in.
    pub session: Succession,
    /// As the node gets it.
    pub sealed: Vec<u8>,
}

impl Fleet {
    /// Judges who says this Hello.
    ///
    /// # Errors
    /// The database.
    pub(super) async fn judge(&self, node: &NodeId, address: &str, hello: &Hello) -> Result<Judged, Error> {
        let Some(record) = self.node(node).await? else { return Ok(Judged::Turned(Turn::unknown())) };
        let Some(proof) = &hello.session else {
            return Ok(match Ending::of(&record) {
                Some(ending) => Judged::Turned(ending.turn()),
                None => Judged::Right(None),
            });
        };
        let seal = self.seal(node).await?;
        let now = (self.inner.clock)();
        let presented = seal.open_counter(node, &proof.counter).unwrap_or(0);
        let (boot, address) = (hello.boot.to_string(), address.to_owned());
        let seen = SeenSession { counter: presented, boot, address, at: now };
        if let Some(ending) = Ending::of(&record) {
            if record.standing.standing == Standing::Quarantined {
                self.found_copies(node, &[seen]).await?;
            }
            return Ok(Judged::Turned(ending.turn()));
        }
        let repeats = seal.is_challenge(node, &proof.challenge, now);
        let (known, issued, last) = self.known_counters(&record);
        match judge(&known, presented, repeats) {
            Verdict::Right => {
                let value = next(&known, presented, issued, (self.inner.random)());
                let mut counters = lock(&self.inner.counters);
                let counters = counters.entry(node.clone()).or_default();
                (counters.issued, counters.last) = (value, Some(seen));
                let (session, sealed) = (Succession::opened(presented, value), seal.counter(node, value));
                Ok(Judged::Right(Some(Counter { value, session, sealed })))
            }
            Verdict::Ask => Ok(Judged::Turned(Turn::repeat(seal.challenge(node, now)))),
            Verdict::NotKept => Ok(Judged::Turned(Turn::not_kept(&record.name))),
            Verdict::Copy => {
                tracing::warn!(node.id = %node, node.name = %record.name, "copies of a node were seen");
                let other = last.unwrap_or_else(|| SeenSession {
                    counter: known.acknowledged,
                    boot: String::new(),
                    address: String::new(),
                    at: record.last_seen_at.unwrap_or(now),
                });
                let other = SeenSession { counter: known.acknowledged, ..other };
                self.found_copies(node, &[other, seen]).await?;
                self.look_at_standings().await?;
                let record = self.node(node).await?.unwrap_or(record);
                Ok(Judged::Turned(Ending::of(&record).map_or_else(Turn::unknown, |ending| ending.turn())))
            }
        }
    }

    /// The node has this counter on its disk.
    pub fn counter_kept(&self, node: &NodeId, counter: u64) {
        let mut counters = lock(&self.inner.counters);
        let counters = counters.entry(node.clone()).or_default();
        if counters.acknowledged < counter {
            (counters.acknowledged, counters.unflushed) = (counter, true);
        }
        if let Some(last) = &mut counters.last {
            last.counter = counter;
        }
    }

    /// Whether what a session of a node says still counts, as far as this server knows.
    pub(super) fn counts(&self, node: &NodeId, session: Option<Succession>) -> bool {
        let counters = lock(&self.inner.counters);
        let acknowledged = counters.get(node).map_or(0, |counters| counters.acknowledged);
        session.is_none_or(|session| session.counts(acknowledged))
    }

    /// What was acknowledged since the last call.
    pub(super) fn take_kept(&self) -> Vec<(NodeId, u64)> {
        let mut counters = lock(&self.inner.counters);
        let kept = counters.iter_mut().filter_map(|(node, counters)| {
            std::mem::take(&mut counters.unflushed).then(|| (node.clone(), counters.acknowledged))
        });
        kept.collect()
    }

    /// These could not be written.
    pub(super) fn put_back(&self, kept: &[(NodeId, u64)]) {
        let mut counters = lock(&self.inner.counters);
        for (node, _) in kept {
            if let Some(counters) = counters.get_mut(node) {
                counters.unflushed = true;
            }
        }
    }

    /// Ends streams whose nodes have a newer one on another server: that has given out a later counter. A node
    /// whose old stream was only half open loses nothing; of two copies the one that is ended shows, when it comes
    /// back, less than was acknowledged.
    ///
    /// # Errors
    /// The database.
    pub(super) async fn end_superseded(&self) -> Result<(), Error> {
        if !self.inner.store.is_shared() {
            return Ok(());
        }
        for (node, acknowledged) in counters(&self.inner.store).await.map_err(Error::Standings)? {
            let is_behind = |counters: &Counters| (1..acknowledged).contains(&counters.issued);
            if !lock(&self.inner.counters).get(&node).is_some_and(is_behind) {
                continue;
            }
            let edge = lock(&self.inner.known).get_mut(&node).map(|known| {
                let mut record = known.record.clone();
                record.known.acknowledged = acknowledged.max(record.known.acknowledged);
                *known = Arc::new(super::Known { record, grants: Arc::clone(&known.grants) });
                known.record.edge.clone()
            });
            let edge = edge.and_then(|edge| lock(&self.inner.edges).get(&edge).cloned());
            if let Some(edge) = edge {
                edge.signal(&node, |own| own.farewell = Some(Farewell::Superseded));
            }
        }
        Ok(())
    }

    /// Another record of the node counts from now on, and nothing that is remembered beside it.
    pub(super) fn forget_counters(&self, node: &NodeId) {
        lock(&self.inner.counters).remove(node);
    }

    fn known_counters(&self, record: &NodeRecord) -> (Known, u64, Option<SeenSession>) {
        let counters = lock(&self.inner.counters).get(&record.id).cloned().unwrap_or_default();
        let acknowledged = record.known.acknowledged.max(counters.acknowledged);
        (Known { acknowledged, ..record.known }, counters.issued, counters.last)
    }

    async fn found_copies(&self, node: &NodeId, seen: &[SeenSession]) -> Result<(), Error> {
        let _turn = self.turn().await;
        let now = (self.inner.clock)();
        let fault = |source| Error::Load { scope: Scope::Node(node.clone()), source };
        quarantine(&self.inner.store, now, node, seen).await.map_err(fault)
    }

    async fn seal(&self, node: &NodeId) -> Result<&Seal, Error> {
        let fault = |source| Error::Load { scope: Scope::Node(node.clone()), source };
        let seal = self.inner.seal.get_or_try_init(|| async {
            let key = session_key(&self.inner.store).await.map_err(fault)?;
            Ok(Seal::new(key, Arc::clone(self.inner.signer.fleet())))
        });
        seal.await
    }
}

/// As the fleet keeps them.
pub(super) type ByNode = Mutex<HashMap<NodeId, Counters>>;
