//! The revisions with a handshake, 2025-03-26 to 2025-11-25: `initialize`, then a session.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::response::Response;
use http::{HeaderValue, StatusCode};
use serde_json::value::RawValue;
use tools::LogLevel;
use tools::envelope::{self, Id, Message};

use super::call::{self, Asked};
use super::capability::Capabilities;
use super::post::{Head, respond, unsupported};
use super::protocol::{
    BATCHES, CANCELLED, CAPABILITIES, Era, HANDSHAKE, INVALID_REQUEST, LIST_CHANGED, METHOD_NOT_FOUND,
    MODERN, PARSE_ERROR, PROGRESS, SERVER_INFO, SESSION_HEADER,
};
use super::session::Session;
use super::stream::{self, Announce, OfSession};
use super::{Shared, answer, discover};

/// Messages of one batch; more than clients of that one revision ever sent.
const BATCH: usize = 100;

/// Answers one message.
pub(super) async fn post(shared: &Arc<Shared>, head: &Head<'_>, message: Message<'_>) -> Response {
    if let Message::Request { id, method, params } = &message
        && method == "initialize"
    {
        // Also with the id of a session that we forgot: it starts afresh.
        return initialize(shared, id, *params);
    }
    let session = match session(shared, head) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    if let Message::Request { id, method, params } = &message
        && method == "tools/call"
    {
        return match asked(&session, id, *params) {
            Ok(asked) => respond(shared, head, asked, Some(session.begin(id))).await,
            Err(sentence) => answer::message(envelope::failure(Some(id), &Asked::error(sentence))),
        };
    }
    reply(shared, &session, message).await.map_or_else(answer::accepted, answer::message)
}

/// Answers a batch, which one revision has.
pub(super) async fn batch(shared: &Arc<Shared>, head: &Head<'_>, text: &[u8]) -> Response {
    let bad = |code, sentence: &str| answer::failure(StatusCode::BAD_REQUEST, None, code, sentence);
    let one = "one message is expected; only revision 2025-03-26 has batches";
    if head.version == Some(MODERN) {
        return bad(INVALID_REQUEST, one);
    }
    let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(text) else {
        return bad(PARSE_ERROR, "the body is no JSON");
    };
    let session = match session(shared, head) {
        Ok(session) if session.version == BATCHES => session,
        Ok(_) => return bad(INVALID_REQUEST, one),
        Err(response) => return *response,
    };
    if items.is_empty() || items.len() > BATCH {
        return bad(INVALID_REQUEST, &format!("1 to {BATCH} messages are expected in a batch"));
    }
    let answers = items.into_iter().map(|item| one_of_batch(shared, &session, item));
    let answers: Vec<String> = futures::future::join_all(answers).await.into_iter().flatten().collect();
    if answers.is_empty() {
        return answer::accepted();
    }
    answer::message(format!("[{}]", answers.join(",")))
}

async fn one_of_batch(shared: &Arc<Shared>, session: &Arc<Session>, item: &RawValue) -> Option<String> {
    match envelope::parse_str(item.get()) {
        Err(error) => {
            let error = envelope::error_object(INVALID_REQUEST, &format!("failed to {error}"));
            Some(envelope::failure(None, &error))
        }
        Ok(Message::Request { id, method, params }) if method == "tools/call" => {
            match asked(session, &id, params) {
                Ok(mut asked) => {
                    let under = session.begin(&id);
                    asked.reason = Some(Arc::clone(&under.reason));
                    // Its answers come together: there is no stream for progress.
                    asked.agent.token = None;
                    let answered = call::run(Arc::clone(shared), asked, under.cancel.clone()).await;
                    answered.map(|answered| answered.text)
                }
                Err(sentence) => Some(envelope::failure(Some(&id), &Asked::error(sentence))),
            }
        }
        Ok(message) => reply(shared, session, message).await,
    }
}

/// A call of a session's client.
fn asked(session: &Arc<Session>, id: &Id, params: Option<&RawValue>) -> Result<Asked, &'static str> {
    let mut asked = Asked::read(id.clone(), Era::Handshake, params)?;
    asked.agent.capabilities = session.capabilities.clone();
    asked.agent.log_level = session.log_level();
    asked.agent.session = Some(Arc::clone(session));
    Ok(asked)
}

/// The answer to what is no call; `None` to what wants none.
async fn reply(shared: &Arc<Shared>, session: &Arc<Session>, message: Message<'_>) -> Option<String> {
    let (id, method, params) = match message {
        Message::Request { id, method, params } => (id, method, params),
        Message::Notification { method, params } => {
            noted(session, &method, params);
            return None;
        }
        Message::Response { id, outcome } => {
            if let Some(id) = id {
                session.answered(&id, outcome);
            }
            return None;
        }
    };
    Some(match &*method {
        "ping" => envelope::answer(&id, "{}"),
        "logging/setLevel" => set_level(session, &id, params),
        "tools/list" => discover::tools(shared, &id, params, Some(session)).await,
        _ => {
            let error = envelope::error_object(METHOD_NOT_FOUND, "this server has no such method");
            envelope::failure(Some(&id), &error)
        }
    })
}

/// What a session's client tells us. That its roots changed is told to no tool: tools are asked about
/// roots within calls only, and ask anew in each.
fn noted(session: &Session, method: &str, params: Option<&RawValue>) {
    let id = |name: &str| params.and_then(envelope::members)?.get(name).and_then(Id::from_raw);
    match (method, params) {
        (CANCELLED, _) => {
            if let Some(id) = id("requestId") {
                let reason = params.and_then(envelope::members).and_then(|params| params.get("reason"));
                session.cancel(&id, reason);
            }
        }
        (PROGRESS, Some(params)) => {
            if let Some(id) = id("progressToken") {
                session.progressed(&id, params);
            }
        }
        _ => {}
    }
}

fn set_level(session: &Session, id: &Id, params: Option<&RawValue>) -> String {
    let level = params.and_then(envelope::members).and_then(|params| params.get("level"));
    match level.and_then(envelope::text).and_then(|level| LogLevel::parse(&level)) {
        Some(level) => {
            session.set_log_level(level);
            envelope::answer(id, "{}")
        }
        None => envelope::failure(Some(id), &Asked::error("this log level is none of the protocol's")),
    }
}

fn initialize(shared: &Arc<Shared>, id: &Id, params: Option<&RawValue>) -> Response {
    let params = params.and_then(envelope::members).unwrap_or_default();
    let wanted = params.get("protocolVersion").and_then(envelope::text).unwrap_or_default();
    let [newest, ..] = HANDSHAKE;
    let version = HANDSHAKE.into_iter().find(|version| *version == wanted).unwrap_or(newest);
    let capabilities = Capabilities::read(params.get("capabilities"));
    let Some(session) = shared.sessions.open(version, capabilities) else {
        let sentence = "this node has as many sessions in use as it allows (setting `gateway.sessions`)";
        return answer::failure(StatusCode::SERVICE_UNAVAILABLE, Some(id), INVALID_REQUEST, sentence);
    };
    let result = format!(
        r#"{{"protocolVersion":"{version}","capabilities":{CAPABILITIES},"serverInfo":{SERVER_INFO}}}"#
    );
    let mut response = answer::message(envelope::answer(id, &result));
    if let Ok(value) = HeaderValue::from_str(&session.id) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    response
}

/// The session that a request names.
fn session(shared: &Shared, head: &Head<'_>) -> Result<Arc<Session>, Box<Response>> {
    let bad = |status, sentence: &str| Box::new(answer::failure(status, None, INVALID_REQUEST, sentence));
    if let Some(version) = head.version
        && !HANDSHAKE.contains(&version)
    {
        return Err(Box::new(unsupported(None, version)));
    }
    let Some(id) = head.session else {
        let sentence = "header Mcp-Session-Id is missing: send initialize first, or use revision 2026-07-28 with its metadata in each request";
        return Err(bad(StatusCode::BAD_REQUEST, sentence));
    };
    shared.sessions.get(id).ok_or_else(|| {
        bad(StatusCode::NOT_FOUND, "this session is not, or no longer, known: send initialize")
    })
}

/// Answers a GET: the stream of a session's announcements.
pub(super) fn get(shared: &Arc<Shared>, head: &Head<'_>) -> Response {
    if head.session.is_none() || !head.accepts_events {
        // Also what revision 2026-07-28 wants said.
        return not_allowed("POST");
    }
    let session = match session(shared, head) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let Some(room) = shared.limits.stream() else {
        let sentence = "this node has as many streams as it allows (setting `gateway.streams`)";
        return answer::failure(StatusCode::SERVICE_UNAVAILABLE, None, INVALID_REQUEST, sentence);
    };
    session.stream.send_modify(|number| *number += 1);
    let listed = session.listed.load(Ordering::Relaxed);
    // What changed since its last list, while no stream was open, is said at once.
    let known = if listed > 0 { listed } else { shared.lists.current(&*shared.upstream).revision };
    let of_session = OfSession {
        ended: session.ended.clone(),
        replaced: session.stream.subscribe(),
        messages: session.open_outbox(),
        _use: session.use_(),
    };
    let announce = Announce {
        first: None,
        changed: Some(envelope::notification(LIST_CHANGED, None)),
        last: None,
        known,
        session: Some(of_session),
    };
    stream::announce(shared, announce, room)
}

/// Answers a DELETE: ends the session.
pub(super) fn delete(shared: &Shared, head: &Head<'_>) -> Response {
    match head.session {
        None => not_allowed("POST"),
        Some(id) if shared.sessions.end(id) => answer::empty(StatusCode::NO_CONTENT),
        Some(_) => answer::failure(StatusCode::NOT_FOUND, None, INVALID_REQUEST, "this session is not known"),
    }
}

/// The answer to a method that is not served.
pub(super) fn not_allowed(allowed: &'static str) -> Response {
    let mut response = answer::empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static(allowed));
    response
}
