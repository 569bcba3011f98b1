//! Carries out what a session decides: reads the node's messages, waits for changes and the time,
//! does the work, sends what comes out.

mod salvage;
pub(crate) mod simulated;

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use domain::clone::Succession;
use domain::digest::ListingHash;
use domain::plugin_set::Part;
use domain::standing::Standing;
use proto::convert::{Hello, NodeSaid, Report};
use proto::v1;
use proto::v1::NodeMessage;
use proto::v1::server_message::Message;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::Context;
use super::door::Peer;
use super::session::bodies::BODIES_BYTES_MAX;
use super::session::{self, Effect, Identity, Input, Outcome, Output, Session, Set};
use crate::fleet::{Ending, Greeted, Registration, Turn, lock};
use crate::operation::note_node::Speaker;
use crate::operation::record_listing::{Recorded, record_listing};
use crate::operation::store_texts;
use crate::server::Chain;
use crate::store::NodeRecord;

/// Work that may wait before the node is read on: what it says next then waits in its own buffers.
const WORK_MAX: usize = 16;

/// Most bytes that may wait for a node that does not read.
const UNSENT_MAX: usize = 64 * 1024 * 1024;

/// Most texts that one node is remembered to be asked for: those of the largest tool.
const ASKED_MAX: usize = 10_000;

/// How long a stream that is to end may take to send its last messages.
const LAST_WITHIN: Duration = Duration::from_secs(2);

type Work = Pin<Box<dyn Future<Output = Input> + Send>>;

/// Who may open a stream.
pub(super) enum Admitted {
    /// A node, in place of its older stream.
    Node(Box<Registration>),
    /// A node that is told once more that it may not work.
    Turned(Turn),
    /// Nobody that showed a certificate.
    Stranger,
}

/// Finds the node and takes its stream in place of an older one.
pub(super) async fn admit(context: &Arc<Context>, peer: &Peer) -> Result<Admitted, Status> {
    let Some(node) = &peer.node else { return Ok(Admitted::Stranger) };
    let unavailable = |error: crate::fleet::Error| {
        tracing::error!(error = %Chain(&error), "a node's stream could not be opened");
        Status::unavailable("the control plane cannot read this node's plugin set now; try again")
    };
    let id = &node.identity.node;
    let unknown = || Status::permission_denied("no node with this id, key and edge is on record; join again");
    let Some(record) = context.fleet.node(id).await.map_err(unavailable)? else {
        let removed = context.fleet.removed(id).await.map_err(unavailable)?;
        return removed.map(|ending| Admitted::Turned(ending.turn())).ok_or_else(unknown);
    };
    if record.public_key_sha256 != node.key || record.edge != node.identity.edge {
        return Err(unknown());
    }
    // A quarantined one is heard first: what it says tells the copies apart.
    let ending = Ending::of(&record).filter(|ending| ending.standing != Standing::Quarantined);
    if let Some(ending) = ending {
        return Ok(Admitted::Turned(ending.turn()));
    }
    let registration = context.fleet.register(id, peer.address).await.map_err(unavailable)?;
    registration.map(|one| Admitted::Node(Box::new(one))).ok_or_else(unknown)
}

/// Runs one stream to its end.
pub(super) async fn run(
    context: Arc<Context>,
    (registration, address): (Registration, String),
    inbound: Streaming<NodeMessage>,
    out: mpsc::Sender<Bytes>,
) {
    let mut stream = Stream::new(context, registration, address);
    stream.serve(inbound, &out).await;
    // Boxed: a stream that is open keeps no room for what comes after it, which works with the database.
    Box::pin(stream.end(out)).await;
}

struct Stream {
    context: Arc<Context>,
    registration: Registration,
    /// From where the node comes.
    address: String,
    session: Session,
    /// Where this stream stands among the node's; `None` before its Welcome, and of nodes that keep no counter.
    succession: Option<Succession>,
    /// Texts that this node was asked for; others that it sends are refused.
    asked: Arc<Mutex<BTreeSet<ListingHash>>>,
    unsent: VecDeque<Bytes>,
    unsent_bytes: usize,
    work: VecDeque<Effect>,
    running: Option<Work>,
    /// To be noted again, also if the stream ends before.
    owed: Option<Arc<Hello>>,
    is_closing: bool,
}

impl Stream {
    fn new(context: Arc<Context>, registration: Registration, address: String) -> Self {
        let identity = Identity {
            fleet: Arc::clone(context.authority.fleet()),
            edge: registration.edge.name.clone(),
            node: registration.record.id.clone(),
            authorities: context.authority.certificates().map(|der| der.to_vec()).collect(),
            server: Arc::clone(context.fleet.server()),
        };
        let session = Session::new(identity, Set::default(), context.monotonic_ms());
        let mut stream = Self {
            context,
            registration,
            address,
            session,
            succession: None,
            asked: Arc::default(),
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            work: VecDeque::new(),
            running: None,
            owed: None,
            is_closing: false,
        };
        stream.read_set();
        stream
    }

    async fn serve(&mut self, mut inbound: Streaming<NodeMessage>, out: &mpsc::Sender<Bytes>) {
        while !self.is_closing {
            let due = self.context.at(self.session.deadline());
            tokio::select! {
                permit = out.reserve(), if !self.unsent.is_empty() => {
                    let Ok(permit) = permit else { return };
                    if let Some(message) = self.unsent.pop_front() {
                        self.unsent_bytes -= message.len();
                        permit.send(message);
                    }
                }
                message = inbound.message(), if self.work.len() < WORK_MAX => match message {
                    Ok(Some(message)) => self.hear(message),
                    Ok(None) => return,
                    Err(status) => {
                        tracing::debug!(node.id = %self.registration.record.id, %status, "stream ended");
                        return;
                    }
                },
                changed = self.registration.set.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.read_set();
                }
                changed = self.registration.own.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.read_own();
                }
                input = finish(&mut self.running) => {
                    self.running = None;
                    self.handle(input);
                }
                () = tokio::time::sleep_until(due) => self.handle(Input::Tick),
            }
        }
    }

    fn hear(&mut self, message: NodeMessage) {
        // Whoever was told to go says nothing more that counts.
        if self.registration.own.borrow().farewell.is_some() {
            return;
        }
        match NodeSaid::try_from(message) {
            Ok(said) => {
                self.registration.seen((self.context.clock)());
                self.handle(Input::Said(said));
            }
            // Nothing of it was taken; the node goes on as it is, and its owner reads why.
            Err(error) => {
                let (id, name) = (&self.registration.record.id, &self.registration.record.name);
                tracing::warn!(node.id = %id, node.name = %name, error = %Chain(&error), "a message was not taken");
            }
        }
    }

    fn set(&mut self) -> Set {
        let edge = self.registration.set.borrow_and_update().clone();
        let grants = Some(Arc::clone(&self.registration.own.borrow().grants));
        Set { edge, grants }
    }

    fn read_set(&mut self) {
        let set = self.set();
        self.handle(Input::Set(set));
    }

    fn read_own(&mut self) {
        let farewell = self.registration.own.borrow_and_update().farewell.clone();
        match farewell {
            Some(farewell) => self.handle(Input::Farewell(farewell)),
            None => self.read_set(),
        }
    }

    fn handle(&mut self, input: Input) {
        if matches!(input, Input::NotedAgain) {
            self.owed = None;
        }
        let now = self.context.monotonic_ms();
        if let Input::Admitted { counter: Some(counter), .. } = &input {
            self.succession = Some(counter.session);
        }
        for output in self.session.handle(now, (self.context.clock)(), input) {
            self.carry_out(now, output);
        }
        if self.running.is_none()
            && let Some(effect) = self.work.pop_front()
        {
            self.running = Some(self.begin(effect));
        }
    }

    fn carry_out(&mut self, now: u64, output: Output) {
        match output {
            Output::Send(message) => self.send(message),
            Output::Acked(acked) => self.registration.acked(&acked),
            Output::Kept(counter) => {
                if let Some(succession) = &mut self.succession {
                    succession.keep();
                }
                self.context.fleet.counter_kept(&self.registration.record.id, counter);
            }
            Output::Refused(refused) => tracing::warn!(
                node.id = %self.registration.record.id,
                part = %refused.part,
                position = %refused.position,
                resource = refused.resource.as_ref().map_or("", |(name, _)| name),
                code = %refused.code,
                reason = %domain::visible::make_visible(&refused.reason),
                "a node refused what it was sent"
            ),
            Output::Want(hashes) => {
                let claimed = self.context.fleet.claim(&self.registration.record.id, &hashes, now);
                if !claimed.is_empty() {
                    self.ask(&claimed);
                }
            }
            Output::Do(effect) => {
                if let Effect::NoteAgain(hello) = &effect {
                    self.owed = Some(Arc::clone(hello));
                }
                self.work.push_back(effect);
            }
            Output::Close => self.is_closing = true,
        }
    }

    fn ask(&mut self, hashes: &[ListingHash]) {
        let mut asked = lock(&self.asked);
        if asked.len() > ASKED_MAX {
            asked.clear();
        }
        asked.extend(hashes);
        drop(asked);
        let hashes = hashes.iter().map(|hash| hash.digest().as_bytes().to_vec()).collect();
        self.send(session::encode(Message::WantListings(v1::WantListings { hashes })));
    }

    fn send(&mut self, message: Bytes) {
        self.unsent_bytes += message.len();
        self.unsent.push_back(message);
        if self.unsent_bytes > UNSENT_MAX {
            tracing::warn!(node.id = %self.registration.record.id, "a node does not read what it is sent");
            self.unsent.clear();
            self.is_closing = true;
        }
    }

    /// Sends what is left, leaves, and notes what is owed.
    async fn end(mut self, out: mpsc::Sender<Bytes>) {
        let (context, node) = (Arc::clone(&self.context), self.registration.record.id.clone());
        let (owed, session) = (self.owed.take(), self.succession);
        self.send_last(&out).await;
        if let Some(hello) = owed {
            context.fleet.note_again(Speaker { node: &node, session }, &hello).await;
        }
    }

    async fn send_last(mut self, out: &mpsc::Sender<Bytes>) {
        let unsent = std::mem::take(&mut self.unsent);
        let all = async {
            for message in unsent {
                if out.send(message).await.is_err() {
                    break;
                }
            }
        };
        // A node that does not read its last messages learns from the closed connection.
        tokio::time::timeout(LAST_WITHIN, all).await.ok();
    }

    fn begin(&mut self, effect: Effect) -> Work {
        let context = Arc::clone(&self.context);
        let node = self.registration.record.id.clone();
        let (now, session) = ((context.clock)(), self.succession);
        match effect {
            Effect::Admit(hello) => {
                self.registration.clock_offset(hello.clock.millis_since(now));
                let name = format!("{}/{}", self.registration.edge.name, self.registration.session);
                let (edge, address) = (Arc::clone(&self.registration.edge), self.address.clone());
                Box::pin(async move {
                    let greeted = context.fleet.greet(&node, &edge, &address, &hello).await;
                    let epoch = edge.set().get(Part::Trust).map_or(1, |trust| trust.position.epoch);
                    admitted(&node, name, epoch, greeted)
                })
            }
            Effect::NoteAgain(hello) => Box::pin(async move {
                context.fleet.note_again(Speaker { node: &node, session }, &hello).await;
                Input::NotedAgain
            }),
            Effect::Reload => self.reread(None),
            Effect::Rewind(proofs) => self.reread(Some(proofs)),
            Effect::Salvage(held) => self.is_lost(held),
            Effect::KeepHeld(shown) => self.keep_held(*shown),
            Effect::Record(boot, report) => Box::pin(async move {
                let _turn = context.fleet.turn().await;
                let speaker = Speaker { node: &node, session };
                let outcome = record_listing(&context.store, now, speaker, &boot, &report).await;
                let outcome = outcome_of(&node, &report, outcome);
                Input::Recorded(report, outcome)
            }),
            Effect::StoreTexts(texts) => {
                let (asked, record) = (Arc::clone(&self.asked), self.registration.record.clone());
                Box::pin(async move {
                    let _turn = context.fleet.turn().await;
                    let wanted: Vec<ListingHash> = lock(&asked).iter().copied().collect();
                    match store(&context, &record, &wanted, &texts).await {
                        Ok(arrived) => lock(&asked).retain(|hash| !arrived.contains(hash)),
                        Err(error) => {
                            tracing::warn!(error = %Chain(&error), node.id = %node, "listing texts could not be kept");
                        }
                    }
                    Input::Stored
                })
            }
            Effect::Texts(digests) => {
                let edge = Arc::clone(&self.registration.edge);
                Box::pin(async move {
                    match context.fleet.texts(&edge, &digests, BODIES_BYTES_MAX).await {
                        Ok(texts) => Input::Texts(texts),
                        Err(error) => {
                            tracing::error!(error = %Chain(&error), "listing texts could not be read");
                            Input::Failed
                        }
                    }
                })
            }
            Effect::NoteStatus(status) => Box::pin(async move {
                let _turn = context.fleet.turn().await;
                let noted = context.fleet.note_status(Speaker { node: &node, session }, &status).await;
                if let Err(error) = &noted {
                    tracing::warn!(error = %Chain(error), node.id = %node, "a status could not be noted");
                }
                Input::StatusNoted(noted.is_ok())
            }),
        }
    }
}

fn admitted(
    node: &domain::id::NodeId,
    session: String,
    epoch: u64,
    greeted: Result<Greeted, crate::fleet::Error>,
) -> Input {
    match greeted {
        Ok(Greeted::Welcome { fleet_size, counter, again }) => {
            Input::Admitted { session, epoch, fleet_size, counter, again }
        }
        Ok(Greeted::Turned(turn)) => Input::Turned(turn),
        Err(error) => {
            tracing::error!(error = %Chain(&error), node.id = %node, "a Hello could not be noted");
            Input::Failed
        }
    }
}

fn outcome_of(
    node: &domain::id::NodeId,
    report: &Report,
    outcome: Result<Recorded, crate::operation::Error>,
) -> Outcome {
    match outcome {
        Ok(Recorded::Done | Recorded::Stale) => Outcome::Done,
        Ok(Recorded::Ignored(why)) => {
            tracing::info!(node.id = %node, version = %report.version, tool = %report.tool, why, "a report was passed over");
            Outcome::Done
        }
        Ok(Recorded::MissingTexts(hashes)) => Outcome::MissingTexts(hashes),
        Err(error) => {
            tracing::warn!(node.id = %node, error = %Chain(&error), "a report could not be recorded yet");
            Outcome::Failed
        }
    }
}

async fn finish(running: &mut Option<Work>) -> Input {
    match running {
        Some(work) => work.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Keeps what a node answered; answers which of what it was asked for are here now.
async fn store(
    context: &Context,
    node: &NodeRecord,
    asked: &[ListingHash],
    texts: &[String],
) -> Result<BTreeSet<ListingHash>, crate::operation::Error> {
    let now = (context.clock)();
    let missing = store_texts::store_texts(&context.store, now, &node.name, asked, texts).await?;
    let missing: BTreeSet<ListingHash> = missing.into_iter().collect();
    // The others are on their way in the node's next messages; asked for again, they would come twice.
    let arrived: BTreeSet<ListingHash> =
        asked.iter().filter(|hash| !missing.contains(hash)).copied().collect();
    context.fleet.arrived(&arrived);
    Ok(arrived)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of_future<A, B, C, D, F: Future>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// P5: what a stream holds while nothing happens is held ten thousand times.
    #[test]
    fn an_open_stream_keeps_no_room_for_what_it_does_now_and_then() {
        let bytes = bytes_of_future(run);
        assert!(bytes <= 6 * 1024, "{bytes} bytes");
    }
}
