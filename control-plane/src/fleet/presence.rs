//! An edge in memory: its parts, its connected nodes, and what each of them acknowledged.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use domain::digest::Digest;
use domain::id::{EdgeName, NodeId, NodeName};
use domain::plugin_set::{Part, Position};
use domain::time::Timestamp;
use proto::convert::Acked;
use rand::RngExt as _;
use tokio::sync::watch;

use super::{EncodedPart, Ending, lock};
use crate::store::NodeRecord;

/// Reconnects per second that a fleet is asked to keep to: what one core does in TLS handshakes.
const RECONNECTS_PER_SECOND: u32 = 2_000;

/// The parts that all nodes of an edge share.
#[derive(Clone, Debug, Default)]
pub struct EdgeSet {
    trust: Option<Arc<EncodedPart>>,
    policy: Option<Arc<EncodedPart>>,
    plan: Option<Arc<EncodedPart>>,
}

impl EdgeSet {
    /// The part, if it was built and is the edge's.
    pub const fn get(&self, part: Part) -> Option<&Arc<EncodedPart>> {
        match part {
            Part::Trust => self.trust.as_ref(),
            Part::Policy => self.policy.as_ref(),
            Part::Plan => self.plan.as_ref(),
            Part::Grants => None,
        }
    }

    /// Puts in a part of the edge; `grants` is not one.
    pub fn put(&mut self, part: Arc<EncodedPart>) {
        match part.part {
            Part::Trust => self.trust = Some(part),
            Part::Policy => self.policy = Some(part),
            Part::Plan => self.plan = Some(part),
            Part::Grants => {}
        }
    }
}

/// Why a stream is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// The server stops; come back after so many milliseconds.
    Drain {
        /// Drawn for each stream alone.
        after_ms: u32,
    },
    /// The node has a newer stream.
    Superseded,
    /// What the node said is not what is on record: it is to say it again.
    Forgotten,
    /// The node may not work any longer.
    Ended(Ending),
}

impl Farewell {
    /// A time drawn uniformly from what a fleet of that size needs to come back.
    pub fn drain(nodes: u32) -> Self {
        let span = (nodes / RECONNECTS_PER_SECOND).saturating_add(1).saturating_mul(1_000);
        Self::Drain { after_ms: rand::rng().random_range(0..span) }
    }
}

/// What only one stream sees.
#[derive(Clone, Debug)]
pub struct Own {
    /// Its node's own part.
    pub grants: Arc<EncodedPart>,
    /// Set once.
    pub farewell: Option<Farewell>,
}

/// What a stream holds on to; dropped, the node counts as gone (unless a newer stream took over).
#[derive(Debug)]
pub struct Registration {
    /// The node's record when it connected.
    pub record: NodeRecord,
    /// Its edge.
    pub edge: Arc<Edge>,
    /// Changes of the edge's parts.
    pub set: watch::Receiver<EdgeSet>,
    /// Changes of its own part, and the farewell.
    pub own: watch::Receiver<Own>,
    /// Of all streams of this edge since the start, counted.
    pub session: u64,
}

impl Registration {
    /// The node made a part durable.
    pub fn acked(&self, acked: &Acked) {
        self.edge.of_session(self, |stream| stream.acked.insert(acked.part, (acked.position, acked.digest)));
    }

    /// The node was heard of.
    pub fn seen(&self, now: Timestamp) {
        self.edge.of_session(self, |stream| {
            stream.presence.last_seen = now;
            stream.unflushed = true;
        });
    }

    /// The node said how far its clock is from the server's.
    pub fn clock_offset(&self, millis: i64) {
        self.edge.of_session(self, |stream| stream.presence.clock_offset_ms = millis);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.edge.leave(&self.record.id, self.session);
    }
}

/// A connected node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Which node.
    pub node: NodeId,
    /// Its name.
    pub name: NodeName,
    /// Its edge.
    pub edge: EdgeName,
    /// From where.
    pub address: SocketAddr,
    /// Since when.
    pub since: Timestamp,
    /// When it was heard of last.
    pub last_seen: Timestamp,
    /// Its clock less the server's.
    pub clock_offset_ms: i64,
}

/// Who has a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Where the part stands on this server.
    pub position: Position,
    /// Connected nodes that have made that position durable.
    pub acknowledged: usize,
    /// Connected nodes.
    pub connected: usize,
    /// The names of the connected nodes that have not, in order.
    pub waiting: Vec<NodeName>,
}

/// Sets what a stream sees.
pub type Signal = watch::Sender<Own>;

#[derive(Debug)]
struct Stream {
    session: u64,
    presence: Presence,
    acked: BTreeMap<Part, (Position, Digest)>,
    unflushed: bool,
    signal: Signal,
}

/// An edge that nodes connected to since this server started.
#[derive(Debug)]
pub struct Edge {
    /// Its name.
    pub name: EdgeName,
    set: watch::Sender<EdgeSet>,
    streams: Mutex<Streams>,
    moves: super::elsewhere::Moves,
    /// Listing texts that its nodes asked for.
    pub(super) texts: tokio::sync::Mutex<BTreeMap<Digest, Bytes>>,
}

#[derive(Debug, Default)]
struct Streams {
    sessions: u64,
    by_node: HashMap<NodeId, Stream>,
}

impl Edge {
    pub(super) fn new(name: EdgeName, set: EdgeSet, moves: super::elsewhere::Moves) -> Self {
        Self {
            name,
            moves,
            set: watch::Sender::new(set),
            streams: Mutex::default(),
            texts: tokio::sync::Mutex::default(),
        }
    }

    /// Its parts as they are.
    pub fn set(&self) -> EdgeSet {
        self.set.borrow().clone()
    }

    /// Replaces a part and tells all streams, unless what is there is newer.
    pub(super) fn replace(&self, part: Arc<EncodedPart>) {
        self.set.send_if_modified(|set| {
            let held = set.get(part.part).map(|held| held.position);
            if held <= Some(part.position) {
                let position = part.position;
                set.put(part);
                return held < Some(position);
            }
            false
        });
    }

    pub(super) fn register(
        self: &Arc<Self>,
        record: NodeRecord,
        own: Own,
        (address, now): (SocketAddr, Timestamp),
    ) -> Registration {
        let (signal, receiver) = watch::channel(own);
        let mut streams = lock(&self.streams);
        streams.sessions += 1;
        let session = streams.sessions;
        let presence = Presence {
            node: record.id.clone(),
            name: record.name.clone(),
            edge: self.name.clone(),
            address,
            since: now,
            last_seen: now,
            clock_offset_ms: 0,
        };
        let stream = Stream { session, presence, acked: BTreeMap::new(), unflushed: true, signal };
        if let Some(earlier) = streams.by_node.insert(record.id.clone(), stream) {
            earlier.signal.send_modify(|own| own.farewell = Some(Farewell::Superseded));
        }
        lock(&self.moves).insert(record.id.clone(), true);
        drop(streams);
        Registration { record, edge: Arc::clone(self), set: self.set.subscribe(), own: receiver, session }
    }

    fn leave(&self, node: &NodeId, session: u64) {
        let mut streams = lock(&self.streams);
        if streams.by_node.get(node).is_some_and(|stream| stream.session == session) {
            streams.by_node.remove(node);
            lock(&self.moves).insert(node.clone(), false);
        }
    }

    /// Does nothing once a newer stream took over.
    fn of_session<R>(&self, registration: &Registration, change: impl FnOnce(&mut Stream) -> R) {
        let mut streams = lock(&self.streams);
        if let Some(stream) = streams.by_node.get_mut(&registration.record.id)
            && stream.session == registration.session
        {
            change(stream);
        }
    }

    pub(super) fn signal(&self, node: &NodeId, change: impl FnOnce(&mut Own)) {
        if let Some(stream) = lock(&self.streams).by_node.get(node) {
            stream.signal.send_modify(change);
        }
    }

    pub(super) fn signal_all(&self, change: impl Fn(&mut Own)) {
        lock(&self.streams).by_node.values().for_each(|stream| stream.signal.send_modify(&change));
    }

    pub(super) fn connected(&self) -> usize {
        lock(&self.streams).by_node.len()
    }

    pub(super) fn presences(&self) -> Vec<Presence> {
        lock(&self.streams).by_node.values().map(|stream| stream.presence.clone()).collect()
    }

    pub(super) fn presence(&self, node: &NodeId) -> Option<Presence> {
        lock(&self.streams).by_node.get(node).map(|stream| stream.presence.clone())
    }

    pub(super) fn acknowledged_by(&self, node: &NodeId, part: Part) -> Option<Position> {
        let streams = lock(&self.streams);
        streams.by_node.get(node)?.acked.get(&part).map(|(position, _)| *position)
    }

    pub(super) fn acknowledged(&self, part: Part) -> Acknowledged {
        let set = self.set.borrow();
        let position = set.get(part).map(|built| built.position).unwrap_or_default();
        drop(set);
        let streams = lock(&self.streams);
        let has = |stream: &Stream| stream.acked.get(&part).is_some_and(|(acked, _)| *acked >= position);
        let mut waiting: Vec<NodeName> = streams
            .by_node
            .values()
            .filter(|stream| !has(stream))
            .map(|stream| stream.presence.name.clone())
            .collect();
        waiting.sort_unstable();
        let connected = streams.by_node.len();
        Acknowledged { position, acknowledged: connected - waiting.len(), connected, waiting }
    }

    /// Nodes heard of since the last call.
    pub(super) fn take_seen(&self) -> Vec<(NodeId, Timestamp)> {
        let mut streams = lock(&self.streams);
        let seen = |stream: &mut Stream| {
            std::mem::take(&mut stream.unflushed)
                .then(|| (stream.presence.node.clone(), stream.presence.last_seen))
        };
        streams.by_node.values_mut().filter_map(seen).collect()
    }
}
