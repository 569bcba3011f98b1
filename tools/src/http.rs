//! A tool over streamable HTTP: an endpoint somewhere, each request a POST of its own.
//!
//! Both eras: 2026-07-28 without sessions, and the handshake revisions with them. The transport of
//! 2024-11-05 (a GET that names where to POST) is [`older`].

mod address;
mod answer;
mod base;
mod client;
#[cfg(test)]
mod fuzz;
mod headers;
mod listen;
pub(crate) mod older;
mod open;
mod resume;
mod session;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderMap;
use reqwest::Response;
use serde_json::value::RawValue;

use crate::call::{RawProgress, Reason};
use crate::dialog::Said;
use crate::envelope::{self, IdScan, Message};
use crate::error::{Error, RpcError};
use crate::spec::UrlSpec;
use crate::start::StartError;
use crate::tool::Events;
use crate::wire::{self, Ask, Era, Peer, Unanswered};
use answer::Form;
use base::Base;
use client::Outgoing;
use session::{Doubt, Session, Sessions};

/// For what nobody waits for: cancellations, the end of a session.
const ASIDE: Duration = Duration::from_secs(5);

/// A remote tool.
pub(crate) struct Http {
    core: Arc<Core>,
}

type Core = Base<Own>;

#[derive(Default)]
struct Own {
    sessions: OnceLock<Sessions>,
    /// How often the stream of announcements was opened.
    opened: AtomicU64,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("url", &self.core.client.shown()).finish_non_exhaustive()
    }
}

impl Http {
    /// Opens the endpoint.
    pub(crate) async fn start(spec: UrlSpec, events: Events) -> Result<Self, StartError> {
        let opening = spec.opening;
        let core = Core::new(spec, events)?;
        let session = open::open(&core, opening).await?;
        // In the handshake era questions come there too, also from servers that announce nothing.
        let listens = session.peer.list_changed || session.peer.era == Era::Handshake;
        core.own.sessions.get_or_init(|| Sessions::new(session));
        if listens {
            let listening = Arc::clone(&core);
            let stop = core.stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(listen::listen(listening)).await });
        }
        Ok(Self { core })
    }

    pub(crate) fn peer(&self) -> Peer {
        self.core.sessions().present().peer.clone()
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.core.next_id()
    }

    pub(crate) fn connected_to(&self) -> Option<SocketAddr> {
        self.core.client.connected_to()
    }

    /// One request. Ends with the answer, the deadline, the caller's wish or the stop.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Box<RawValue>, Unanswered> {
        let core = &self.core;
        let session = core.sessions().present();
        let _in_flight = ask.name.is_some().then(|| core.board.begin(ask.id, ask.listener.clone()));
        let mut waiting = Waiting {
            core: Arc::clone(core),
            session: Arc::clone(&session),
            id: ask.id,
            begun: Arc::default(),
            answered: false,
            reason: ask.reason.clone(),
        };
        let begun = Arc::clone(&waiting.begun);
        let outcome = tokio::select! {
            biased;
            () = ask.cancel.cancelled() => return Err(Error::Cancelled.into()),
            () = core.stop.cancelled() => {
                Err(Error::Stopped { sent: begun.load(Ordering::Acquire) }.into())
            },
            outcome = core.ask(&ask, &session, &begun) => outcome,
            () = tokio::time::sleep_until(wire::end_of(ask.deadline)) => return Err(Error::TimedOut {
                after: ask.deadline.unwrap_or_default(),
                sent: begun.load(Ordering::Acquire),
            }.into()),
        };
        waiting.answered = true;
        outcome
    }

    pub(crate) async fn stop(&self) {
        self.core.stop.cancel();
        let session = self.core.sessions().present();
        if session.id.is_some() {
            let mut headers = HeaderMap::new();
            headers::add_era(&mut headers, &session.peer, session.id.as_ref());
            let mut delete = Outgoing::get(headers);
            delete.method = None;
            // Servers need not know DELETE (405), and are left anyway.
            tokio::time::timeout(ASIDE, self.core.client.send(&delete)).await.ok();
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.core.stop.cancel();
    }
}

/// A request that waits; dropped before its answer, a server of the handshake era is told. In the modern
/// era closing the stream says it.
struct Waiting {
    core: Arc<Core>,
    session: Arc<Session>,
    id: u64,
    begun: Arc<AtomicBool>,
    answered: bool,
    reason: Reason,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.answered || self.session.peer.era == Era::Modern || !self.begun.load(Ordering::Acquire) {
            return;
        }
        self.core.board.gave_up(self.id, std::time::Instant::now());
        self.core.say(wire::cancelled(self.id, &self.reason), Arc::clone(&self.session), ASIDE);
    }
}

impl Core {
    #[expect(clippy::expect_used, reason = "`start` sets it before anything else gets hold of the core")]
    fn sessions(&self) -> &Sessions {
        self.own.sessions.get().expect("the endpoint was opened")
    }

    fn streams_opened(&self) -> u64 {
        self.own.opened.load(Ordering::Acquire)
    }

    /// One request in the present session, which is tested, found lost and opened anew here.
    async fn ask(
        self: &Arc<Self>,
        ask: &Ask,
        session: &Arc<Session>,
        begun: &Arc<AtomicBool>,
    ) -> Result<Box<RawValue>, Unanswered> {
        if session.suspect.load(Ordering::Acquire) {
            self.sessions().test(self, session).await?;
        }
        let error = match self.exchange(ask, session, begun).await {
            Err(Unanswered::Failed(error)) => error,
            other => return other,
        };
        match Self::session_doubt(session, &error) {
            Doubt::Lost if !ask.repeated => {
                self.sessions().renew(self, session).await?;
                return Err(self.session_lost().into());
            }
            Doubt::Lost | Doubt::Suspect => session.suspect.store(true, Ordering::Release),
            Doubt::None => {}
        }
        Err(match error {
            Error::Status { rpc: Some(error), .. } => Error::Rpc(*error),
            error => error,
        }
        .into())
    }

    /// One request as it is, without looking after the session.
    async fn exchange(
        self: &Arc<Self>,
        ask: &Ask,
        session: &Session,
        begun: &Arc<AtomicBool>,
    ) -> Result<Box<RawValue>, Unanswered> {
        let mut headers = headers::of_post();
        headers::add_era(&mut headers, &session.peer, session.id.as_ref());
        if session.peer.era == Era::Modern {
            headers::add_mirrored(&mut headers, ask);
        }
        let response = self.post(ask, headers, begun).await?;
        Ok(self.answer(response, ask, Some(session)).await?)
    }

    async fn post(
        &self,
        ask: &Ask,
        headers: HeaderMap,
        begun: &Arc<AtomicBool>,
    ) -> Result<Response, Unanswered> {
        let mut outgoing = Outgoing::post(headers, ask.message());
        outgoing.gate.clone_from(&ask.gate);
        outgoing.begun = Arc::clone(begun);
        self.client.send(&outgoing).await
    }

    /// The answer to a request, in whichever form it comes; what comes before it is handled on the way.
    /// `session` is `None` while it is being opened.
    async fn answer(
        self: &Arc<Self>,
        response: Response,
        ask: &Ask,
        session: Option<&Session>,
    ) -> Result<Box<RawValue>, Error> {
        let limit = self.limits.message_bytes;
        let ended = || Err(Error::StreamEnded { url: self.client.shown() });
        match answer::form(response, &self.client.url).await? {
            (Form::Nothing, _) => ended(),
            (Form::Json, response) => {
                let body = answer::body(response, limit, &self.client).await?;
                let answer = match envelope::parse(&body).map_err(Error::Unreadable)? {
                    Message::Response { outcome, .. } => Some(wire::outcome(outcome)),
                    Message::Request { .. } | Message::Notification { .. } => None,
                };
                answer.unwrap_or_else(ended)
            }
            (Form::Events, response) => self.read(response, ask, session).await,
        }
    }

    /// Handles one message of a stream; gives the outcome if it answers `ask`.
    fn handle(self: &Arc<Self>, data: &str, ask: Option<&Ask>) -> Option<Result<Box<RawValue>, Error>> {
        let message = match envelope::parse_str(data) {
            Ok(message) => message,
            Err(error) => return spoilt(data, ask?, error),
        };
        match &message {
            Message::Response { id, outcome } => {
                // Without an id it could not read the request, which here is this one.
                let ours = id.as_ref().map(envelope::Id::as_u64);
                return match ours {
                    Some(id) if id == Some(ask?.id) => Some(wire::outcome(*outcome)),
                    None => outcome
                        .err()
                        .filter(|_| ask.is_some())
                        .map(|e| Err(Error::Rpc(RpcError::from_raw(e)))),
                    Some(_) => None,
                };
            }
            Message::Request { id, method, params } => {
                // In the modern era there are none, and no answers to them.
                let session = self.own.sessions.get().map(Sessions::present);
                if let Some(session) = session.filter(|session| session.peer.era == Era::Handshake) {
                    self.asked(id, method, *params, ask.map(|ask| ask.id), session);
                }
            }
            Message::Notification { method, params } => match (method.as_ref(), params) {
                (wire::ACKNOWLEDGED, _) => self.stream_opened(true),
                ("notifications/progress", Some(params)) => progress(params, ask),
                _ => self.hear(method, *params, ask.map(|ask| ask.id)),
            },
        }
        None
    }

    /// A request of the server's own: of the call whose stream it came on, if it did.
    fn asked(
        self: &Arc<Self>,
        id: &envelope::Id,
        method: &str,
        params: Option<&RawValue>,
        of_call: Option<u64>,
        session: Arc<Session>,
    ) {
        if method == "ping" {
            return self.say(envelope::answer(id, "{}"), session, ASIDE);
        }
        let core = Arc::clone(self);
        // The server waits for it, and it may be as large as a result.
        let wait = self.limits.start;
        let say = move |message| core.say(message, Arc::clone(&session), wait);
        self.board.ask(id, method, params, of_call, say);
    }

    /// Sends a notification and waits until it is taken.
    async fn notify(&self, message: String, session: &Session) -> Result<(), Error> {
        let mut headers = headers::of_post();
        headers::add_era(&mut headers, &session.peer, session.id.as_ref());
        let response = self.client.send(&Outgoing::post(headers, message)).await?;
        match answer::form(response, &self.client.url).await {
            // Some answer 200 with a page or a word.
            Ok(_) | Err(Error::NotMcp { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends a message that nobody waits for (handshake era).
    fn say(self: &Arc<Self>, message: String, session: Arc<Session>, wait: Duration) {
        if session.peer.era == Era::Modern {
            return;
        }
        let core = Arc::clone(self);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::timeout(wait, core.notify(message, &session)).await.ok();
            });
        }
    }
}

/// An unreadable message of this stream: the answer to `ask`, unless it says that it is another's.
fn spoilt(data: &str, ask: &Ask, error: envelope::Error) -> Option<Result<Box<RawValue>, Error>> {
    let mut scan = IdScan::default();
    scan.feed(data.as_bytes());
    let scanned = scan.finish();
    let ours = scanned.is_message && (scanned.answers.is_empty() || scanned.answers.contains(&ask.id));
    ours.then_some(Err(Error::Unreadable(error)))
}

fn progress(params: &RawValue, ask: Option<&Ask>) {
    let Some((id, progress)) = ask.and_then(|ask| ask.progress.as_ref().map(|progress| (ask.id, progress)))
    else {
        return;
    };
    let token = envelope::members(params).and_then(|members| members.get("progressToken"));
    if token.and_then(envelope::Id::from_raw).and_then(|token| token.as_u64()) == Some(id) {
        progress.hear(Said::Progress(RawProgress(params.to_owned())));
    }
}
