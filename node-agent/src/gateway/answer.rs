//! HTTP answers: JSON, nothing, or a stream of events.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::Stream;
use http::{HeaderValue, StatusCode, header};
use tools::envelope::{self, Id};

/// A JSON body.
pub(super) fn json(status: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A JSON-RPC answer.
pub(super) fn message(text: String) -> Response {
    json(StatusCode::OK, text)
}

/// No body; for notifications, and for requests that their client cancelled.
pub(super) fn accepted() -> Response {
    empty(StatusCode::ACCEPTED)
}

/// No body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A JSON-RPC error; without an id where the request's is not known.
pub(super) fn failure(status: StatusCode, id: Option<&Id>, code: i64, sentence: &str) -> Response {
    json(status, envelope::failure(id, &envelope::error_object(code, sentence)))
}

/// A stream of events that are written as they come.
pub(super) fn events(stream: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let stream = futures::StreamExt::map(stream, Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// One message as an event. Line ends in JSON are between members only, and would end the event.
pub(super) fn event(message: &str) -> Bytes {
    let mut out = String::with_capacity(message.len() + 24);
    out.push_str("event: message\ndata: ");
    if message.contains(['\n', '\r']) {
        out.push_str(&message.replace(['\n', '\r'], " "));
    } else {
        out.push_str(message);
    }
    out.push_str("\n\n");
    out.into()
}

/// A sign of life that carries nothing.
pub(super) const fn comment() -> Bytes {
    Bytes::from_static(b":\n\n")
}
