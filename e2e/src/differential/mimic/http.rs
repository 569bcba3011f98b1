//! The server over streamable HTTP, in the era that the path names or in both.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures::StreamExt as _;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::part::Part;
use super::{Client, Incoming, Voice, lock};
use crate::differential::script::Step;
use crate::differential::stage::{Play, Seen, Stage};
use crate::differential::{BATCHES, BODY, Era, PROTOCOL, Way};
use crate::random::Random;

#[derive(Debug)]
struct Server {
    stage: Arc<Stage>,
    sessions: Mutex<HashMap<String, Arc<Client>>>,
    next: AtomicU64,
    /// Whoever comes without a session.
    modern: [Arc<Client>; 4],
}

/// Serves until it is dropped: `/WAY/ERA`, where the era may be `any`, with `/list` behind it for the functions
/// that are only listed.
pub(in crate::differential) async fn serve(listener: TcpListener, stage: Arc<Stage>) {
    let clients = [(Way::Direct, false), (Way::Node, false), (Way::Direct, true), (Way::Node, true)];
    let modern = clients.map(|(way, lists)| Arc::new(Client::new(&stage, way, lists)));
    let server = Server { stage, sessions: Mutex::default(), next: AtomicU64::new(1), modern };
    let router = axum::Router::new().fallback(answer).with_state(Arc::new(server));
    axum::serve(listener, router).await.ok();
}

fn status(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn json(code: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn failure(code: StatusCode, id: Option<&RawValue>, error: i32) -> Response {
    let id = id.map_or("null", RawValue::get);
    json(code, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{error},"message":"no"}}}}"#))
}

async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let mut path = path.trim_start_matches('/').split('/');
    let way = if path.next() == Some("direct") { Way::Direct } else { Way::Node };
    let only = path.next().and_then(Era::named);
    let lists = path.next() == Some("list");
    let (parts, body) = request.into_parts();
    let session = parts.headers.get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    match parts.method {
        Method::POST => {}
        Method::DELETE => {
            let known = session.is_some_and(|id| lock(&server.sessions).remove(&id).is_some());
            return status(if known { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND });
        }
        _ => return status(StatusCode::METHOD_NOT_ALLOWED),
    }
    let Ok(body) = to_bytes(body, BODY).await else { return status(StatusCode::BAD_REQUEST) };
    let text = String::from_utf8_lossy(&body).into_owned();
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if serde_json::from_str::<&RawValue>(text).is_err() {
        return failure(StatusCode::BAD_REQUEST, None, -32700);
    }
    if text.starts_with('[') {
        let client = session.and_then(|id| lock(&server.sessions).get(&id).cloned());
        let items = serde_json::from_str::<Vec<Box<RawValue>>>(text).unwrap_or_default();
        let is_batch =
            parts.headers.get("mcp-protocol-version").is_some_and(|it| it == BATCHES) && !items.is_empty();
        let no = || failure(StatusCode::BAD_REQUEST, None, -32600);
        return client.filter(|_| is_batch).map_or_else(no, |client| batch(&client, &items));
    }
    let is_message = text.contains("\"2.0\"");
    let Some(message) = Incoming::read(text).filter(|_| is_message) else {
        return failure(StatusCode::BAD_REQUEST, None, -32600);
    };
    if message.id.as_ref().is_some_and(|id| {
        !id.get().starts_with(['"', '-']) && !id.get().starts_with(|c: char| c.is_ascii_digit())
    }) {
        return failure(StatusCode::BAD_REQUEST, None, -32600);
    }
    let is_modern = message.params().contains(&format!("{PROTOCOL}protocolVersion"))
        || (session.is_none() && message.method.as_deref() != Some("initialize"));
    let era = if is_modern { Era::Modern } else { Era::Handshake };
    if only.is_some_and(|only| only != era) {
        return failure(StatusCode::BAD_REQUEST, message.id.as_deref(), -32601);
    }
    if era == Era::Modern {
        let client = server.modern.iter().find(|client| client.way == way && client.lists == lists);
        let Some(client) = client else { return status(StatusCode::NOT_FOUND) };
        return message_of(client, era, message, &parts.headers);
    }
    if message.method.as_deref() == Some("initialize") {
        let client = Arc::new(Client::new(&server.stage, way, lists));
        let id = server.next.fetch_add(1, Ordering::Relaxed).to_string();
        let mut response = message_of(&client, era, message, &parts.headers);
        lock(&server.sessions).insert(id.clone(), client);
        if let Ok(id) = id.parse() {
            response.headers_mut().insert("mcp-session-id", id);
        }
        return response;
    }
    let client = session.and_then(|id| lock(&server.sessions).get(&id).cloned());
    match client {
        Some(client) => message_of(&client, era, message, &parts.headers),
        None => failure(StatusCode::NOT_FOUND, message.id.as_deref(), -32600),
    }
}

/// Of the one revision that has batches.
fn batch(client: &Client, items: &[Box<RawValue>]) -> Response {
    let answers = items.iter().filter_map(|item| {
        let Some(message) = Incoming::read(item.get()).filter(|_| item.get().contains("\"2.0\"")) else {
            return Some(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#.to_owned());
        };
        let (method, id) = (message.method.as_ref()?, message.id.as_ref()?);
        let (kind, value) = client.plain(Era::Handshake, method, message.params());
        Some(format!(r#"{{"jsonrpc":"2.0","id":{},"{kind}":{value}}}"#, id.get()))
    });
    let answers: Vec<String> = answers.collect();
    if answers.is_empty() {
        status(StatusCode::ACCEPTED)
    } else {
        json(StatusCode::OK, format!("[{}]", answers.join(",")))
    }
}

/// Answers one message.
fn message_of(client: &Arc<Client>, era: Era, message: Incoming, headers: &HeaderMap) -> Response {
    let (Some(method), Some(id)) = (message.method.clone(), message.id.clone()) else {
        client.hear(&message);
        return status(StatusCode::ACCEPTED);
    };
    let play = client.play(&message).filter(|_| method == "tools/call");
    let Some(play) = play else {
        let (kind, value) = client.plain(era, &method, message.params());
        let is_unknown = era == Era::Modern && value.contains("-32601");
        let code = if is_unknown { StatusCode::NOT_FOUND } else { StatusCode::OK };
        return json(code, format!(r#"{{"jsonrpc":"2.0","id":{},"{kind}":{value}}}"#, id.get()));
    };
    if era == Era::Modern {
        let mirrored = headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-"));
        let mut mirrored: Vec<String> = mirrored
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        mirrored.sort();
        if !play.seen(client.way).iter().any(|seen| matches!(seen, Seen::Headers(_))) {
            play.note(client.way, Seen::Headers(mirrored));
        }
    }
    let (out, messages) = mpsc::unbounded_channel::<String>();
    let voice = Voice { out, ends_with_its_stream: era == Era::Modern };
    let framing = Framing::of(&play);
    let client = Arc::clone(client);
    tokio::spawn(async move {
        Part { client: &client, play: &play, era, message: &message, voice: &voice }.perform().await;
    });
    framing.response(messages)
}

/// How a call's messages are written.
struct Framing {
    json: bool,
    random: Random,
}

impl Framing {
    fn of(play: &Play) -> Self {
        let script = &play.exchange.script;
        let is_silent = |step: &Step| matches!(step, Step::Yield);
        Self { json: script.json && script.steps.iter().all(is_silent), random: Random::new(script.framing) }
    }

    fn response(mut self, messages: mpsc::UnboundedReceiver<String>) -> Response {
        let kind = if self.json { "application/json" } else { "text/event-stream" };
        let pieces = UnboundedReceiverStream::new(messages)
            .flat_map(move |message| futures::stream::iter(self.pieces(&message)));
        let mut response = Response::new(Body::from_stream(pieces.map(Ok::<Bytes, Infallible>)));
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
        response
    }

    /// A message as it is written, in pieces of any size.
    fn pieces(&mut self, message: &str) -> Vec<Bytes> {
        let text = if self.json { message.to_owned() } else { self.event(message) };
        let mut bytes = Bytes::from(text);
        let mut pieces = Vec::new();
        while pieces.len() < 3 && bytes.len() > 1 && self.random.below(3) == 0 {
            pieces.push(bytes.split_to(self.random.below(bytes.len() - 1) + 1));
        }
        pieces.push(bytes);
        pieces
    }

    fn event(&mut self, message: &str) -> String {
        let end = ["\n", "\r\n", "\n", "\r"].get(self.random.below(4)).copied().unwrap_or("\n");
        let mut text = String::new();
        if self.random.below(4) == 0 {
            text.push_str(": a comment");
            text.push_str(end);
        }
        if self.random.below(2) == 0 {
            text.push_str("event: message");
            text.push_str(end);
        }
        let space = if self.random.below(2) == 0 { " " } else { "" };
        for line in message.split('\n') {
            text.push_str("data:");
            text.push_str(space);
            // One blank is taken away.
            text.push_str(if space.is_empty() && line.starts_with(' ') { " " } else { "" });
            text.push_str(line);
            text.push_str(end);
        }
        text.push_str(end);
        text
    }
}
