//! The relay between stdio and the endpoint: every request is a task of its own, so that
//! cancellations overtake, and whatever comes back becomes a line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tools::envelope::{self, Id, Message};

use super::endpoint::{Endpoint, Reply};
use super::header;
use super::lines::{self, LINE_BYTES, Line, Lines};
use super::request::{self, Ended, send};
use super::session::{Current, Session};
use super::{Error, Input, Output};
use crate::gateway::protocol::{CANCELLED, INVALID_REQUEST, LIST_CHANGED, PARSE_ERROR, subscription_meta};

/// Requests under way: as many calls as a node makes at once.
const REQUESTS: usize = 512;
/// Lines that wait to be written; a client that does not read slows us down.
const LINES: usize = 256;
/// For calls under way when stdin ends: clients kill a server after two seconds.
const END_WAIT: Duration = Duration::from_secs(2);
/// What an answer of the client's is passed on as: nothing is said to it.
const ANSWER: &str = "";
/// Between two tries to open a stream again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

struct Relay {
    endpoint: Endpoint,
    out: mpsc::Sender<String>,
    session: Current,
    /// Requests of 2026-07-28 under way: over HTTP they are cancelled by ending them.
    modern: Mutex<HashMap<Id, CancellationToken>>,
    room: Arc<Semaphore>,
    requests: TaskTracker,
    /// Ends streams and whatever is left.
    closing: CancellationToken,
}

/// See [`super::run`].
pub(super) async fn run(endpoint: Endpoint, stdin: Input, stdout: Output) -> Result<(), Error> {
    let (out, messages) = mpsc::channel(LINES);
    let writer = tokio::spawn(lines::write(messages, stdout));
    let relay = Arc::new(Relay {
        endpoint,
        out,
        session: Current::default(),
        modern: Mutex::default(),
        room: Arc::new(Semaphore::new(REQUESTS)),
        requests: TaskTracker::new(),
        closing: CancellationToken::new(),
    });
    let mut lines = Lines::new(stdin);
    let read = loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = relay.out.closed() => break Ok(()),
        };
        match line {
            Ok(Some(Line::Message(line))) => relay.line(line.into()).await,
            Ok(Some(Line::TooLong)) => {
                let sentence = format!("a line is over the limit of {LINE_BYTES} bytes");
                relay.say(envelope::failure(None, &envelope::error_object(INVALID_REQUEST, &sentence))).await;
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(Error::Stdio(error)),
        }
    };
    relay.end().await;
    drop(relay);
    let written = writer.await.unwrap_or(Ok(()));
    read?;
    written.map_err(Error::Stdio)
}

impl Relay {
    async fn say(&self, message: String) {
        send(&self.out, message).await;
    }

    async fn line(self: &Arc<Self>, line: Bytes) {
        let body = line.clone();
        match envelope::parse(&line) {
            Ok(Message::Request { id, method, params }) => match header::modern(&method, params) {
                Some(headers) => self.start_modern(id, &method, headers, body).await,
                None if method == "initialize" => self.initialize(&id, body).await,
                None => self.start_in_session(id, body).await,
            },
            Ok(Message::Notification { method, params }) if method == CANCELLED => {
                self.cancel(params, body).await;
            }
            Ok(Message::Notification { method, .. }) => self.notify(&method, body).await,
            // To a question of a tool's, in a session.
            Ok(Message::Response { .. }) => self.notify(ANSWER, body).await,
            Err(error) => {
                let code = match error {
                    envelope::Error::NotMessage(_) => INVALID_REQUEST,
                    _ => PARSE_ERROR,
                };
                let sentence = format!("failed to {error}");
                let sentence = domain::visible::make_visible(&sentence);
                self.say(envelope::failure(None, &envelope::error_object(code, &sentence))).await;
            }
        }
    }

    /// Nothing else is read until it is answered: what follows depends on it.
    async fn initialize(&self, id: &Id, body: Bytes) {
        let answer = self.session.open(&self.endpoint, body, id).await;
        self.say(answer.unwrap_or_else(|error| request::failure(id, &error))).await;
    }

    async fn start_modern(self: &Arc<Self>, id: Id, method: &str, headers: HeaderMap, body: Bytes) {
        let cancel = self.closing.child_token();
        lock(&self.modern).insert(id.clone(), cancel.clone());
        let is_stream = method == "subscriptions/listen";
        let relay = Arc::clone(self);
        let run_id = id.clone();
        let run = async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = relay.modern_request(&run_id, is_stream, headers, body) => {}
            }
            lock(&relay.modern).remove(&run_id);
        };
        if is_stream { drop(tokio::spawn(run)) } else { self.start(id, run).await }
    }

    async fn modern_request(&self, id: &Id, is_stream: bool, headers: HeaderMap, body: Bytes) {
        let mut pause = PAUSE.0;
        let mut is_open = false;
        loop {
            let out = if is_open { self.without_acknowledgement(id) } else { self.out.clone() };
            let ended = request::exchange(&self.endpoint, headers.clone(), body.clone(), id, &out).await;
            let error = match ended {
                Ok(Ended::Answered) => return,
                Ok(Ended::BrokeOff) => self.endpoint.broken("it broke off"),
                Ok(Ended::SessionLost) => self.endpoint.broken("the node does not know it"),
                Err(error) => error,
            };
            if !is_stream {
                return self.say(request::failure(id, &error)).await;
            }
            // The client's subscription outlives the node that held it.
            is_open = true;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Where a subscription that was opened again speaks to: its client knows that it is open, but
    /// not what it missed.
    fn without_acknowledgement(&self, id: &Id) -> mpsc::Sender<String> {
        let (sender, mut messages) = mpsc::channel::<String>(LINES);
        let out = self.out.clone();
        let missed = format!(r#"{{"_meta":{}}}"#, subscription_meta(id));
        tokio::spawn(async move {
            let mut missed = Some(envelope::notification(LIST_CHANGED, Some(&missed)));
            while let Some(message) = messages.recv().await {
                send(&out, missed.take().unwrap_or(message)).await;
            }
        });
        sender
    }

    async fn start_in_session(self: &Arc<Self>, id: Id, body: Bytes) {
        let Some(session) = self.session.get().await else {
            let sentence =
                "send initialize first, or use revision 2026-07-28 with its metadata in each request";
            let error = envelope::error_object(INVALID_REQUEST, sentence);
            return self.say(envelope::failure(Some(&id), &error)).await;
        };
        let relay = Arc::clone(self);
        let run_id = id.clone();
        self.start(id, async move {
            let outcome = relay.in_session(session, &run_id, body).await;
            if let Err(error) = outcome {
                relay.say(request::failure(&run_id, &error)).await;
            }
        })
        .await;
    }

    async fn in_session(&self, session: Arc<Session>, id: &Id, body: Bytes) -> Result<(), Error> {
        let mut session = session;
        for _ in 0..2 {
            let ended =
                request::exchange(&self.endpoint, session.headers(), body.clone(), id, &self.out).await?;
            match ended {
                Ended::Answered => return Ok(()),
                Ended::BrokeOff => return Err(self.endpoint.broken("it broke off")),
                // It did not run, so it may be sent again.
                Ended::SessionLost => {
                    session = self.session.reopen(&self.endpoint, &session, &self.out).await?;
                }
            }
        }
        Err(Error::SessionLost { url: self.endpoint.name() })
    }

    /// Runs a request as a task, if there is room for one more.
    async fn start(&self, id: Id, run: impl Future<Output = ()> + Send + 'static) {
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            let sentence = format!("this bridge has {REQUESTS} requests under way, which is its limit");
            let error = envelope::error_object(INVALID_REQUEST, &sentence);
            lock(&self.modern).remove(&id);
            return self.say(envelope::failure(Some(&id), &error)).await;
        };
        self.requests.spawn(async move {
            run.await;
            drop(place);
        });
    }

    /// Over HTTP a request of 2026-07-28 is cancelled by ending it, an older one by its session.
    async fn cancel(self: &Arc<Self>, params: Option<&RawValue>, body: Bytes) {
        let id = params
            .and_then(envelope::members)
            .and_then(|params| params.get("requestId"))
            .and_then(Id::from_raw);
        let modern = id.and_then(|id| lock(&self.modern).remove(&id));
        match modern {
            Some(cancel) => cancel.cancel(),
            None => self.notify(CANCELLED, body).await,
        }
    }

    async fn notify(self: &Arc<Self>, method: &str, body: Bytes) {
        // Without a session it is of 2026-07-28, which has none over HTTP.
        let Some(session) = self.session.get().await else { return };
        if method == "notifications/initialized" {
            // Said before anything that follows; whether it arrived shows with that.
            let _ = self.endpoint.post(session.headers(), body).await;
            let relay = Arc::clone(self);
            drop(tokio::spawn(async move { relay.listen(session).await }));
            return;
        }
        let relay = Arc::clone(self);
        self.requests.spawn(async move {
            let _ = relay.endpoint.post(session.headers(), body).await;
        });
    }

    /// Keeps the session's stream open, over interruptions too.
    async fn listen(&self, mut session: Arc<Session>) {
        let mut pause = PAUSE.0;
        loop {
            match self.session.get().await {
                // Opened again, perhaps by a request that found it lost.
                Some(current) if current.is_of_the_same_handshake(&session) => session = current,
                // Another `initialize` of the client's; its stream follows.
                _ => return,
            }
            let opened = tokio::select! {
                () = self.closing.cancelled() => return,
                opened = self.endpoint.get(session.headers()) => opened,
            };
            match opened {
                Ok(Reply::Events(mut events)) => {
                    pause = PAUSE.0;
                    loop {
                        let message = tokio::select! {
                            () = self.closing.cancelled() => return,
                            message = events.next() => message,
                        };
                        let Some(message) = message else { break };
                        self.say(message).await;
                    }
                }
                Ok(Reply::SessionLost) => {
                    let reopened = self.session.reopen(&self.endpoint, &session, &self.out).await;
                    session = reopened.unwrap_or(session);
                }
                // No stream is offered, and none will be.
                Ok(Reply::Nothing | Reply::Json(..)) | Err(Error::Status { .. } | Error::Token { .. }) => {
                    return;
                }
                Err(_) => {}
            }
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE.1),
            }
        }
    }

    /// Lets requests end, then ends the rest and the session.
    async fn end(&self) {
        self.requests.close();
        let _ = tokio::time::timeout(END_WAIT, self.requests.wait()).await;
        self.closing.cancel();
        if let Some(session) = self.session.get().await {
            let _ = tokio::time::timeout(END_WAIT / 2, self.endpoint.delete(session.headers())).await;
        }
        let _ = tokio::time::timeout(END_WAIT / 2, self.requests.wait()).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
