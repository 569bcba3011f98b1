//! What one node's stream says and hears, decided without I/O: messages, changes and the time come
//! in, messages and work to do come out.
//!
//! Carried out by `stream`. Times are milliseconds of the server's monotonic clock. The protocol is
//! that of 30-nodes, 2: a Welcome that confirms what is current, then the other parts in order, one
//! outstanding message for each part, a newer one in place of the one that waits.

pub(super) mod bodies;
mod hello;
mod reports;
mod salvage;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use domain::digest::{Digest, ListingHash};
use domain::id::{BootId, EdgeName, NodeId};
use domain::plugin_set::{Part, Position};
use domain::time::Timestamp;
use prost::Message as _;
use proto::convert::{Acked, Hello, NodeSaid, Refused, Report, Status};
use proto::v1;
use proto::v1::server_message::Message;

use crate::fleet::{Counter, EdgeSet, EncodedPart, FRESH_MS, Farewell, Turn};
use crate::operation::rewind::Proof;
use hello::Step;
use reports::Reports;
pub(super) use salvage::{HeldTrust, Shown};
use watch::Watch;

/// How often a node says that it lives. 10,000 nodes then say so 670 times a second, and a lost
/// acknowledgement heals within it.
pub(super) const HEARTBEAT_MS: u32 = 15_000;

/// What a node says that cannot write, or that lacks bodies which it asked for and was not given: neither is the
/// fault of what was sent, and both pass. When it is sent the part again: a disk that has room again is noticed within
/// 30 s (30-nodes, L1), and so are texts that arrived.
const PASSING: [&str; 2] = ["disk", "bodies"];
const AGAIN_MS: u64 = 10_000;

/// The protocol that this server speaks.
const PROTOCOL: u32 = 1;

/// The plugin set as the stream should send it.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    pub(super) edge: EdgeSet,
    pub(super) grants: Option<Arc<EncodedPart>>,
}

impl Set {
    pub(super) const fn get(&self, part: Part) -> Option<&Arc<EncodedPart>> {
        match part {
            Part::Grants => self.grants.as_ref(),
            Part::Trust | Part::Policy | Part::Plan => self.edge.get(part),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &Arc<EncodedPart>> {
        Part::ALL.into_iter().filter_map(|part| self.get(part))
    }
}

/// What comes in.
#[derive(Debug)]
pub(super) enum Input {
    /// The node said something.
    Said(NodeSaid),
    /// The plugin set may have changed.
    Set(Set),
    /// [`Effect::Admit`] is done: what the Welcome says; a counter for nodes that keep one; whether the Hello is
    /// to be noted again.
    Admitted { session: String, epoch: u64, fleet_size: u32, counter: Option<Counter>, again: bool },
    /// [`Effect::Admit`] is done: the node is turned away.
    Turned(Turn),
    /// [`Effect::NoteAgain`] is done, or failed.
    NotedAgain,
    /// [`Effect::Reload`] or [`Effect::Rewind`] is done.
    Reloaded(Set),
    /// [`Effect::Salvage`] is done: whether the node is to be asked for what it holds.
    Lost(bool),
    /// [`Effect::KeepHeld`] is done, or failed.
    HeldKept,
    /// [`Effect::Record`] is done.
    Recorded(Arc<Report>, Outcome),
    /// [`Effect::StoreTexts`] is done.
    Stored,
    /// [`Effect::Texts`] is done.
    Texts(Vec<Bytes>),
    /// [`Effect::NoteStatus`] is done, or failed.
    StatusNoted(bool),
    /// An effect failed in a way that ends the stream.
    Failed,
    /// The server ends the stream.
    Farewell(Farewell),
    /// Time passed.
    Tick,
}

/// What became of a report.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is durable, or needs not be.
    Done,
    /// These texts are needed first.
    MissingTexts(Vec<ListingHash>),
    /// The database is away.
    Failed,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Output {
    /// Send this encoded message.
    Send(Bytes),
    /// The node has a part.
    Acked(Acked),
    /// The node refused something.
    Refused(Refused),
    /// The node has the counter of this stream on its disk.
    Kept(u64),
    /// Ask the node for those of these that nobody was asked for lately.
    Want(Vec<ListingHash>),
    /// Work that takes a while; one at a time, in order.
    Do(Effect),
    /// End the stream, after what was sent before.
    Close,
}

/// Work that takes a while.
#[derive(Debug)]
pub(super) enum Effect {
    /// Note what the node said of itself.
    Admit(Arc<Hello>),
    /// Note it once more, behind the Welcome: another server may have noted something else.
    NoteAgain(Arc<Hello>),
    /// Read the heads again: the node has a newer one than memory does.
    Reload,
    /// The node has newer ones than the database, validly signed: begin a new epoch, and read the heads.
    Rewind(Vec<Proof>),
    /// Find out whether the trust that the node holds, of an earlier epoch, is lost here.
    Salvage(HeldTrust),
    /// Compare what the node held as approved, which is signed, with what is on record.
    KeepHeld(Box<Shown>),
    /// Record a report.
    Record(BootId, Arc<Report>),
    /// Keep texts that the node sent.
    StoreTexts(Vec<String>),
    /// Find texts that the node needs.
    Texts(Vec<Digest>),
    /// Note how everything stands.
    NoteStatus(Status),
}

/// Who is at the other end, from its certificate.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) fleet: Arc<str>,
    pub(super) edge: EdgeName,
    pub(super) node: NodeId,
    /// The fleet's authorities (certificates, DER), to check heads that the node shows.
    pub(super) authorities: Arc<[Vec<u8>]>,
    /// This run of this server.
    pub(super) server: Arc<str>,
}

#[derive(Debug)]
enum State {
    /// Nothing was heard yet.
    New,
    /// The Hello is being noted.
    Opening { hello: Arc<Hello>, step: Step, admitted: Option<(String, u64, u32)> },
    /// The Welcome was sent; no part is, until it is known what only the node holds.
    Salvaging { held: HeldTrust, asked: Option<u64> },
    /// The Welcome was sent.
    Open,
    /// Nothing more is said.
    Closed,
}

/// What was sent of one part and what is known to be held of it.
#[derive(Debug, Default)]
struct Slot {
    /// The newest that was sent, confirmed as held, or refused as a whole.
    sent: Option<Position>,
    /// Since when it is unacknowledged.
    outstanding: Option<(Position, Digest, u64)>,
    /// When it is to be sent again, since the node could not make it durable.
    again: Option<u64>,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Session {
    identity: Identity,
    state: State,
    boot: Option<BootId>,
    set: Set,
    slots: BTreeMap<Part, Slot>,
    reports: Reports,
    watch: Watch,
    /// The node proved that the database has another trust at the position that it holds.
    forked: bool,
    /// The digest of the status that is noted or being noted.
    status: Option<Digest>,
    /// The session counter that the Welcome carries.
    counter: Option<Counter>,
    /// Bodies that were found for a Need whose texts are still being read.
    answer: Vec<Bytes>,
    wall: Timestamp,
    out: VecDeque<Output>,
}

impl Session {
    /// A stream that was just opened.
    pub(super) fn new(identity: Identity, set: Set, now: u64) -> Self {
        Self {
            identity,
            state: State::New,
            boot: None,
            set,
            slots: BTreeMap::new(),
            reports: Reports::default(),
            watch: Watch::new(now),
            forked: false,
            status: None,
            counter: None,
            answer: Vec::new(),
            wall: Timestamp::default(),
            out: VecDeque::new(),
        }
    }

    /// Takes one input at a time; `wall` goes into what is said of the clock.
    pub(super) fn handle(&mut self, now: u64, wall: Timestamp, input: Input) -> VecDeque<Output> {
        self.wall = wall;
        if !matches!(self.state, State::Closed) {
            self.take(now, input);
            self.retry_reports(now);
            if self.again().is_some_and(|again| again <= now) {
                self.push(now);
            }
            self.give_up_salvage(now);
            self.look_at_the_time(now);
        }
        std::mem::take(&mut self.out)
    }

    /// When to call with [`Input::Tick`] if nothing else comes.
    pub(super) fn deadline(&self) -> u64 {
        let due = self.watch.deadline(self.waiting_since(), self.is_new());
        let due = self.again().map_or(due, |again| again.min(due));
        let due = self.shown_by().map_or(due, |by| by.min(due));
        self.reports.next_retry().map_or(due, |retry| retry.min(due))
    }

    fn take(&mut self, now: u64, input: Input) {
        match input {
            Input::Said(said) => {
                self.watch.heard(now);
                self.said(now, said);
            }
            Input::Set(set) => {
                self.set = set;
                self.push(now);
            }
            Input::Admitted { session, epoch, fleet_size, counter, again } => {
                self.counter = counter;
                self.note_again(again);
                self.admitted(now, (session, epoch, fleet_size));
            }
            Input::Turned(turn) => self.turned(&turn),
            Input::Reloaded(set) => self.reloaded(now, set),
            Input::Lost(is_lost) => self.lost(now, is_lost),
            Input::HeldKept => self.salvaged(now),
            Input::Recorded(report, outcome) => self.recorded(now, &report, outcome),
            Input::Stored => self.record_waiting(now),
            Input::Texts(texts) => {
                let mut bodies = std::mem::take(&mut self.answer);
                bodies.extend(texts);
                self.send_bodies(bodies);
            }
            Input::NotedAgain | Input::StatusNoted(true) | Input::Tick => {}
            Input::StatusNoted(false) => self.status = None,
            Input::Failed => self.goodbye("refused", "the control plane cannot answer now", 1_000),
            Input::Farewell(Farewell::Drain { after_ms }) => {
                self.goodbye("drain", "the server stops", after_ms);
            }
            Input::Farewell(Farewell::Superseded) => {
                self.goodbye("superseded", "this node has a newer stream", 0);
            }
            Input::Farewell(Farewell::Forgotten) => {
                self.goodbye("again", "what this node said was lost on its way to the record", 0);
            }
            Input::Farewell(Farewell::Ended(ending)) => self.turned(&ending.turn()),
        }
    }

    fn said(&mut self, now: u64, said: NodeSaid) {
        match said {
            NodeSaid::Hello(hello) if self.is_new() => self.hello(*hello),
            NodeSaid::Hello(_) => self.goodbye("refused", "a second Hello on one stream", 0),
            _ if self.is_new() => self.goodbye("refused", "the first message was no Hello", 0),
            NodeSaid::Ack(acked) => self.acked(now, acked),
            NodeSaid::Nack(refused) => self.refused(now, refused),
            NodeSaid::Need(digests) => {
                // It makes headway.
                self.slots
                    .values_mut()
                    .filter_map(|slot| slot.outstanding.as_mut())
                    .for_each(|one| one.2 = now);
                self.need(digests);
            }
            NodeSaid::Report(report) => self.report(now, *report),
            NodeSaid::Listings(texts) if !texts.is_empty() => self.perform(Effect::StoreTexts(texts)),
            NodeSaid::Listings(_) => {}
            NodeSaid::HeldPart(update) => self.shown(now, *update),
            NodeSaid::Status(status) => self.note_status(status),
            NodeSaid::Kept(counter) => {
                if self.counter.as_ref().is_some_and(|given| given.value == counter) {
                    self.out.push_back(Output::Kept(counter));
                }
            }
            NodeSaid::Heartbeat(digest) => {
                let want_status = digest != self.status;
                self.send(Message::HeartbeatAck(v1::HeartbeatAck {
                    fresh_ms: fresh_ms(),
                    want_status,
                    clock_ms: self.wall.as_millis(),
                }));
            }
        }
    }

    const fn is_new(&self) -> bool {
        matches!(self.state, State::New)
    }

    /// An older one than what was sent last is late and says nothing; one of something that was
    /// never sent is a node that does not keep to the protocol.
    fn acked(&mut self, now: u64, acked: Acked) {
        let slot = self.slots.entry(acked.part).or_default();
        match slot.outstanding {
            Some((position, digest, _)) if (position, digest) == (acked.position, acked.digest) => {
                slot.outstanding = None;
                self.out.push_back(Output::Acked(acked));
                self.push(now);
            }
            Some((position, ..)) if acked.position < position => {}
            // It was refused at first, such as for want of space, and is durable now.
            None if Some(acked.position) == slot.sent
                && self.set.get(acked.part).is_some_and(|built| {
                    (built.position, built.digest) == (acked.position, acked.digest)
                }) =>
            {
                self.out.push_back(Output::Acked(acked));
            }
            None if Some(acked.position) <= slot.sent => {}
            _ => {
                let reason = format!("{} {} was acknowledged but never sent", acked.part, acked.position);
                self.goodbye("refused", &reason, 1_000);
            }
        }
    }

    /// What is refused is not sent again until it changes: a newer one that waits for it is sent at once.
    /// But a disk that is full, or a body that is not here yet, is not what was sent: that is tried again.
    fn refused(&mut self, now: u64, refused: Refused) {
        let slot = self.slots.entry(refused.part).or_default();
        let is_whole =
            refused.resource.is_none() && slot.outstanding.is_some_and(|(at, ..)| at == refused.position);
        if is_whole {
            slot.outstanding = None;
            slot.again = PASSING.contains(&&*refused.code).then_some(now + AGAIN_MS);
        }
        self.out.push_back(Output::Refused(refused));
        if is_whole {
            self.push(now);
        }
    }

    fn note_status(&mut self, status: Status) {
        let digest = status.digest();
        self.reports.forget_all_but(&status);
        if self.status != Some(digest) {
            self.status = Some(digest);
            self.perform(Effect::NoteStatus(status));
        }
    }

    /// Sends every part that is newer than what was sent, unless one of it is still outstanding.
    fn push(&mut self, now: u64) {
        if !matches!(self.state, State::Open) {
            return;
        }
        for part in Part::ALL {
            let Some(built) = self.set.get(part) else { continue };
            let slot = self.slots.entry(part).or_default();
            let is_new = slot.sent.is_none_or(|sent| sent < built.position);
            let is_again = slot.again.is_some_and(|again| again <= now);
            if slot.outstanding.is_none() && (is_new || is_again) {
                // What was refused is not held, so nothing is left out as known.
                let known = if slot.again.take().is_some() { None } else { slot.sent };
                self.out.push_back(Output::Send(built.message(known)));
                slot.sent = Some(built.position);
                slot.outstanding = Some((built.position, built.digest, now));
            }
        }
    }

    fn again(&self) -> Option<u64> {
        self.slots.values().filter_map(|slot| slot.again).min()
    }

    fn waiting_since(&self) -> Option<u64> {
        self.slots.values().filter_map(|slot| slot.outstanding.map(|(.., since)| since)).min()
    }

    fn look_at_the_time(&mut self, now: u64) {
        match self.watch.look(now, self.waiting_since(), self.is_new()) {
            watch::Verdict::Fine => {}
            watch::Verdict::Ping => self.send(Message::Ping(v1::Ping {})),
            watch::Verdict::Gone => self.close(),
        }
    }

    fn goodbye(&mut self, code: &str, reason: &str, reconnect_after_ms: u32) {
        let challenge = Vec::new();
        let (code, reason) = (code.to_owned(), reason.to_owned());
        self.send(Message::Goodbye(v1::Goodbye { code, reason, reconnect_after_ms, challenge }));
        self.close();
    }

    fn turned(&mut self, turn: &Turn) {
        self.send(Message::Goodbye(goodbye_of(turn)));
        self.close();
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.out.push_back(Output::Close);
    }

    fn perform(&mut self, effect: Effect) {
        self.out.push_back(Output::Do(effect));
    }

    fn send(&mut self, message: Message) {
        self.out.push_back(Output::Send(encode(message)));
    }
}

/// What somebody who is turned away is told.
pub(super) fn goodbye_of(turn: &Turn) -> v1::Goodbye {
    v1::Goodbye {
        code: turn.code.to_owned(),
        reason: turn.reason.as_ref().to_owned(),
        reconnect_after_ms: turn.after_ms,
        challenge: turn.challenge.clone(),
    }
}

/// An encoded message.
pub(super) fn encode(message: Message) -> Bytes {
    v1::ServerMessage { message: Some(message) }.encode_to_vec().into()
}

fn fresh_ms() -> u32 {
    u32::try_from(FRESH_MS).unwrap_or(u32::MAX)
}
