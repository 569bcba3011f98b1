//! The demo tool over streamable HTTP at `/mcp`, on a loopback address.
//!
//! Stateless in both eras: the handshake is answered and no session is minted. Changes are told on the
//! GET stream (handshake) or on the answer to `subscriptions/listen` (2026-07-28).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::stream::{self, StreamExt};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::control::Listed;
use super::{Answer, Server, acknowledged, list_changed};

/// Bytes of one message: what MCP's own SDKs read at most.
const MOST_BYTES: usize = 16 << 20;

/// What requests share.
#[derive(Clone)]
struct Shared {
    server: Arc<Server>,
    listed: watch::Receiver<Listed>,
}

/// Listens on `address`; port 0 takes a free one.
///
/// # Errors
/// The address is in use or not this machine's.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers requests until the process ends.
///
/// # Errors
/// The listener failed.
pub(crate) async fn serve(
    server: Server,
    listed: watch::Receiver<Listed>,
    listener: TcpListener,
) -> std::io::Result<()> {
    let shared = Shared { server: Arc::new(server), listed };
    let routes = Router::new()
        .route("/mcp", post(message).get(events))
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(shared);
    axum::serve(listener, routes).await
}

async fn message(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    if is_foreign(&headers) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let now = shared.listed.borrow().clone();
    match shared.server.answer(&String::from_utf8_lossy(&body), &now) {
        Answer::Nothing | Answer::Ready => StatusCode::ACCEPTED.into_response(),
        Answer::Message(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Answer::Listen(id) => changes(shared.listed, Some(id)),
    }
}

async fn events(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    if is_foreign(&headers) {
        return StatusCode::FORBIDDEN.into_response();
    }
    changes(shared.listed, None)
}

/// A stream that tells of each change from now on.
fn changes(mut listed: watch::Receiver<Listed>, id: Option<Value>) -> Response {
    listed.mark_unchanged();
    let first = stream::iter(id.as_ref().map(acknowledged));
    let later = stream::unfold((listed, id), |(mut listed, id)| async move {
        listed.changed().await.ok()?;
        Some((list_changed(id.as_ref()), (listed, id)))
    });
    let events = first.chain(later).map(|text| Ok::<_, Infallible>(Event::default().data(text)));
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// Whether a page of another site sent it: no web page may talk to a tool on this machine.
fn is_foreign(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let host = origin.to_str().ok().and_then(|origin| url::Url::parse(origin).ok());
    !host.is_some_and(|url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")))
}
