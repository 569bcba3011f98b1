//! What the nodes of this server hold and are sent: presence, positions, and the fan-out of changes.
//!
//! One pass of [`Fleet::look`] compares where the database stands with what was built, for every edge
//! in memory, and builds each part that is newer once; all streams of the edge send the same bytes.
//! Streams register here (from `grpc`), people read here (through `api`). Nothing of it is stored
//! but "last seen", in batches.

mod copies;
mod elsewhere;
mod ending;
mod greeting;
mod look;
mod part;
mod presence;
mod put_back;
mod standings;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod texts;
mod view;
mod wants;
mod warm;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::digest::ListingHash;
use domain::id::{EdgeName, NodeId};
use domain::plugin_set::{Part, Position, Scope};
use domain::time::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub use copies::{Counter, Judged};
pub use ending::{Ending, Turn};
pub use greeting::Greeted;
pub use part::{EncodedPart, FRESH_MS};
pub use presence::{Acknowledged, Edge, EdgeSet, Farewell, Own, Presence, Registration, Signal};

use crate::operation;
use crate::pki::{self, HeadSigner, Seal};
use crate::store::{NodeRecord, Store};
use greeting::Noted;
use wants::Wants;

/// How often the fan-out looks when nothing wakes it: a lost wake costs a node no more than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Each how many looks everything is compared: heads of all nodes too, which costs what reading the
/// edges' does not. It must find nothing (30-nodes, 3).
const ALL_EACH: u32 = 60;

/// How often "last seen" is written, in one transaction: what `node list` shows may be this old after a
/// crash.
const FLUSH_EVERY: Duration = Duration::from_mins(1);

/// Parts that are built at once: a change that concerns every edge is with all of them in the time of
/// a few, and the readers of the database are not all taken.
const BUILDS_AT_ONCE: usize = 3;

/// Nodes whose words are read from or written to the database at once. A whole fleet may report in the
/// same second; whoever approves then waits behind these, not behind thousands, and finds a reader
/// free.
const TURNS_MAX: usize = 3;

/// Why the fleet's state could not be read or built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database.
    #[error("read the plugin set of {scope}")]
    Load {
        /// Whose.
        scope: Scope,
        /// What went wrong.
        #[source]
        source: operation::Error,
    },
    /// The database, while comparing.
    #[error("read where the parts of all edges stand")]
    Positions(#[source] operation::Error),
    /// The database, while comparing how nodes stand.
    #[error("read how nodes stand")]
    Standings(#[source] operation::Error),
    /// A head could not be signed.
    #[error("sign the head of {part} of {scope}")]
    Sign {
        /// Whose.
        scope: Scope,
        /// Which part.
        part: Part,
        /// What went wrong.
        #[source]
        source: pki::Error,
    },
    /// There is no such edge or node.
    #[error("find {part} of {scope} in the database")]
    Unknown {
        /// Whose.
        scope: Scope,
        /// Which part.
        part: Part,
    },
}

/// What this server knows of its nodes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fleet {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    signer: HeadSigner,
    clock: fn() -> Timestamp,
    random: fn() -> u64,
    edges: Mutex<BTreeMap<EdgeName, Arc<Edge>>>,
    known: Mutex<HashMap<NodeId, Arc<Known>>>,
    wants: Mutex<Wants>,
    /// One look at a time, so that a part is built once however many ask.
    looking: tokio::sync::Mutex<()>,
    /// One new edge at a time, for the same reason.
    building: tokio::sync::Mutex<()>,
    /// Held while the database works for one node.
    turns: Semaphore,
    /// How many nodes the fleet has, as last counted.
    size: AtomicU64,
    /// What each node said of itself last, once it is on record.
    noted: Mutex<HashMap<NodeId, Noted>>,
    /// How far each edge's nodes were looked at.
    grants_seen: Mutex<BTreeMap<EdgeName, Position>>,
    /// What only the full compare found.
    missed: AtomicU64,
    /// This server among those of its database: another name at each start.
    server: Arc<str>,
    /// Which streams came and went, until that is written.
    moves: elsewhere::Moves,
    /// What tells nodes from their copies, beyond the record.
    counters: copies::ByNode,
    /// Seals that; read when the first node connects.
    seal: tokio::sync::OnceCell<Seal>,
    /// How often a node came to stand differently, as of the last look.
    standings: AtomicU64,
}

/// Where a part of a scope stands in the database.
type Standing = (Scope, Part, Position);

/// What is kept of a node between its connections, so that one that is current is answered from
/// memory.
#[derive(Debug)]
struct Known {
    record: NodeRecord,
    grants: Arc<EncodedPart>,
}

impl Fleet {
    /// `clock` is the wall clock, which goes into heads and "last seen"; `random` spreads session counters.
    pub fn new(store: Store, signer: HeadSigner, clock: fn() -> Timestamp, random: fn() -> u64) -> Self {
        let inner = Inner {
            store,
            signer,
            clock,
            random,
            edges: Mutex::default(),
            known: Mutex::default(),
            wants: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            building: tokio::sync::Mutex::default(),
            turns: Semaphore::new(TURNS_MAX),
            size: AtomicU64::new(0),
            noted: Mutex::default(),
            grants_seen: Mutex::default(),
            missed: AtomicU64::new(0),
            server: uuid::Uuid::new_v4().simple().to_string().into(),
            moves: elsewhere::Moves::default(),
            counters: copies::ByNode::default(),
            seal: tokio::sync::OnceCell::new(),
            standings: AtomicU64::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Looks at each wake and each second, and writes "last seen", until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        self.warm().await;
        // How nodes stand may have changed while they were read: the first look reads all of them again.
        self.inner.standings.store(0, std::sync::atomic::Ordering::Release);
        let mut wakes = self.inner.store.wakes();
        let mut flush = tokio::time::interval(FLUSH_EVERY);
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pass: u32 = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                woken = wakes.changed() => {
                    if woken.is_err() {
                        break;
                    }
                }
                _ = look.tick() => {
                    pass = pass.wrapping_add(1);
                    self.write_moves().await;
                }
                _ = flush.tick() => {
                    self.flush().await;
                    continue;
                }
            }
            if let Err(error) = self.look(pass.is_multiple_of(ALL_EACH)).await {
                tracing::warn!(error = %crate::server::Chain(&error), "fan-out could not look");
            }
        }
        self.flush().await;
        self.write_moves().await;
    }

    /// The edge, with all three of its parts built.
    ///
    /// # Errors
    /// There is no such edge, or it cannot be read.
    pub async fn edge(&self, name: &EdgeName) -> Result<Arc<Edge>, Error> {
        if let Some(edge) = lock(&self.inner.edges).get(name) {
            return Ok(Arc::clone(edge));
        }
        let _one_builder = self.inner.building.lock().await;
        if let Some(edge) = lock(&self.inner.edges).get(name) {
            return Ok(Arc::clone(edge));
        }
        let scope = Scope::Edge(name.clone());
        let mut set = EdgeSet::default();
        for part in Part::OF_EDGE {
            set.put(Arc::new(self.build(&scope, part, None).await?));
        }
        let edge = Arc::new(Edge::new(name.clone(), set, Arc::clone(&self.inner.moves)));
        lock(&self.inner.edges).insert(name.clone(), Arc::clone(&edge));
        Ok(edge)
    }

    /// The node's record, from memory or the database; `None` if there is no such node.
    ///
    /// # Errors
    /// The database.
    pub async fn node(&self, id: &NodeId) -> Result<Option<NodeRecord>, Error> {
        Ok(self.known(id).await?.map(|known| known.record.clone()))
    }

    async fn known(&self, id: &NodeId) -> Result<Option<Arc<Known>>, Error> {
        if let Some(known) = lock(&self.inner.known).get(id) {
            return Ok(Some(Arc::clone(known)));
        }
        let _turn = self.turn().await;
        let scope = Scope::Node(id.clone());
        let fault = |source| Error::Load { scope: scope.clone(), source };
        loop {
            let found = operation::find_bundle::counted_record(&self.inner.store, id).await.map_err(fault)?;
            let (counted, Some(record)) = found else { return Ok(None) };
            let grants = Arc::new(self.build(&scope, Part::Grants, None).await?);
            lock(&self.inner.known).insert(id.clone(), Arc::new(Known { record, grants }));
            // A look that passed since they were read did not find them here.
            for (_, _, position) in self.positions(Some(std::slice::from_ref(&scope))).await? {
                self.look_at_grants(id, position).await?;
            }
            if !self.is_late(counted) {
                return Ok(lock(&self.inner.known).get(id).cloned());
            }
            lock(&self.inner.known).remove(id);
        }
    }

    /// Registers a stream of a node: the one before it, if there still is one, is told that it is
    /// superseded. `None` if there is no such node.
    ///
    /// # Errors
    /// The database.
    pub async fn register(&self, id: &NodeId, address: SocketAddr) -> Result<Option<Registration>, Error> {
        let Some(known) = self.known(id).await? else { return Ok(None) };
        let edge = self.edge(&known.record.edge).await?;
        let own = Own { grants: Arc::clone(&known.grants), farewell: None };
        let registration = edge.register(known.record.clone(), own, (address, (self.inner.clock)()));
        // Else a look passed before there was a stream to be told.
        let now = lock(&self.inner.known).get(id).cloned();
        let farewell = match now {
            Some(now) => Ending::of(&now.record)
                .filter(|ending| ending.standing != domain::standing::Standing::Quarantined)
                .map(Farewell::Ended),
            // It is looked up again when it comes back.
            None => Some(Farewell::Forgotten),
        };
        if let Some(farewell) = farewell {
            edge.signal(id, |own| own.farewell = Some(farewell));
        }
        Ok(Some(registration))
    }

    /// Why a node that is not on record is not, if it was removed.
    ///
    /// # Errors
    /// The database.
    pub async fn removed(&self, id: &NodeId) -> Result<Option<Ending>, Error> {
        let _turn = self.turn().await;
        let name = operation::find_bundle::former_node(&self.inner.store, id).await;
        let name = name.map_err(|source| Error::Load { scope: Scope::Node(id.clone()), source })?;
        Ok(name.as_ref().map(Ending::removed))
    }

    /// The name of this run of this server.
    pub(crate) fn server(&self) -> &Arc<str> {
        &self.inner.server
    }

    /// Waits until the database may work for one more node; the wait ends when what is answered is
    /// dropped. Never taken twice by one piece of work.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed, so there is always a turn in the end.
        self.inner.turns.acquire().await.ok()
    }

    /// Of these hashes, those that this node is to be asked for: nobody was asked in the last two
    /// seconds, and it not for longer than that.
    pub fn claim(&self, node: &NodeId, hashes: &[ListingHash], now_ms: u64) -> Vec<ListingHash> {
        lock(&self.inner.wants).claim(node, hashes, now_ms)
    }

    /// These texts arrived: nobody needs to be asked for them.
    pub fn arrived(&self, hashes: &BTreeSet<ListingHash>) {
        lock(&self.inner.wants).arrived(hashes);
    }

    /// Who has a part of an edge, of the nodes that are connected here; `None` if none ever was.
    pub fn acknowledged(&self, edge: &EdgeName, part: Part) -> Option<Acknowledged> {
        let edge = lock(&self.inner.edges).get(edge).cloned()?;
        Some(edge.acknowledged(part))
    }

    /// Nodes that are connected here.
    pub fn connected(&self) -> Vec<Presence> {
        let edges: Vec<Arc<Edge>> = lock(&self.inner.edges).values().cloned().collect();
        edges.iter().flat_map(|edge| edge.presences()).collect()
    }

    /// How many nodes are connected here.
    pub fn connected_count(&self) -> usize {
        lock(&self.inner.edges).values().map(|edge| edge.connected()).sum()
    }

    /// The node's presence, if it is connected here.
    pub fn presence(&self, id: &NodeId) -> Option<Presence> {
        self.edge_of(id)?.presence(id)
    }

    /// The newest position of a part that the node made durable, if it is connected here.
    pub fn acknowledged_by(&self, id: &NodeId, part: Part) -> Option<Position> {
        self.edge_of(id)?.acknowledged_by(id, part)
    }

    fn edge_of(&self, id: &NodeId) -> Option<Arc<Edge>> {
        let known = lock(&self.inner.known).get(id).cloned()?;
        lock(&self.inner.edges).get(&known.record.edge).cloned()
    }

    /// Tells every stream to end, each with its own time to come back, so that they do not all come
    /// at once.
    pub fn drain(&self) {
        let count = u32::try_from(self.connected_count()).unwrap_or(u32::MAX);
        let edges: Vec<Arc<Edge>> = lock(&self.inner.edges).values().cloned().collect();
        for edge in edges {
            edge.signal_all(|own| own.farewell = Some(Farewell::drain(count)));
        }
    }

    /// Writes what is remembered of nodes: when they were heard of, which session counters they have. Where other
    /// servers do so too, reads what they wrote of nodes that are connected here.
    pub async fn flush(&self) {
        let edges: Vec<Arc<Edge>> = lock(&self.inner.edges).values().cloned().collect();
        let seen: Vec<(NodeId, Timestamp)> = edges.iter().flat_map(|edge| edge.take_seen()).collect();
        let kept = self.take_kept();
        let now = (self.inner.clock)();
        if (!seen.is_empty() || !kept.is_empty())
            && let Err(error) = operation::note_node::note_alive(&self.inner.store, now, &seen, &kept).await
        {
            self.put_back(&kept);
            tracing::warn!(error = %crate::server::Chain(&error), nodes = seen.len(), "last seen could not be written");
            return;
        }
        let kept: Vec<NodeId> = kept.into_iter().map(|(node, _)| node).collect();
        if let Err(error) = self.compare_noted(&kept).await {
            tracing::warn!(error = %crate::server::Chain(&error), nodes = kept.len(), "what nodes said could not be compared");
        }
        if let Err(error) = self.end_superseded().await {
            tracing::warn!(error = %crate::server::Chain(&error), "newer streams could not be looked for");
        }
    }
}

/// What the watchers of an edge's parts see.
pub type SetReceiver = watch::Receiver<EdgeSet>;

/// None of the maps is left half-changed by a panic, so a poisoned lock is taken as it is.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
