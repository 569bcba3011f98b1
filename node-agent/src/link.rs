//! The stream to the control plane: connects, keeps it up, and carries what comes to where it belongs
//! (30-nodes, 2).
//!
//! What is said when is decided in [`session`], without a stream, and carried out by [`desk`] up to where
//! something has to be waited for; here it is sent, received and made durable.

pub(crate) mod connect;
pub(crate) mod counter;
pub(crate) mod desk;
pub(crate) mod parts;
pub(crate) mod retry;
pub(crate) mod session;
pub(crate) mod waiting;

use std::sync::Arc;
use std::time::Duration;

use domain::id::{BootId, PluginVersion};
use proto::convert::{MESSAGE_MAX, Status};
use proto::v1;
use proto::v1::fleet_client::FleetClient;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::expulsion::{Expeller, Expulsion};
use crate::guard::{Guard, Runtime};
use crate::identity::Identity;
use crate::ledger::{HeldPart, Ledger};
use crate::reconciler::PluginSet;
use crate::reliance::Reliance;
use crate::renewal::is_ended;
use crate::spool::Spool;
use crate::supervisor::Supervisor;
use counter::Counter;
use desk::{Desk, Pause, Talk};
use parts::Me;
use retry::Retry;
use session::{Closed, Held};
use waiting::waits_for_a_person;

/// Messages on their way into HTTP/2; more wait in order at the desk.
const OUTBOX: usize = 16;

/// For the answer to the opening of a stream: what a server under load may take, and a retry follows.
const OPENING: Duration = Duration::from_secs(20);

/// The link to the control plane.
pub(crate) struct Link {
    identity: Arc<Identity>,
    ledger: Ledger,
    counter: Counter,
    expeller: Arc<Expeller>,
    desk: Desk,
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
    pub(crate) counter: Counter,
    pub(crate) expeller: Arc<Expeller>,
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

/// An open stream and what is said on it.
struct Wire {
    talk: Talk,
    sender: mpsc::Sender<v1::NodeMessage>,
}

impl Link {
    /// A link that holds what the ledger had.
    pub(crate) fn new(parts: Parts, boot: BootId, ledger: Ledger, found: crate::ledger::Found) -> Self {
        let Parts {
            identity,
            guard,
            runtime,
            supervisor,
            spool,
            reliance,
            set,
            status,
            versions,
            counter,
            expeller,
        } = parts;
        let mut desk = Desk {
            me: Me { edge: identity.me.edge.clone(), node: identity.me.node.clone() },
            verify: identity.verify(),
            boot,
            guard,
            runtime,
            supervisor,
            spool,
            reliance,
            set,
            status,
            versions,
            held: Held::default(),
            counter: counter.sealed().to_vec(),
            challenge: Vec::new(),
        };
        desk.take(found);
        Self { identity, ledger, counter, expeller, desk }
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
            if let Some(expulsion) = self.standing(&ended) {
                return self.expeller.expel(expulsion).await;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.identity.renewed.notified(), if matches!(ended, Ended::Connect(_)) => {}
                () = tokio::time::sleep(Duration::from_millis(delay_ms)) => {}
            }
        }
    }

    /// What the end of a session says about this node: that it was expelled, that it is quarantined, or that its
    /// certificate has ended.
    fn standing(&mut self, ended: &Ended) -> Option<Expulsion> {
        match ended {
            Ended::Closed(closed) => self.desk.ended(closed),
            Ended::Connect(reason) | Ended::Stream(reason) if is_ended(reason) => {
                self.identity.doubted.notify_one();
                None
            }
            Ended::Connect(_) | Ended::Stream(_) | Ended::Stopped => None,
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
        if wire.talk.opened {
            retry.opened(wire.talk.fleet_size);
        }
        self.desk.hang_up(wire.talk);
        ended
    }

    async fn open(&self) -> Result<(Wire, Streaming<v1::ServerMessage>), String> {
        let channel = connect::open(&self.identity.address, self.identity.stream_tls()).await;
        let channel = channel.map_err(|error| crate::sentence(&error))?;
        let (hello, status) = self.desk.hello();
        let (sender, receiver) = mpsc::channel(OUTBOX);
        sender.try_send(hello).map_err(|error| error.to_string())?;
        let mut client = FleetClient::new(channel)
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX);
        let answer = client.session(ReceiverStream::new(receiver)).await;
        let stream = answer.map_err(|status| said(&status))?.into_inner();
        Ok((Wire { talk: self.desk.talk(&status), sender }, stream))
    }

    async fn converse(
        &mut self,
        wire: &mut Wire,
        stream: &mut Streaming<v1::ServerMessage>,
        stop: &CancellationToken,
    ) -> Ended {
        let mut reports = self.desk.spool.changed();
        let mut tables = self.desk.guard.changed();
        let mut statuses = self.desk.status.clone();
        statuses.mark_unchanged();
        let mut waiting = waits_for_a_person(&self.desk.guard.table());
        loop {
            let now = self.desk.runtime.now_ms();
            let tick = Duration::from_millis(wire.talk.session.next_tick_ms(waiting).saturating_sub(now));
            let has_more = !wire.talk.outbox.is_empty();
            let sender = wire.sender.clone();
            tokio::select! {
                () = stop.cancelled() => return Ended::Stopped,
                message = stream.message() => match message {
                    Ok(Some(message)) => {
                        let was_open = wire.talk.opened;
                        let pause = self.desk.message(&mut wire.talk, message);
                        if wire.talk.opened && !was_open {
                            tracing::info!(server.address = %self.identity.address, "connected to the control plane");
                        }
                        if let Some(closed) = self.go_on(wire, pause) {
                            return Ended::Closed(closed);
                        }
                    }
                    Ok(None) => return Ended::Stream("the control plane ended it".to_owned()),
                    Err(status) => return Ended::Stream(said(&status)),
                },
                () = tokio::time::sleep(tick) => {
                    let pause = self.desk.tick(&mut wire.talk, waiting);
                    if let Some(closed) = self.go_on(wire, pause) {
                        return Ended::Closed(closed);
                    }
                }
                permit = sender.reserve(), if has_more => match (permit, wire.talk.outbox.pop_front()) {
                    (Ok(permit), Some(message)) => permit.send(message),
                    _ => return Ended::Stream("it takes no more messages".to_owned()),
                },
                _ = reports.changed(), if wire.talk.opened => self.desk.report(&mut wire.talk),
                changed = statuses.changed(), if wire.talk.opened && changed_can_come(&statuses) => {
                    if changed.is_ok() {
                        self.desk.send_status(&mut wire.talk);
                    }
                }
                _ = tables.changed() => waiting = waits_for_a_person(&self.desk.guard.table()),
            }
        }
    }

    /// Waits for what the desk waits for; says why the stream is over, if it is.
    fn go_on(&mut self, wire: &mut Wire, mut pause: Option<Pause>) -> Option<Closed> {
        while let Some(waits) = pause {
            match waits {
                Pause::Store(storing) => {
                    let result = self.store(&storing.part);
                    pause = self.desk.stored(&mut wire.talk, *storing, result);
                }
                Pause::Keep(sealed) => pause = self.keep(wire, &sealed),
                Pause::Closed(closed) => return Some(closed),
            }
        }
        None
    }

    /// What is not on the disk is not acknowledged: the next Hello shows the counter of before, which is as right.
    fn keep(&mut self, wire: &mut Wire, sealed: &[u8]) -> Option<Pause> {
        let kept = tokio::task::block_in_place(|| self.counter.keep(sealed));
        if let Err(error) = &kept {
            let reason = crate::sentence(error);
            tracing::warn!(reason, "the session counter cannot be made durable");
        }
        self.desk.kept(&mut wire.talk, kept.is_ok().then_some(sealed))
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
}

/// What a status says, and what is under it where the connection broke.
fn said(status: &tonic::Status) -> String {
    if std::error::Error::source(status).is_some() {
        crate::sentence(status)
    } else {
        status.message().to_owned()
    }
}

/// A reconciler that has ended changes no status any more.
fn changed_can_come(statuses: &watch::Receiver<Status>) -> bool {
    statuses.has_changed().is_ok()
}
