//! What the node says and does over its streams, without the streams: carries out what a
//! [`session`](super::session) orders, in order, up to where the disk or the end of the stream has to be
//! waited for.
//!
//! Parts go to the supervisor and the reconciler, acknowledgements to the spool. Nothing here awaits;
//! the link around it sends, receives and writes, and so does the simulation.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use domain::digest::ListingHash;
use domain::id::{BootId, PluginVersion};
use domain::plugin_set::{Part, Plan};
use proto::convert::{Content, Hello, NodeSaid, SessionProof, Status};
use proto::v1;
use tokio::sync::watch;

use super::counter::newer;
use super::parts::Me;
use super::session::{Closed, Held, Order, Session, Storing};
use crate::expulsion::{Expulsion, quarantined};
use crate::guard::{Guard, Runtime};
use crate::ledger::{self, HeldPart, Verify};
use crate::reconciler::PluginSet;
use crate::reliance::Reliance;
use crate::spool::Spool;
use crate::supervisor::{Applied, Supervisor};

/// The protocol that this node speaks.
const PROTOCOL: u32 = 1;

/// Bytes of listing texts in one message, far below what a message may have.
const TEXTS_AT_ONCE: usize = 4 * 1024 * 1024;

/// What is worked with here, over all streams of one boot.
pub(crate) struct Desk {
    pub(crate) me: Me,
    pub(crate) verify: Arc<Verify>,
    pub(crate) boot: BootId,
    pub(crate) guard: Arc<Guard>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) reliance: Arc<Reliance>,
    pub(crate) set: Arc<watch::Sender<Arc<PluginSet>>>,
    pub(crate) status: watch::Receiver<Status>,
    /// On the disk when the agent started.
    pub(crate) versions: Vec<PluginVersion>,
    pub(crate) held: Held,
    /// The newest session counter that is durable, as the control plane sealed it; else empty.
    pub(crate) counter: Vec<u8>,
    /// What the last Goodbye asked to be repeated; else empty.
    pub(crate) challenge: Vec<u8>,
}

/// One open stream.
pub(crate) struct Talk {
    pub(crate) session: Session,
    pub(crate) outbox: VecDeque<v1::NodeMessage>,
    orders: VecDeque<Order>,
    /// The sequence of the newest report that was sent on this stream.
    reported: u64,
    /// Whether the server answered Hello.
    pub(crate) opened: bool,
    pub(crate) fleet_size: u32,
}

/// What has to be waited for before anything else is done.
#[derive(Debug)]
pub(crate) enum Pause {
    /// Make the part durable, then go on with [`Desk::stored`].
    Store(Box<Storing>),
    /// Make the session counter durable, then go on with [`Desk::kept`].
    Keep(Vec<u8>),
    /// The stream is over.
    Closed(Closed),
}

impl Desk {
    /// Takes what the ledger had. Nothing of it is gone by before it is confirmed.
    pub(crate) fn take(&mut self, found: ledger::Found) {
        for (part, held) in found.parts {
            self.apply(&held, held.read());
            self.held.parts.insert(part, Arc::new(held));
        }
        if Part::ALL.iter().all(|part| self.held.parts.contains_key(part)) {
            self.reliance.is_stored();
        }
    }

    /// What is said first on a new stream, and how everything stood then.
    pub(crate) fn hello(&self) -> (v1::NodeMessage, Status) {
        let status = self.status.borrow().clone();
        let versions = if self.set.borrow().held {
            status.versions.iter().map(|one| one.version.clone()).collect()
        } else {
            self.versions.clone()
        };
        let hello = Hello {
            boot: self.boot.clone(),
            agent_version: crate::VERSION.into(),
            protocol: PROTOCOL,
            held: self.held.parts.iter().map(|(part, held)| (*part, held.signed.clone())).collect(),
            versions,
            bodies: Vec::new(),
            status: status.clone(),
            clock: self.runtime.wall(),
            session: Some(SessionProof { counter: self.counter.clone(), challenge: self.challenge.clone() }),
        };
        ((&NodeSaid::Hello(Box::new(hello))).into(), status)
    }

    /// The server took the stream whose Hello said that status.
    pub(crate) fn talk(&self, status: &Status) -> Talk {
        let (me, verify, held) = (self.me.clone(), Arc::clone(&self.verify), self.held.clone());
        let mut session = Session::new(me, verify, held, status, self.runtime.now_ms());
        session.fresh_for(self.set.borrow().policy.fresh_for_ms);
        Talk {
            session,
            outbox: VecDeque::new(),
            orders: VecDeque::new(),
            reported: 0,
            opened: false,
            fleet_size: 0,
        }
    }

    /// The stream is over: what was confirmed and made durable stays so.
    pub(crate) fn hang_up(&mut self, talk: Talk) {
        self.held = talk.session.held;
    }

    /// Takes one message of the server.
    pub(crate) fn message(&mut self, talk: &mut Talk, message: v1::ServerMessage) -> Option<Pause> {
        let orders = talk.session.message(message, self.runtime.now_ms());
        self.obey(talk, orders)
    }

    /// Looks at the clock; see [`Session::tick`].
    pub(crate) fn tick(&mut self, talk: &mut Talk, waiting: bool) -> Option<Pause> {
        let orders = talk.session.tick(self.runtime.now_ms(), waiting);
        self.obey(talk, orders)
    }

    /// The part is durable, or could not be made so.
    pub(crate) fn stored(
        &mut self,
        talk: &mut Talk,
        storing: Storing,
        result: Result<(), String>,
    ) -> Option<Pause> {
        let orders = talk.session.stored(storing, result);
        self.obey(talk, orders)
    }

    /// The session counter is durable, or could not be made so.
    pub(crate) fn kept(&mut self, talk: &mut Talk, sealed: Option<&[u8]>) -> Option<Pause> {
        if let Some((value, sealed)) = sealed.and_then(|sealed| Some((newer(&self.counter, sealed)?, sealed)))
        {
            self.counter = sealed.to_vec();
            talk.outbox.push_back((&NodeSaid::Kept(value)).into());
        }
        self.obey(talk, Vec::new())
    }

    /// What the end of a stream that was hung up says about this node. One that is quarantined calls nothing
    /// until it is welcome again; answered is what ends it for good.
    pub(crate) fn ended(&mut self, closed: &Closed) -> Option<Expulsion> {
        let Closed::Goodbye { code, reason, .. } = closed else { return None };
        if code == "quarantined" {
            self.supervisor.turn_away(quarantined(reason));
            // Whatever was confirmed has to be confirmed again.
            self.held.confirmed.clear();
            self.reliance.is_doubted();
        }
        Expulsion::of(code, reason)
    }

    /// Does what the session orders, before what it ordered earlier and waits.
    fn obey(&mut self, talk: &mut Talk, orders: Vec<Order>) -> Option<Pause> {
        orders.into_iter().rev().for_each(|order| talk.orders.push_front(order));
        while let Some(order) = talk.orders.pop_front() {
            match order {
                Order::Send(said) => talk.outbox.push_back((&said).into()),
                Order::Store(storing) => return Some(Pause::Store(storing)),
                Order::Apply(part, content) => {
                    self.apply(&part, *content);
                    if self.spool.of_epoch(part.head.position.epoch) && talk.opened {
                        talk.reported = 0;
                        self.report(talk);
                    }
                    talk.session.fresh_for(self.set.borrow().policy.fresh_for_ms);
                }
                Order::Confirmed => self.confirm(&talk.session.held),
                Order::Opened { fleet_size, epoch, server } => {
                    (talk.opened, talk.fleet_size) = (true, fleet_size);
                    self.supervisor.take_back();
                    self.spool.of_epoch(epoch);
                    self.spool.of_server(&server);
                    self.report(talk);
                    if talk.session.status() != Some(self.status.borrow().digest()) {
                        self.send_status(talk);
                    }
                }
                Order::Heard { clock, fresh_ms } => self.reliance.hear(clock, fresh_ms),
                Order::KeepCounter(sealed) => {
                    if newer(&self.counter, &sealed).is_some() {
                        return Some(Pause::Keep(sealed));
                    }
                }
                Order::Challenge(challenge) => self.challenge = challenge,
                Order::Reported(sequence) => self.spool.acknowledge(sequence),
                Order::WantListings(hashes) => self.send_texts(talk, &hashes),
                Order::WantStatus => self.send_status(talk),
                Order::Warn(reason) => {
                    tracing::warn!(reason, "the control plane sent something that was passed over");
                }
                Order::Close(closed) => return Some(Pause::Closed(closed)),
            }
        }
        None
    }

    fn apply(&self, part: &HeldPart, content: Content) {
        tracing::debug!(part = %part.head.part, position = %part.head.position, "a part of the plugin set is held");
        let mut applied = Applied::default();
        match &content {
            Content::Trust(trust) => {
                applied.trust = Some((Arc::new(trust.clone()), part.texts.clone()));
            }
            Content::Policy(policy) => applied.policy = Some(policy.clone()),
            Content::Plan(plan) => applied.plan = Some(plan.clone()),
            Content::Grants(_) => {}
        }
        self.supervisor.apply(applied);
        if let Content::Plan(plan) = &content {
            for version in newly_named(&self.set.borrow().plan, plan) {
                self.spool.say_again(&version);
            }
        }
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

    /// Sends what is to be reported and was not yet, on this stream.
    pub(crate) fn report(&self, talk: &mut Talk) {
        for (plugin, reason) in self.spool.take_mismatches() {
            let refused = talk.session.refuse_plan(&plugin, &reason);
            talk.outbox.extend(refused.iter().map(Into::into));
        }
        for report in self.spool.waiting(talk.reported) {
            talk.reported = report.sequence;
            talk.outbox.push_back((&NodeSaid::Report(Box::new(report.as_ref().clone()))).into());
        }
    }

    /// Sends how everything stands.
    pub(crate) fn send_status(&self, talk: &mut Talk) {
        let status = self.status.borrow().clone();
        talk.session.status_sent(&status);
        talk.outbox.push_back((&NodeSaid::Status(status)).into());
    }

    fn send_texts(&self, talk: &mut Talk, hashes: &[ListingHash]) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for text in self.spool.texts(hashes) {
            if bytes + text.len() > TEXTS_AT_ONCE && !batch.is_empty() {
                talk.outbox.push_back((&NodeSaid::Listings(std::mem::take(&mut batch))).into());
                bytes = 0;
            }
            bytes += text.len();
            batch.push(text.as_ref().to_owned());
        }
        talk.outbox.push_back((&NodeSaid::Listings(batch)).into());
    }
}

/// The versions that a plan names and the one before did not: what the node reported of them while they were not its
/// edge's was passed over, if it has them still.
fn newly_named(before: &Plan, plan: &Plan) -> BTreeSet<PluginVersion> {
    let named = |plan: &Plan| -> BTreeSet<PluginVersion> {
        let planned = plan.plugins.values().flat_map(|planned| {
            let candidate = planned.candidate.as_ref().map(|(_, candidate)| candidate);
            planned.installed.iter().chain(candidate).map(|one| one.version.clone())
        });
        planned.collect()
    };
    let before = named(before);
    named(plan).into_iter().filter(|version| !before.contains(version)).collect()
}
