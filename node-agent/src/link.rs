//! The stream to the control plane: connects, keeps it up, and carries what comes to where it belongs
//! (30-nodes, 2).
//!
//! What is said when is decided in [`session`], without a stream; here it is sent, received, made
//! durable and handed on: parts to the supervisor and the reconciler, acknowledgements to the spool.

pub(crate) mod connect;
mod parts;
mod retry;
mod session;
mod waiting;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use domain::digest::ListingHash;
use domain::id::{BootId, PluginVersion};
use domain::plugin_set::Part;
use proto::convert::{Content, Hello, MESSAGE_MAX, NodeSaid, Status};
use proto::v1;
use proto::v1::fleet_client::FleetClient;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::guard::{Guard, Runtime};
use crate::identity::Identity;
use crate::ledger::{HeldPart, Ledger};
use crate::reconciler::PluginSet;
use crate::reliance::Reliance;
use crate::spool::Spool;
use crate::supervisor::{Applied, Supervisor};
use parts::Me;
use retry::Retry;
use session::{Closed, Held, Order, Session};
use waiting::waits_for_a_person;

/// The protocol that this node speaks.
const PROTOCOL: u32 = 1;

/// Messages on their way into HTTP/2; more wait in order here.
const OUTBOX: usize = 16;

/// For the answer to the opening of a stream: what a server under load may take, and a retry follows.
const OPENING: Duration = Duration::from_secs(20);

/// Bytes of listing texts in one message, far below what a message may have.
const TEXTS_AT_ONCE: usize = 4 * 1024 * 1024;

/// What the link works with.
pub(crate) struct Link {
    pub(crate) identity: Arc<Identity>,
    pub(crate) boot: BootId,
    pub(crate) ledger: Ledger,
    pub(crate) guard: Arc<Guard>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) reliance: Arc<Reliance>,
    pub(crate) set: Arc<watch::Sender<Arc<PluginSet>>>,
    pub(crate) status: watch::Receiver<Status>,
    /// On the disk when the agent started.
    pub(crate) versions: Vec<PluginVersion>,
    held: Held,
}

/// What the link is made of, but for what it holds.
pub(crate) struct Parts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) reliance: Arc<Reliance>,
    pub(crate) set: Arc<watch::Sender<Arc<PluginSet>>>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) versions: Vec<PluginVersion>,
}

/// How a session went.
enum Ended {
    Stopped,
    Closed(Closed),
    /// The stream ended or broke.
    Stream(String),
    /// There was none.
    Connect(String),
}

/// The sending half of an open stream.
struct Wire {
    session: Session,
    sender: mpsc::Sender<v1::NodeMessage>,
    outbox: VecDeque<v1::NodeMessage>,
    /// The sequence of the newest report that was sent on this stream.
    reported: u64,
    opened: bool,
    fleet_size: u32,
}

impl Link {
    /// A link that holds what the ledger had.
    pub(crate) fn new(parts: Parts, boot: BootId, ledger: Ledger, found: crate::ledger::Found) -> Self {
        let Parts { identity, guard, runtime, supervisor, spool, reliance, set, status, versions } = parts;
        let mut link = Self {
            identity,
            boot,
            ledger,
            guard,
            runtime,
            supervisor,
            spool,
            reliance,
            set,
            status,
            versions,
            held: Held::default(),
        };
        for (part, held) in found.parts {
            link.apply(&held, held.read());
            link.held.parts.insert(part, Arc::new(held));
        }
        if Part::ALL.iter().all(|part| link.held.parts.contains_key(part)) {
            link.reliance.is_stored();
        }
        link
    }

    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut retry = Retry::default();
        loop {
            let ended = self.session(&stop, &mut retry).await;
            let delay_ms = match &ended {
                Ended::Stopped => return,
                Ended::Closed(closed) => retry.after_close(closed, rand::random()),
                Ended::Stream(_) => retry.after_stream(rand::random()),
                Ended::Connect(_) => retry.after_failure(rand::random()),
            };
            self.log(&ended, delay_ms);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(delay_ms)) => {}
            }
        }
    }

    fn log(&self, ended: &Ended, delay_ms: u64) {
        let server = &self.identity.address;
        match ended {
            Ended::Stopped => {}
            Ended::Closed(Closed::Goodbye { code, reason, .. }) => {
                tracing::info!(server.address = %server, code, reason, delay_ms, "the control plane ended the stream");
            }
            Ended::Closed(Closed::Silent) => {
                tracing::warn!(server.address = %server, delay_ms, "the control plane fell silent");
            }
            Ended::Closed(Closed::Broken(reason)) => {
                tracing::error!(server.address = %server, reason, delay_ms, "the control plane broke the protocol");
            }
            Ended::Stream(reason) => {
                tracing::warn!(server.address = %server, reason, delay_ms, "the stream to the control plane broke");
            }
            Ended::Connect(reason) => {
                tracing::warn!(server.address = %server, reason, delay_ms, "the control plane cannot be reached");
            }
        }
    }

    async fn session(&mut self, stop: &CancellationToken, retry: &mut Retry) -> Ended {
        let opening = self.open();
        let (mut wire, mut stream) = tokio::select! {
            () = stop.cancelled() => return Ended::Stopped,
            opened = tokio::time::timeout(OPENING, opening) => match opened {
                Ok(Ok(opened)) => opened,
                Ok(Err(reason)) => return Ended::Connect(reason),
                Err(_) => return Ended::Connect(format!("no answer within {} s", OPENING.as_secs())),
            },
        };
        let ended = self.converse(&mut wire, &mut stream, stop).await;
        if wire.opened {
            retry.opened(wire.fleet_size);
        }
        // What was confirmed and made durable stays so.
        self.held = wire.session.held;
        ended
    }

    async fn open(&self) -> Result<(Wire, Streaming<v1::ServerMessage>), String> {
        let channel = connect::open(&self.identity.address, self.identity.stream_tls()).await;
        let channel = channel.map_err(|error| crate::sentence(&error))?;
        let status = self.status.borrow().clone();
        let (sender, receiver) = mpsc::channel(OUTBOX);
        let hello = NodeSaid::Hello(Box::new(self.hello(status.clone())));
        sender.try_send((&hello).into()).map_err(|error| error.to_string())?;
        let mut client = FleetClient::new(channel)
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX);
        let answer = client.session(ReceiverStream::new(receiver)).await;
        let stream = answer.map_err(|status| status.message().to_owned())?.into_inner();
        let me = Me { edge: self.identity.me.edge.clone(), node: self.identity.me.node.clone() };
        let now = self.runtime.now_ms();
        let mut session = Session::new(me, self.identity.verify(), self.held.clone(), &status, now);
        session.fresh_for(self.set.borrow().policy.fresh_for_ms);
        let outbox = VecDeque::new();
        Ok((Wire { session, sender, outbox, reported: 0, opened: false, fleet_size: 0 }, stream))
    }

    fn hello(&self, status: Status) -> Hello {
        let versions = if self.set.borrow().held {
            status.versions.iter().map(|one| one.version.clone()).collect()
        } else {
            self.versions.clone()
        };
        Hello {
            boot: self.boot.clone(),
            agent_version: crate::VERSION.into(),
            protocol: PROTOCOL,
            held: self.held.parts.iter().map(|(part, held)| (*part, held.signed.clone())).collect(),
            versions,
            bodies: Vec::new(),
            status,
            clock: crate::now(),
        }
    }

    async fn converse(
        &mut self,
        wire: &mut Wire,
        stream: &mut Streaming<v1::ServerMessage>,
        stop: &CancellationToken,
    ) -> Ended {
        let mut reports = self.spool.changed();
        let mut tables = self.guard.changed();
        let mut statuses = self.status.clone();
        statuses.mark_unchanged();
        let mut waiting = waits_for_a_person(&self.guard.table());
        loop {
            let now = self.runtime.now_ms();
            let tick = Duration::from_millis(wire.session.next_tick_ms(waiting).saturating_sub(now));
            let has_more = !wire.outbox.is_empty();
            let sender = wire.sender.clone();
            tokio::select! {
                () = stop.cancelled() => return Ended::Stopped,
                message = stream.message() => match message {
                    Ok(Some(message)) => {
                        let orders = wire.session.message(message, self.runtime.now_ms());
                        if let Some(closed) = self.obey(wire, orders) {
                            return Ended::Closed(closed);
                        }
                    }
                    Ok(None) => return Ended::Stream("the control plane ended it".to_owned()),
                    Err(status) => return Ended::Stream(status.message().to_owned()),
                },
                () = tokio::time::sleep(tick) => {
                    let orders = wire.session.tick(self.runtime.now_ms(), waiting);
                    if let Some(closed) = self.obey(wire, orders) {
                        return Ended::Closed(closed);
                    }
                }
                permit = sender.reserve(), if has_more => match (permit, wire.outbox.pop_front()) {
                    (Ok(permit), Some(message)) => permit.send(message),
                    _ => return Ended::Stream("it takes no more messages".to_owned()),
                },
                _ = reports.changed(), if wire.opened => self.report(wire),
                changed = statuses.changed(), if wire.opened && changed_can_come(&statuses) => {
                    if changed.is_ok() {
                        self.send_status(wire);
                    }
                }
                _ = tables.changed() => waiting = waits_for_a_person(&self.guard.table()),
            }
        }
    }

    /// Does what the session orders, in order; says why it is over, if it is.
    fn obey(&mut self, wire: &mut Wire, orders: Vec<Order>) -> Option<Closed> {
        let mut orders: VecDeque<Order> = orders.into();
        while let Some(order) = orders.pop_front() {
            match order {
                Order::Send(said) => wire.outbox.push_back((&said).into()),
                Order::Store(storing) => {
                    let result = self.store(&storing.part);
                    let after = wire.session.stored(*storing, result);
                    after.into_iter().rev().for_each(|order| orders.push_front(order));
                }
                Order::Apply(part, content) => {
                    self.apply(&part, *content);
                    wire.session.fresh_for(self.set.borrow().policy.fresh_for_ms);
                }
                Order::Confirmed => self.confirm(&wire.session.held),
                Order::Opened { fleet_size } => {
                    (wire.opened, wire.fleet_size) = (true, fleet_size);
                    tracing::info!(server.address = %self.identity.address, "connected to the control plane");
                    self.report(wire);
                    if wire.session.status() != Some(self.status.borrow().digest()) {
                        self.send_status(wire);
                    }
                }
                Order::Heard { clock, fresh_ms } => self.reliance.hear(clock, fresh_ms),
                Order::Reported(sequence) => self.spool.acknowledge(sequence),
                Order::WantListings(hashes) => self.send_texts(wire, &hashes),
                Order::WantStatus => self.send_status(wire),
                Order::Warn(reason) => {
                    tracing::warn!(reason, "the control plane sent something that was passed over");
                }
                Order::Close(closed) => return Some(closed),
            }
        }
        None
    }

    fn store(&mut self, part: &HeldPart) -> Result<(), String> {
        // One part at a time and some milliseconds each; the stream waits, since nothing may be
        // acknowledged before it is durable.
        let stored = tokio::task::block_in_place(|| self.ledger.store(part));
        stored.map_err(|error| {
            let reason = crate::sentence(&error);
            tracing::error!(part = %part.head.part, reason, "a part of the plugin set cannot be made durable");
            reason
        })
    }

    fn apply(&self, part: &HeldPart, content: Content) {
        tracing::debug!(part = %part.head.part, position = %part.head.position, "a part of the plugin set is held");
        let mut applied = Applied::default();
        match &content {
            Content::Trust(trust) => {
                applied.trust = Some((Arc::new(trust.clone()), part.texts.clone()));
            }
            Content::Policy(policy) => applied.policy = Some(policy.clone()),
            Content::Plan(_) | Content::Grants(_) => {}
        }
        self.supervisor.apply(applied);
        self.set.send_modify(|set| {
            let set = Arc::make_mut(set);
            match content {
                Content::Trust(trust) => set.trust = Arc::new(trust),
                Content::Plan(plan) => set.plan = Arc::new(plan),
                Content::Policy(policy) => set.policy = policy,
                Content::Grants(grants) => set.grants = Arc::new(grants),
            }
        });
    }

    /// The set is held once each part was confirmed, or received and made durable, in this boot.
    fn confirm(&self, held: &Held) {
        if Part::ALL.iter().all(|part| held.confirmed.contains(part)) {
            self.reliance.is_confirmed();
        }
    }

    fn report(&self, wire: &mut Wire) {
        for (plugin, reason) in self.spool.take_mismatches() {
            let refused = wire.session.refuse_plan(&plugin, &reason);
            wire.outbox.extend(refused.iter().map(Into::into));
        }
        for report in self.spool.waiting(wire.reported) {
            wire.reported = report.sequence;
            wire.outbox.push_back((&NodeSaid::Report(Box::new(report.as_ref().clone()))).into());
        }
    }

    fn send_status(&self, wire: &mut Wire) {
        let status = self.status.borrow().clone();
        wire.session.status_sent(&status);
        wire.outbox.push_back((&NodeSaid::Status(status)).into());
    }

    fn send_texts(&self, wire: &mut Wire, hashes: &[ListingHash]) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for text in self.spool.texts(hashes) {
            if bytes + text.len() > TEXTS_AT_ONCE && !batch.is_empty() {
                wire.outbox.push_back((&NodeSaid::Listings(std::mem::take(&mut batch))).into());
                bytes = 0;
            }
            bytes += text.len();
            batch.push(text.as_ref().to_owned());
        }
        wire.outbox.push_back((&NodeSaid::Listings(batch)).into());
    }
}

/// A reconciler that has ended changes no status any more.
fn changed_can_come(statuses: &watch::Receiver<Status>) -> bool {
    statuses.has_changed().is_ok()
}
