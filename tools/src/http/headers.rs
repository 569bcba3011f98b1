//! Headers of the protocol, and how values become headers (MCP 2026-07-28, "Request Metadata").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::value::RawValue;

use crate::envelope;
use crate::wire::{Ask, Era, Peer};

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Of the event after which a stream goes on.
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAM: &str = "mcp-param-";

/// Revisions before the version header.
const WITHOUT_VERSION: [&str; 2] = ["2025-03-26", "2024-11-05"];

/// Headers of a POST with a message.
pub(super) fn of_post() -> HeaderMap {
    let accept = HeaderValue::from_static("application/json, text/event-stream");
    HeaderMap::from_iter([
        (header::ACCEPT, accept),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    ])
}

/// Headers of a GET for a stream.
pub(super) fn of_stream() -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("text/event-stream"))])
}

/// Adds what the era says about each request.
pub(super) fn add_era(headers: &mut HeaderMap, peer: &Peer, session: Option<&HeaderValue>) {
    if !WITHOUT_VERSION.contains(&peer.version.as_ref())
        && let Ok(version) = HeaderValue::from_str(&peer.version)
    {
        headers.insert(VERSION, version);
    }
    if let (Era::Handshake, Some(session)) = (peer.era, session) {
        headers.insert(SESSION, session.clone());
    }
}

/// Adds what the modern era mirrors of a request.
pub(super) fn add_mirrored(headers: &mut HeaderMap, ask: &Ask) {
    headers.insert(METHOD, HeaderValue::from_static(ask.method));
    if let Some(name) = &ask.name {
        headers.insert(NAME, encode(name));
    }
    for (param, value) in &ask.header_params {
        let name = HeaderName::from_bytes(format!("{PARAM}{}", param.name).as_bytes());
        // What is no header name or value is left to the server, which says so (-32020).
        if let (Ok(name), Some(value)) = (name, plain(value)) {
            headers.insert(name, value);
        }
    }
}

/// A string, whole number or boolean; other kinds have no header.
fn plain(value: &RawValue) -> Option<HeaderValue> {
    if let Some(text) = envelope::text(value) {
        return Some(encode(&text));
    }
    matches!(value.get().as_bytes().first(), Some(b'-' | b'0'..=b'9' | b't' | b'f'))
        .then(|| encode(value.get()))
}

/// Plain where a header can carry it, else in the protocol's Base64 form.
pub(super) fn encode(text: &str) -> HeaderValue {
    let visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    let blank_end = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let like_base64 = text.starts_with("=?base64?") && text.ends_with("?=");
    let carried = visible && !blank_end && !like_base64;
    let value = if carried { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) };
    HeaderValue::try_from(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_headers_cannot_carry_are_written_in_base64() {
        for (text, wanted) in [
            ("get_weather", "get_weather"),
            ("Seattle, WA", "Seattle, WA"),
            ("", ""),
            (" x", "=?base64?IHg=?="),
            ("x\t", "=?base64?eAk=?="),
            ("Zürich", "=?base64?WsO8cmljaA==?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?IHg=?=", "=?base64?PT9iYXNlNjQ/SUhnPT89?="),
        ] {
            assert_eq!(encode(text), wanted, "{text:?}");
        }
    }
}
