//! A tool over stdio: a process of ours, one message a line.
//!
//! Tasks: one reads stdout, one drains stderr, one writes what nobody waits for, one waits for the end.
//! A request is written by who makes it, holding the pipe.

#[cfg(test)]
mod fuzz;
mod lease;
mod lines;
mod log;
mod open;
mod pipe;
mod process;
mod reader;
mod shared;
mod tail;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::value::RawValue;
use tokio::process::Child;
use tokio::sync::mpsc;

use crate::call::Reason;
use crate::confine::Confined;
use crate::error::Error;
use crate::spec::CommandSpec;
use crate::start::StartError;
use crate::tool::{Events, Noise};
use crate::wire::{self, Ask, Era, Peer, Unanswered};
use pipe::{Pipe, Unwritten};
use process::Group;
use shared::Shared;

pub use process::Process;

/// Replies and cancellations that wait to be written; more than a tool asks for in one go.
const ASIDE: usize = 64;
/// How long the reader may take to its end after the process is gone: what is in the pipe is there.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running stdio tool.
pub(crate) struct Stdio {
    connection: Connection,
    peer: Peer,
}

/// The process and its pipes, before and after it is known who is there.
struct Connection {
    shared: Arc<Shared>,
    pipe: Arc<Pipe>,
    group: Arc<Group>,
    confined: Confined,
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio")
            .field("process", &self.process())
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Stdio {
    /// Starts the process and opens it.
    pub(crate) async fn start(spec: CommandSpec, events: Events) -> Result<Self, StartError> {
        let (connection, peer) = open::open(&spec, &events).await?;
        connection.shared.replies.store(peer.era == Era::Handshake, Ordering::Release);
        if !connection.shared.open() {
            return Err(open::failed(connection.shared.why_closed().await, &connection, &spec).await);
        }
        if peer.era == Era::Modern && peer.list_changed {
            tokio::spawn(listen(Arc::clone(&connection.shared), Arc::clone(&connection.pipe)));
        }
        Ok(Self { connection, peer })
    }

    pub(crate) const fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.connection.shared.next_id()
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Result<Box<RawValue>, Unanswered> {
        self.connection.ask(ask).await
    }

    pub(crate) async fn stop(&self) {
        self.connection.shared.stop.cancel();
        self.connection.shared.done.cancelled().await;
    }

    pub(crate) fn process(&self) -> Option<Process> {
        self.connection.group.process()
    }

    pub(crate) const fn confined(&self) -> Confined {
        self.connection.confined
    }

    pub(crate) fn noise(&self) -> Noise {
        self.connection.shared.noise()
    }

    pub(crate) fn stderr(&self) -> (String, u64) {
        self.connection.shared.tail().read()
    }
}

impl Connection {
    /// Starts the process and the tasks around it.
    async fn spawn(spec: &CommandSpec, events: &Events) -> Result<Self, StartError> {
        let spawned = process::spawn(spec).await?;
        let (aside, mut queue) = mpsc::channel::<String>(ASIDE);
        let shared = Arc::new(Shared::new(Arc::clone(events), aside, spec.offers));
        let pipe = Arc::new(Pipe::new(spawned.stdin));
        let (group, confined) = (Arc::new(spawned.group), spawned.confined);
        tokio::spawn(reader::read(spawned.stdout, spec.limits.message_bytes, Arc::clone(&shared)));
        tokio::spawn(reader::drain(spawned.stderr, Arc::clone(&shared), spec.log.clone()));
        let out = Arc::clone(&pipe);
        tokio::spawn(async move {
            while let Some(message) = queue.recv().await {
                if out.write(&message, None, &AtomicBool::new(false)).await.is_err() {
                    break;
                }
            }
        });
        tokio::spawn(watch(spawned.child, Arc::clone(&group), Arc::clone(&shared), Arc::clone(&pipe)));
        Ok(Self { shared, pipe, group, confined })
    }

    async fn ask(&self, ask: Ask) -> Result<Box<RawValue>, Unanswered> {
        ask_on(&self.shared, &self.pipe, ask).await
    }

    /// Ends everything without ceremony.
    async fn kill(&self) {
        self.shared.stop.cancel();
        self.group.signal(Signal::KILL);
        self.shared.done.cancelled().await;
    }

    async fn notify(&self, message: &str) -> Result<(), Error> {
        match self.pipe.write(message, None, &AtomicBool::new(false)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.shared.why_closed().await),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.group.signal(Signal::KILL);
    }
}

/// One request. Ends with the answer, the deadline, the caller's wish or the tool, and leaves nothing.
async fn ask_on(shared: &Shared, pipe: &Pipe, ask: Ask) -> Result<Box<RawValue>, Unanswered> {
    let receiver = shared.waiters.wait_for(ask.id, ask.progress.clone()).map_err(Error::unsent)?;
    let _in_flight = ask.name.is_some().then(|| shared.board.begin(ask.id, ask.listener.clone()));
    let waiting = Waiting {
        shared,
        id: ask.id,
        cancellable: ask.cancellable,
        begun: AtomicBool::new(false),
        reason: ask.reason.clone(),
    };
    let message = ask.message();
    let answer = async {
        match pipe.write(&message, ask.gate.as_ref(), &waiting.begun).await {
            Ok(()) => {
                receiver.await.unwrap_or(Err(Error::Stopped { sent: true })).map_err(Unanswered::Failed)
            }
            Err(Unwritten::Refused) => Err(Unanswered::Refused),
            Err(Unwritten::Closed) => Err(Unanswered::Failed(shared.why_closed().await)),
        }
    };
    let outcome = tokio::select! {
        biased;
        () = ask.cancel.cancelled() => Err(Error::Cancelled.into()),
        outcome = answer => outcome,
        () = tokio::time::sleep_until(wire::end_of(ask.deadline)) => Err(Error::TimedOut {
            after: ask.deadline.unwrap_or_default(),
            sent: waiting.begun.load(Ordering::Acquire),
        }.into()),
    };
    match outcome {
        Err(Unanswered::Failed(error)) if !waiting.begun.load(Ordering::Acquire) => {
            Err(error.unsent().into())
        }
        outcome => outcome,
    }
}

/// A request that waits; dropped before its answer, the tool is told.
struct Waiting<'a> {
    shared: &'a Shared,
    id: u64,
    cancellable: bool,
    begun: AtomicBool,
    reason: Reason,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = self.shared.waiters.forget(self.id);
        if waited && self.cancellable && self.begun.load(Ordering::Acquire) {
            self.shared.board.gave_up(self.id, std::time::Instant::now());
            self.shared.say(wire::cancelled(self.id, &self.reason));
        }
    }
}

/// Waits for the end: the tool's own, or ours. Then tells everybody.
async fn watch(mut child: Child, group: Arc<Group>, shared: Arc<Shared>, pipe: Arc<Pipe>) {
    let status = tokio::select! {
        biased;
        () = shared.stop.cancelled() => {
            pipe.close().await;
            process::end(&mut child, &group).await
        }
        status = without_output(&mut child, &group, &shared, &pipe) => status,
    };
    pipe.close().await;
    // Answers that are still in the pipe count.
    tokio::time::timeout(LAST_WORDS, shared.output_ended.cancelled()).await.ok();
    if shared.stop.is_cancelled() {
        shared.waiters.close(&Error::Stopped { sent: true });
    } else {
        shared.ended(status);
    }
    shared.done.cancel();
}

/// Waits for the tool's own end. A process that has closed its stdout is of no use any more; most end
/// right after, the others are ended.
async fn without_output(child: &mut Child, group: &Group, shared: &Shared, pipe: &Pipe) -> Box<str> {
    tokio::select! {
        biased;
        status = process::ended(child, group) => return status,
        () = shared.output_ended.cancelled() => {}
    }
    if let Ok(status) = tokio::time::timeout(LAST_WORDS, process::ended(child, group)).await {
        return status;
    }
    shared.ended("closed its output".into());
    pipe.close().await;
    process::end(child, group).await
}

/// Keeps a subscription to changes of the list open (modern era).
async fn listen(shared: Arc<Shared>, pipe: Arc<Pipe>) {
    /// Between two tries, doubled up to the second: a server that ends each at once is not flooded.
    const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
    let mut pause = PAUSES.0;
    loop {
        let id = shared.next_id();
        shared.listening(id);
        let ask = Ask::new(id, "subscriptions/listen", wire::listen_params(), None);
        match ask_on(&shared, &pipe, ask).await {
            Err(Unanswered::Failed(Error::Gone { .. } | Error::Stopped { .. } | Error::Rpc(_))) => return,
            _ => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}
