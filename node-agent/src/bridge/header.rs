//! Headers that mirror a message, by the revision it is of.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;
use tools::envelope;

use crate::gateway::protocol::{METHOD_HEADER, NAME_HEADER, SESSION_HEADER, VERSION_HEADER, VERSION_KEY};

/// Headers of a message that carries its revision; `None` for one that does not.
pub(super) fn modern(method: &str, params: Option<&RawValue>) -> Option<HeaderMap> {
    let params = params.and_then(envelope::members)?;
    let version =
        params.get("_meta").and_then(envelope::members)?.get(VERSION_KEY).and_then(envelope::text)?;
    let mut headers = HeaderMap::new();
    set(&mut headers, VERSION_HEADER, &version);
    set(&mut headers, METHOD_HEADER, method);
    if let Some(name) = params.get("name").or_else(|| params.get("uri")).and_then(envelope::text) {
        set(&mut headers, NAME_HEADER, &encoded(&name));
    }
    Some(headers)
}

/// Headers of a message in a session.
pub(super) fn session(id: Option<&str>, version: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    set(&mut headers, VERSION_HEADER, version);
    if let Some(id) = id {
        set(&mut headers, SESSION_HEADER, id);
    }
    headers
}

/// A value that no header can carry is left out; the endpoint says what is missing.
fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// A value as a header carries it (MCP 2026-07-28, transports, "Value Encoding").
fn encoded(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| matches!(byte, 0x20..=0x7E | b'\t')) && value.trim() == value;
    if is_plain && !value.starts_with("=?base64?") {
        return value.to_owned();
    }
    format!("=?base64?{}?=", STANDARD.encode(value))
}
