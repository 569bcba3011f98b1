//! A tool over the transport of 2024-11-05: a GET whose stream names where to POST, and carries all answers.
//!
//! Spoken where the streamable one is refused (`tool`), or where a manifest says so. What is posted goes only
//! to the origin of the URL, whatever the server names.

mod link;
mod place;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use super::answer::{self, Form};
use super::base::Base;
use super::client::Outgoing;
use super::headers;
use crate::call::Reason;
use crate::error::Error;
use crate::spec::UrlSpec;
use crate::start::StartError;
use crate::tool::{Events, ToolEvent};
use crate::wire::{self, Ask, Peer, Unanswered};
use link::Link;

/// For what nobody waits for.
const ASIDE: Duration = Duration::from_secs(5);
/// Between two tries to open a lost stream again, doubled up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// A remote tool of the older transport.
pub(crate) struct Older {
    core: Arc<Core>,
}

type Core = Base<Own>;

/// What outlives a stream.
#[derive(Default)]
struct Own {
    present: OnceLock<ArcSwap<Link>>,
    renewing: Mutex<()>,
}

impl fmt::Debug for Older {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Older").field("url", &self.core.client.shown()).finish_non_exhaustive()
    }
}

impl Older {
    /// Opens the stream and shakes hands over it.
    pub(crate) async fn start(spec: UrlSpec, events: Events) -> Result<Self, StartError> {
        let core = Core::new(spec, events)?;
        // Dropped by whoever gives up the start, the stream ends with it.
        let older = Self { core: Arc::clone(&core) };
        let link = link::open(&core).await?;
        core.own.present.get_or_init(|| ArcSwap::new(link));
        let (keeping, stop) = (Arc::clone(&core), core.stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(keep(keeping)).await });
        Ok(older)
    }

    pub(crate) fn peer(&self) -> Peer {
        self.core.present().peer()
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.core.next_id()
    }

    pub(crate) fn connected_to(&self) -> Option<SocketAddr> {
        self.core.client.connected_to()
    }

    /// One request. Ends with the answer, the deadline, the caller's wish, the stream or the stop.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Box<RawValue>, Unanswered> {
        let core = &self.core;
        let link = core.present();
        if core.stop.is_cancelled() {
            return Err(Error::Stopped { sent: false }.into());
        }
        let is_first = !ask.repeated;
        if !link.has_ended() {
            match core.ask_on(&link, ask).await {
                // The server does not know the session: it did not take the request.
                Err(Unanswered::Failed(Error::Status { status: 404, .. })) if is_first => link.end(),
                outcome => return outcome,
            }
        }
        if is_first {
            core.renew(&link).await?;
        }
        Err(core.session_lost().into())
    }

    pub(crate) async fn stop(&self) {
        self.core.stop.cancel();
        self.core.present().ended().await;
    }
}

impl Drop for Older {
    fn drop(&mut self) {
        self.core.stop.cancel();
    }
}

impl Core {
    #[expect(clippy::expect_used, reason = "`start` sets it before anything else gets hold of the core")]
    fn present(&self) -> Arc<Link> {
        self.own.present.get().expect("the stream was opened").load_full()
    }

    /// Opens a stream in place of one that ended, unless somebody did.
    async fn renew(self: &Arc<Self>, lost: &Arc<Link>) -> Result<(), Error> {
        let _turn = self.own.renewing.lock().await;
        if !Arc::ptr_eq(&self.present(), lost) {
            return Ok(());
        }
        let link = link::open(self).await.map_err(|error| match error {
            StartError::Opening(error) => error,
            other => Error::Reopen(other.to_string().into()),
        })?;
        // Heard before the stream can be used: what it shows is listed before anything of it is called.
        self.emit(ToolEvent::Reconnected);
        if let Some(present) = self.own.present.get() {
            present.store(link);
        }
        Ok(())
    }

    /// One request on a stream that is open.
    async fn ask_on(self: &Arc<Self>, link: &Arc<Link>, ask: Ask) -> Result<Box<RawValue>, Unanswered> {
        let receiver = link.waiters.wait_for(ask.id, ask.progress.clone()).map_err(Error::unsent)?;
        let _in_flight = ask.name.is_some().then(|| self.board.begin(ask.id, ask.listener.clone()));
        let begun: Arc<AtomicBool> = Arc::default();
        let mut waiting = Waiting {
            core: self,
            link,
            id: ask.id,
            begun: &begun,
            cancellable: ask.cancellable,
            reason: ask.reason.clone(),
        };
        let answer = async {
            self.post(link, &ask, &begun).await?;
            receiver.await.unwrap_or(Err(Error::Stopped { sent: true })).map_err(Unanswered::Failed)
        };
        let outcome = tokio::select! {
            biased;
            () = ask.cancel.cancelled() => Err(Error::Cancelled.into()),
            outcome = answer => {
                waiting.cancellable = false;
                outcome
            }
            () = tokio::time::sleep_until(wire::end_of(ask.deadline)) => Err(Error::TimedOut {
                after: ask.deadline.unwrap_or_default(),
                sent: begun.load(Ordering::Acquire),
            }.into()),
        };
        match outcome {
            Err(Unanswered::Failed(error)) if !begun.load(Ordering::Acquire) => Err(error.unsent().into()),
            outcome => outcome,
        }
    }

    /// Sends a request; its answer comes on the stream.
    async fn post(
        self: &Arc<Self>,
        link: &Arc<Link>,
        ask: &Ask,
        begun: &Arc<AtomicBool>,
    ) -> Result<(), Unanswered> {
        let mut outgoing = Outgoing::post(headers::of_post(), ask.message());
        outgoing.gate.clone_from(&ask.gate);
        outgoing.begun = Arc::clone(begun);
        self.taken(link, outgoing).await
    }

    /// Sends a message and waits until it is taken.
    async fn taken(&self, link: &Link, mut outgoing: Outgoing) -> Result<(), Unanswered> {
        link.add_version(&mut outgoing.headers);
        outgoing.to = Some(link.endpoint.clone());
        let response = self.client.send(&outgoing).await?;
        match answer::form(response, &link.endpoint).await {
            // What is said besides the status is nothing: a word, mostly.
            Ok((Form::Nothing | Form::Json | Form::Events, _)) | Err(Error::NotMcp { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a message that nobody waits for.
    fn say(self: &Arc<Self>, message: String, link: &Arc<Link>, wait: Duration) {
        let (core, link) = (Arc::clone(self), Arc::clone(link));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let outgoing = Outgoing::post(headers::of_post(), message);
                tokio::time::timeout(wait, core.taken(&link, outgoing)).await.ok();
            });
        }
    }
}

/// A request that waits; dropped before its answer, the server is told.
struct Waiting<'a> {
    core: &'a Arc<Core>,
    link: &'a Arc<Link>,
    id: u64,
    begun: &'a AtomicBool,
    cancellable: bool,
    reason: Reason,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.link.waiters.forget(self.id);
        if self.cancellable && self.begun.load(Ordering::Acquire) {
            self.core.board.gave_up(self.id, std::time::Instant::now());
            self.core.say(wire::cancelled(self.id, &self.reason), self.link, ASIDE);
        }
    }
}

/// Opens the stream again whenever it ends, until the tool is stopped.
async fn keep(core: Arc<Core>) {
    loop {
        let link = core.present();
        link.ended().await;
        let mut pause = PAUSES.0;
        loop {
            tokio::time::sleep(pause).await;
            match core.renew(&link).await {
                Ok(()) => break,
                Err(_) => pause = (pause * 2).min(PAUSES.1),
            }
        }
    }
}
