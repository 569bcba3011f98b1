//! One session of the stream, without the stream: messages and the clock go in, messages and orders
//! come out (30-nodes, 2). Pure, so that every order of events can be tried.
//!
//! The shell around it is [`super::stream`]. What is held, and which parts were confirmed in this boot,
//! outlives a session and is given to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use domain::digest::{Digest, ListingHash};
use domain::id::PluginName;
use domain::plugin_set::{Head, Part};
use domain::time::Timestamp;
use proto::convert::{self, Acked, Content, NodeSaid, Refused, Status};
use proto::v1::{self, server_message::Message};

use super::parts::{Arrived, Me, Pending, arrive, refused};
use crate::ledger::{HeldPart, Verify};

/// Nothing heard for so long, while the node refuses something that a person can approve: the link is
/// asked whether it lives. With the next limit an approval costs 8 s at most over a half-open link.
const QUIET_WAITING_MS: u64 = 3_000;

/// The same while nobody waits: below what proxies take for an idle connection.
const QUIET_IDLE_MS: u64 = 20_000;

/// How long the answer to that may take.
const ANSWER_MS: u64 = 5_000;

/// How long after a part could not be made durable that is tried again: a disk that has room again is
/// noticed well within 30 s (30-nodes, L1).
const STORE_AGAIN_MS: u64 = 5_000;

/// The shortest span between two heartbeats, however short an edge's freshness is.
const BEAT_LEAST_MS: u64 = 500;

/// A heartbeat's span until the server names one.
const HEARTBEAT_MS: u64 = 10_000;

/// What outlives a session: the parts held, and those confirmed in this boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) parts: BTreeMap<Part, Arc<HeldPart>>,
    pub(crate) confirmed: BTreeSet<Part>,
}

/// An order to the shell.
#[derive(Debug)]
pub(crate) enum Order {
    /// Send this.
    Send(NodeSaid),
    /// Make the part durable, then call [`Session::stored`].
    Store(Box<Storing>),
    /// The part is durable and says this from now on.
    Apply(Arc<HeldPart>, Box<Content>),
    /// The part was confirmed on a stream of this boot; whether that makes the set whole is in
    /// [`Held::confirmed`].
    Confirmed,
    /// The server answered Hello: everything that is reported level-triggered is sent now.
    Opened {
        /// Nodes in the fleet.
        fleet_size: u32,
        /// The epoch of the server's database.
        epoch: u64,
        /// The run of the server; empty of earlier releases.
        server: String,
    },
    /// The server said its time, and how long that counts as fresh.
    Heard {
        /// Its clock.
        clock: Timestamp,
        /// Milliseconds.
        fresh_ms: u64,
    },
    /// Make this session counter durable, in place of the one before; then the server is told that it is.
    KeepCounter(Vec<u8>),
    /// Show this in the next Hello.
    Challenge(Vec<u8>),
    /// The server has the report of this sequence.
    Reported(u64),
    /// The server wants texts of listings.
    WantListings(Vec<ListingHash>),
    /// The server wants the status.
    WantStatus,
    /// Something odd for the log.
    Warn(String),
    /// The session is over.
    Close(Closed),
}

/// A part that is to be made durable.
#[derive(Debug)]
pub(crate) struct Storing {
    pub(crate) part: HeldPart,
    content: Content,
    refused: Vec<Refused>,
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The server said so.
    Goodbye {
        /// Its code.
        code: String,
        /// Its reason.
        reason: String,
        /// When to come back, if it says.
        reconnect_after_ms: u64,
    },
    /// Nothing was heard for too long: reconnect at once.
    Silent,
    /// The server does not keep to the protocol.
    Broken(String),
}

/// One session.
pub(crate) struct Session {
    me: Me,
    verify: Arc<Verify>,
    pub(crate) held: Held,
    pending: BTreeMap<Part, Pending>,
    /// Parts that could not be made durable, and when that is tried again.
    unstored: BTreeMap<Part, (Storing, u64)>,
    now_ms: u64,
    welcome: bool,
    heard_ms: u64,
    /// Since when an answer to a probe is due.
    probed_ms: Option<u64>,
    heartbeat_ms: u64,
    /// What heartbeats are for: the edge's freshness, which three of them must fit into.
    fresh_for_ms: u64,
    beat_due_ms: u64,
    status: Option<Digest>,
}

impl Session {
    /// A session whose Hello was sent at `now_ms` (the node's monotonic clock).
    pub(crate) fn new(me: Me, verify: Arc<Verify>, held: Held, status: &Status, now_ms: u64) -> Self {
        Self {
            me,
            verify,
            held,
            pending: BTreeMap::new(),
            unstored: BTreeMap::new(),
            now_ms,
            welcome: false,
            heard_ms: now_ms,
            probed_ms: None,
            heartbeat_ms: HEARTBEAT_MS,
            fresh_for_ms: u64::MAX,
            beat_due_ms: now_ms + HEARTBEAT_MS,
            status: Some(status.digest()),
        }
    }

    /// Takes one message of the server.
    pub(crate) fn message(&mut self, message: v1::ServerMessage, now_ms: u64) -> Vec<Order> {
        (self.now_ms, self.heard_ms) = (now_ms, now_ms);
        self.probed_ms = None;
        // A message of a later release is passed over.
        let Some(message) = message.message else { return Vec::new() };
        match message {
            Message::Welcome(welcome) => self.welcomed(&welcome, now_ms),
            Message::Goodbye(goodbye) => vec![
                Order::Challenge(goodbye.challenge),
                Order::Close(Closed::Goodbye {
                    code: goodbye.code,
                    reason: goodbye.reason,
                    reconnect_after_ms: u64::from(goodbye.reconnect_after_ms),
                }),
            ],
            _ if !self.welcome => {
                vec![Order::Close(Closed::Broken("it sent something before its Welcome".to_owned()))]
            }
            Message::Part(update) => self.part(update),
            Message::Bodies(bodies) => self.bodies(&bodies.bodies),
            Message::WantListings(want) => match convert::digests("WantListings.hashes", &want.hashes) {
                Ok(digests) => {
                    vec![Order::WantListings(digests.into_iter().map(ListingHash::from_digest).collect())]
                }
                Err(error) => vec![Order::Warn(error.to_string())],
            },
            Message::ReportAck(ack) => vec![Order::Reported(ack.sequence)],
            Message::HeartbeatAck(ack) => {
                let heard = heard(ack.clock_ms, ack.fresh_ms);
                heard.into_iter().chain(ack.want_status.then_some(Order::WantStatus)).collect()
            }
            Message::Ping(_) => vec![self.beat(now_ms)],
            Message::WantHeld(want) => self.show_held(want),
        }
    }

    /// Looks at the clock. `waiting`: whether the node refuses something that a person can approve.
    pub(crate) fn tick(&mut self, now_ms: u64, waiting: bool) -> Vec<Order> {
        self.now_ms = now_ms;
        let mut orders = self.store_again(now_ms);
        orders.extend(self.watch(now_ms, waiting));
        orders
    }

    fn store_again(&mut self, now_ms: u64) -> Vec<Order> {
        let due = self.unstored.extract_if(.., |_, (_, due)| *due <= now_ms);
        due.map(|(_, (storing, _))| Order::Store(Box::new(storing))).collect()
    }

    fn watch(&mut self, now_ms: u64, waiting: bool) -> Vec<Order> {
        if let Some(probed) = self.probed_ms {
            if now_ms.saturating_sub(probed) >= ANSWER_MS {
                return vec![Order::Close(Closed::Silent)];
            }
        } else if now_ms.saturating_sub(self.heard_ms) >= quiet_ms(waiting) {
            self.probed_ms = Some(now_ms);
            return vec![self.beat(now_ms)];
        }
        if self.welcome && now_ms >= self.beat_due_ms { vec![self.beat(now_ms)] } else { Vec::new() }
    }

    /// When to look at the clock again.
    pub(crate) fn next_tick_ms(&self, waiting: bool) -> u64 {
        let watch = match self.probed_ms {
            Some(probed) => probed + ANSWER_MS,
            None => self.heard_ms + quiet_ms(waiting),
        };
        let again = self.unstored.values().map(|(_, due)| *due).min().unwrap_or(u64::MAX);
        if self.welcome { watch.min(self.beat_due_ms).min(again) } else { watch }
    }

    /// What is heard counts as fresh for so long: of three heartbeats two may be lost.
    pub(crate) fn fresh_for(&mut self, ms: u64) {
        self.fresh_for_ms = ms;
        self.beat_due_ms = self.beat_due_ms.min(self.now_ms + self.beat_ms());
    }

    fn beat_ms(&self) -> u64 {
        self.heartbeat_ms.min((self.fresh_for_ms / 3).max(BEAT_LEAST_MS))
    }

    /// Refuses a resource of `plan` that is held: its bundle is not what it says.
    pub(crate) fn refuse_plan(&self, plugin: &PluginName, reason: &str) -> Option<NodeSaid> {
        let part = self.held.parts.get(&Part::Plan)?;
        let (name, digest) = part.content.manifest.0.get_key_value(plugin.as_str())?;
        let resource = Some((Arc::clone(name), *digest));
        Some(NodeSaid::Nack(Refused { resource, ..refused(&part.head, "plan_mismatch", reason.to_owned()) }))
    }

    /// The digest of the status that was sent last.
    pub(crate) const fn status(&self) -> Option<Digest> {
        self.status
    }

    /// The status was sent: heartbeats name its digest from now on.
    pub(crate) fn status_sent(&mut self, status: &Status) {
        self.status = Some(status.digest());
    }

    /// The part is durable, or could not be made so.
    pub(crate) fn stored(&mut self, storing: Storing, result: Result<(), String>) -> Vec<Order> {
        let Storing { part, content, refused: bad } = storing;
        let head = part.head.clone();
        if let Err(reason) = result {
            // The server does not send again what was refused; it is here, and waits for the disk.
            let storing = Storing { part, content, refused: bad };
            self.unstored.insert(head.part, (storing, self.now_ms + STORE_AGAIN_MS));
            return vec![Order::Send(NodeSaid::Nack(refused(&head, "disk", reason)))];
        }
        self.unstored.remove(&head.part);
        let part = Arc::new(part);
        self.held.parts.insert(head.part, Arc::clone(&part));
        self.held.confirmed.insert(head.part);
        let mut orders = vec![Order::Apply(part, Box::new(content)), Order::Confirmed];
        orders.extend(bad.into_iter().map(|refused| Order::Send(NodeSaid::Nack(refused))));
        orders.push(ack(&head));
        orders
    }

    fn welcomed(&mut self, welcome: &v1::Welcome, now_ms: u64) -> Vec<Order> {
        if self.welcome {
            return vec![Order::Close(Closed::Broken("it sent a second Welcome".to_owned()))];
        }
        self.welcome = true;
        if welcome.heartbeat_ms > 0 {
            self.heartbeat_ms = u64::from(welcome.heartbeat_ms);
        }
        self.beat_due_ms = now_ms + self.beat_ms();
        let mut orders = vec![Order::Opened {
            fleet_size: welcome.fleet_size,
            epoch: welcome.epoch,
            server: welcome.server.clone(),
        }];
        orders.extend(heard(welcome.clock_ms, welcome.fresh_ms));
        if !welcome.counter.is_empty() {
            orders.push(Order::KeepCounter(welcome.counter.clone()));
        }
        for number in &welcome.current {
            match convert::part("Welcome.current", *number) {
                Ok(part) if self.held.parts.contains_key(&part) => {
                    self.held.confirmed.insert(part);
                }
                Ok(part) => orders.push(Order::Warn(format!("it confirms {part}, of which nothing is held"))),
                Err(error) => orders.push(Order::Warn(error.to_string())),
            }
        }
        orders.push(Order::Confirmed);
        orders
    }

    /// What is held of a part, as it came. The control plane lost it, and may learn it from here.
    fn show_held(&self, want: v1::WantHeld) -> Vec<Order> {
        let held = convert::part("WantHeld.part", want.part).ok().and_then(|part| self.held.parts.get(&part));
        // Nothing held is an answer too: somebody waits for it.
        let update = held.map(|held| held.as_update()).unwrap_or_default();
        vec![Order::Send(NodeSaid::HeldPart(Box::new(update)))]
    }

    fn part(&mut self, update: v1::PartUpdate) -> Vec<Order> {
        match arrive(update, &self.held.parts, &self.me, &*self.verify) {
            Arrived::Unreadable(reason) => vec![Order::Close(Closed::Broken(reason))],
            Arrived::Refused(refused) => vec![Order::Send(NodeSaid::Nack(refused))],
            Arrived::Held(head) if self.waits_for_newer(&head) => vec![ack(&head)],
            Arrived::Held(head) => {
                // What comes again is older than a newer one that waits for its bodies.
                self.pending
                    .retain(|part, pending| *part != head.part || pending.part.head.position > head.position);
                self.held.confirmed.insert(head.part);
                vec![Order::Confirmed, ack(&head)]
            }
            Arrived::Pending(pending) if self.waits_for_newer(&pending.part.head) => {
                let reason = "a newer one came before it and waits for its bodies or for the disk".to_owned();
                vec![Order::Send(NodeSaid::Nack(refused(&pending.part.head, "outdated", reason)))]
            }
            Arrived::Pending(pending) => {
                let part = pending.part.head.part;
                // A newer update takes the place of one that is not whole yet, and keeps its bodies.
                let earlier = self.pending.remove(&part);
                let mut pending = *pending;
                if let Some(earlier) = earlier {
                    pending.take(earlier.part.content.bodies.into_values());
                    pending.part.texts.extend(earlier.part.texts);
                }
                self.complete(pending)
            }
        }
    }

    /// Whether a newer one of the same part is on its way to the disk: an older one that is said again must not
    /// take its place, since the server says nothing more before the newer is acknowledged.
    fn waits_for_newer(&self, head: &Head) -> bool {
        let pending = self.pending.get(&head.part).map(|pending| pending.part.head.position);
        let unstored = self.unstored.get(&head.part).map(|(storing, _)| storing.part.head.position);
        pending.max(unstored) > Some(head.position)
    }

    fn bodies(&mut self, bodies: &[Bytes]) -> Vec<Order> {
        let mut orders = Vec::new();
        let digests: BTreeSet<Digest> = bodies.iter().map(|body| Digest::of(body)).collect();
        // Another part's bodies say nothing about those that this one waits for; bodies that are
        // nobody's mean that none will come.
        let somebodys = self.pending.values().any(|pending| pending.asked_one_of(&digests));
        for (part, mut pending) in std::mem::take(&mut self.pending) {
            if somebodys && !pending.asked_one_of(&digests) {
                self.pending.insert(part, pending);
                continue;
            }
            pending.take(bodies.iter().cloned());
            orders.extend(self.complete(pending));
        }
        orders
    }

    fn complete(&mut self, mut pending: Pending) -> Vec<Order> {
        let head = pending.part.head.clone();
        match pending.wanted() {
            Err(reason) => vec![Order::Send(NodeSaid::Nack(refused(&head, "bodies", reason)))],
            Ok(wanted) if wanted.is_empty() => {
                let before = self.held.parts.get(&head.part).map(AsRef::as_ref);
                let (part, content, refused) = pending.finish(before);
                vec![Order::Store(Box::new(Storing { part, content, refused }))]
            }
            Ok(wanted) => {
                self.pending.insert(head.part, pending);
                vec![Order::Send(NodeSaid::Need(wanted))]
            }
        }
    }

    fn beat(&mut self, now_ms: u64) -> Order {
        self.beat_due_ms = now_ms + self.beat_ms();
        Order::Send(NodeSaid::Heartbeat(self.status))
    }
}

/// A server that says no time, of an earlier release, says nothing of freshness either.
fn heard(clock_ms: i64, fresh_ms: u32) -> Option<Order> {
    let clock = Timestamp::from_millis(clock_ms);
    (clock_ms != 0).then(|| Order::Heard { clock, fresh_ms: u64::from(fresh_ms) })
}

fn ack(head: &Head) -> Order {
    Order::Send(NodeSaid::Ack(Acked { part: head.part, position: head.position, digest: head.digest }))
}

const fn quiet_ms(waiting: bool) -> u64 {
    if waiting { QUIET_WAITING_MS } else { QUIET_IDLE_MS }
}

#[cfg(test)]
mod tests;
