//! One POST: reads the body, finds the era, hands the message on; and answers calls in both eras.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tools::envelope::{self, Message};

use super::call::{self, Answered, Asked};
use super::protocol::{
    HANDSHAKE, INVALID_REQUEST, METHOD_HEADER, MODERN, PARSE_ERROR, SESSION_HEADER, VERSION_HEADER,
    VERSION_KEY,
};
use super::session::Under;
use super::stream::{self, Answer};
use super::{Shared, answer, handshake, modern, protocol};

/// What the headers of a request say.
pub(super) struct Head<'r> {
    pub(super) headers: &'r HeaderMap,
    /// `MCP-Protocol-Version`.
    pub(super) version: Option<&'r str>,
    /// `Mcp-Session-Id`.
    pub(super) session: Option<&'r str>,
    pub(super) accepts_json: bool,
    pub(super) accepts_events: bool,
}

impl<'r> Head<'r> {
    pub(super) fn new(headers: &'r HeaderMap) -> Self {
        let accepts = |kind: &str, group: &str| {
            let mut all = headers.get_all(header::ACCEPT).iter().peekable();
            // Who names nothing takes anything.
            all.peek().is_none()
                || all.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|one| {
                    let one = one.split(';').next().unwrap_or_default().trim();
                    [kind, group, "*/*"].iter().any(|known| one.eq_ignore_ascii_case(known))
                })
        };
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            headers,
            version: text(VERSION_HEADER),
            session: text(SESSION_HEADER),
            accepts_json: accepts("application/json", "application/*"),
            accepts_events: accepts("text/event-stream", "text/*"),
        }
    }
}

/// Answers one POST.
pub(super) async fn handle(shared: &Arc<Shared>, parts: &Parts, body: Body) -> Response {
    let head = Head::new(&parts.headers);
    let bad = |status, sentence: &str| answer::failure(status, None, INVALID_REQUEST, sentence);
    let kind = parts.headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    if kind.is_some_and(|kind| !kind.trim_start().to_ascii_lowercase().starts_with("application/json")) {
        return bad(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a body of Content-Type application/json is expected",
        );
    }
    if !head.accepts_json && !head.accepts_events {
        let sentence = "answers are application/json or text/event-stream; Accept names neither";
        return bad(StatusCode::NOT_ACCEPTABLE, sentence);
    }
    let bytes = match read(shared, body).await {
        Ok(bytes) => bytes,
        Err(response) => return *response,
    };
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes).trim_ascii_start();
    if text.first() == Some(&b'[') {
        return handshake::batch(shared, &head, text).await;
    }
    match envelope::parse(text) {
        Ok(message) => message_of_an_era(shared, &head, message).await,
        Err(error @ envelope::Error::NotMessage(_)) => {
            bad(StatusCode::BAD_REQUEST, &format!("failed to {error}"))
        }
        Err(error) => {
            let sentence = domain::visible::make_visible(&format!("failed to {error}")).into_owned();
            answer::failure(StatusCode::BAD_REQUEST, None, PARSE_ERROR, &sentence)
        }
    }
}

async fn read(shared: &Shared, body: Body) -> Result<bytes::Bytes, Box<Response>> {
    let config = &shared.config;
    let bad = |status, sentence: String| Box::new(answer::failure(status, None, INVALID_REQUEST, &sentence));
    let limited = Limited::new(body, config.body_bytes).collect();
    match tokio::time::timeout(config.read_wait, limited).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(bad(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the request is over the limit of {} bytes (setting `gateway.body_bytes`)",
                config.body_bytes
            ),
        )),
        Ok(Err(_)) => Err(bad(StatusCode::BAD_REQUEST, "the request's body was cut off".to_owned())),
        Err(_) => Err(bad(
            StatusCode::REQUEST_TIMEOUT,
            format!(
                "the request did not arrive within {} s (setting `gateway.read_wait`)",
                config.read_wait.as_secs()
            ),
        )),
    }
}

async fn message_of_an_era(shared: &Arc<Shared>, head: &Head<'_>, message: Message<'_>) -> Response {
    let (method, params) = match &message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            (&**method, *params)
        }
        Message::Response { .. } => ("", None),
    };
    match era(head, method, params) {
        protocol::Era::Modern => modern::post(shared, head, message).await,
        protocol::Era::Handshake => handshake::post(shared, head, message).await,
    }
}

/// A request that carries its version is modern, `initialize` and what follows it is not (MCP
/// 2026-07-28, versioning, "dual-era"). Of the rest the headers decide.
fn era(head: &Head<'_>, method: &str, params: Option<&RawValue>) -> protocol::Era {
    let meta = params.and_then(envelope::members).and_then(|params| params.get("_meta"));
    let is_versioned = meta.and_then(envelope::members).is_some_and(|meta| meta.get(VERSION_KEY).is_some());
    let is_handshake = match head.version {
        _ if is_versioned => false,
        _ if method == "initialize" => true,
        Some(version) => HANDSHAKE.contains(&version),
        None => {
            head.session.is_some()
                || !(method == "server/discover" || head.headers.contains_key(METHOD_HEADER))
        }
    };
    if is_handshake { protocol::Era::Handshake } else { protocol::Era::Modern }
}

/// Answers a call: as a stream if its client wants progress and can read one, else as JSON.
pub(super) async fn respond(
    shared: &Arc<Shared>,
    head: &Head<'_>,
    mut asked: Asked,
    under: Option<Under>,
) -> Response {
    asked.agent.token = asked.agent.token.take().filter(|_| head.accepts_events);
    asked.reason = under.as_ref().map(|under| Arc::clone(&under.reason));
    let is_stream = asked.agent.token.is_some() || !head.accepts_json;
    let cancel = under.as_ref().map_or_else(CancellationToken::new, |under| under.cancel.clone());
    let mut messages = None;
    if head.accepts_events && asked.agent.listens() {
        let (out, receiver) = mpsc::channel(stream::MESSAGES_KEPT);
        (asked.agent.out, messages) = (Some(out), Some(receiver));
    }
    let is_handshake = under.is_some();
    let guard = (is_handshake && shared.config.cancel_on_disconnect).then(|| cancel.clone().drop_guard());
    let run = {
        let shared = Arc::clone(shared);
        async move {
            let _under = under;
            call::run(shared, asked, cancel).await
        }
    };
    let mut answer: Answer = Box::pin(run);
    if is_handshake {
        answer = Box::pin(Lasting(Some(answer)));
    }
    let mut first = None;
    if !is_stream {
        // A stream only where there is something to be said before the answer.
        let answered = tokio::select! {
            biased;
            Some(message) = said(&mut messages) => {
                first = Some(message);
                None
            }
            answered = &mut answer => Some(answered),
        };
        if let Some(answered) = answered {
            // What was said in the same moment comes first.
            first = messages.as_mut().and_then(|messages| messages.try_recv().ok());
            if first.is_none() {
                drop(guard);
                return answered.map_or_else(answer::accepted, |it| answer::json(it.status, it.text));
            }
            answer = Box::pin(std::future::ready(answered));
        }
    }
    let said = stream::Said { messages, first };
    stream::call(answer, said, shared.config.keep_alive, guard)
}

/// A call that goes on if its connection is lost, as the handshake revisions want it: in a task of its own, which
/// one that is waited for does not need.
struct Lasting(Option<Answer>);

impl Future for Lasting {
    type Output = Option<Answered>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.0 else { return Poll::Ready(None) };
        let answered = std::task::ready!(call.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(answered)
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        if let (Some(call), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(call);
        }
    }
}

/// What comes next on a channel that may not be there; nothing then.
pub(super) async fn said<T>(messages: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match messages {
        Some(messages) => messages.recv().await,
        None => None,
    }
}

/// The answer to a version that we do not speak.
pub(super) fn unsupported(id: Option<&envelope::Id>, requested: &str) -> Response {
    let error = format!(
        r#"{{"code":{},"message":"Unsupported protocol version","data":{{"supported":{},"requested":{}}}}}"#,
        protocol::UNSUPPORTED_VERSION,
        protocol::supported(),
        envelope::quoted(requested)
    );
    answer::json(StatusCode::BAD_REQUEST, envelope::failure(id, &error))
}

/// Whether a version is one that a request may name in its header.
pub(super) fn is_spoken(version: &str) -> bool {
    version == MODERN || HANDSHAKE.contains(&version)
}
