//! JSON-RPC messages kept as raw JSON: what is forwarded, hashed and pinned stays byte for byte.
//!
//! Lives here: taking one message apart into its members and putting one together from raw parts.
//! Not here: what a method means (`wire`), and bytes on their way (`stdio`, `http`).
//! Called by both transports of this crate and by the node's gateway.
//!
//! No typed SDK stands between the wire and the rest: those drop members they do not know, bend big
//! numbers and fail whole results over one new kind of content.

mod object;
mod repair;
mod scan;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

pub use object::{Object, members, text, with_member, with_members, with_meta, without_member};
pub use repair::{depth, repair_surrogates};
pub use scan::{IdScan, Scanned};

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A byte that is no UTF-8 spoils its own message only.
    #[error("read a message that is not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Offset from the message's first byte.
        at: usize,
    },
    /// The text is no JSON.
    #[error("read a message that is not JSON at byte {at}, near `{near}`: {reason}")]
    NotJson {
        /// Offset from the message's first byte, as near as the parser says.
        at: usize,
        /// At most 40 bytes around the place.
        near: Box<str>,
        /// What the parser found.
        reason: Box<str>,
    },
    /// JSON, but no JSON-RPC 2.0 message.
    #[error("read JSON that is not a JSON-RPC 2.0 message: {0}")]
    NotMessage(&'static str),
}

/// A request's id: its JSON text, so that `1` and `"1"` are two and big numbers stay what they are.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Box<str>);

impl Id {
    /// Reads an id from raw JSON; JSON-RPC allows strings and numbers (and MCP no null).
    pub fn from_raw(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        matches!(text.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9')).then(|| Self(text.into()))
    }

    /// The id as JSON text, to be pasted into a message.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The id as one of our own integers; some servers echo `7` as `7.0`.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.strip_suffix(".0").unwrap_or(&self.0).parse().ok()
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        Self(number.to_string().into())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One JSON-RPC 2.0 message; its members point into the text it was read from.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants an answer under `id`.
    Request {
        /// Chosen by the sender.
        id: Id,
        /// For example `tools/call`.
        method: Cow<'a, str>,
        /// As sent.
        params: Option<&'a RawValue>,
    },
    /// Wants no answer.
    Notification {
        /// For example `notifications/tools/list_changed`.
        method: Cow<'a, str>,
        /// As sent.
        params: Option<&'a RawValue>,
    },
    /// Answers a request.
    Response {
        /// Of the request; absent where the peer could not read it.
        id: Option<Id>,
        /// `result`, or `error` as its raw object.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Keeps an explicit `null` apart from an absent member.
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

/// Takes one message apart.
///
/// A BOM and white space around it are skipped. Nesting is not limited here: members are skimmed, not
/// built, without recursion.
///
/// # Errors
/// Bytes that are no UTF-8, no JSON (a member named twice included) or no JSON-RPC 2.0 message.
pub fn parse(bytes: &[u8]) -> Result<Message<'_>, Error> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|e| Error::NotUtf8 { at: e.valid_up_to() })?;
    parse_str(text)
}

/// Takes one message apart that is known to be UTF-8; see [`parse`].
///
/// # Errors
/// As [`parse`], less the first.
pub fn parse_str(text: &str) -> Result<Message<'_>, Error> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if !text.trim_start().starts_with('{') {
        return Err(Error::NotMessage("it is not an object"));
    }
    let members: Members<'_> = serde_json::from_str(text).map_err(|e| not_json(text, &e))?;
    if members.jsonrpc.as_deref() != Some("2.0") {
        return Err(Error::NotMessage("member `jsonrpc` is not \"2.0\""));
    }
    let id = members.id.and_then(Id::from_raw);
    match (members.method, members.result, members.error) {
        (Some(method), None, None) => match (id, members.id) {
            (Some(id), _) => Ok(Message::Request { id, method, params: members.params }),
            (None, None) => Ok(Message::Notification { method, params: members.params }),
            (None, Some(_)) => Err(Error::NotMessage("a request's id is neither a string nor a number")),
        },
        (None, Some(result), None) => Ok(Message::Response { id, outcome: Ok(result) }),
        // Some servers send `"result": null` beside an error.
        (None, Some(result), Some(error)) if result.get() == "null" => {
            Ok(Message::Response { id, outcome: Err(error) })
        }
        (None, Some(result), Some(error)) if error.get() == "null" => {
            Ok(Message::Response { id, outcome: Ok(result) })
        }
        (None, None, Some(error)) => Ok(Message::Response { id, outcome: Err(error) }),
        (Some(_), ..) => Err(Error::NotMessage("it is a request and an answer at once")),
        (None, Some(_), Some(_)) => Err(Error::NotMessage("it has both a result and an error")),
        (None, None, None) => Err(Error::NotMessage("it has no method, result or error")),
    }
}

fn not_json(text: &str, error: &serde_json::Error) -> Error {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = (before + error.column()).saturating_sub(1);
    let from = text.floor_char_boundary(at.saturating_sub(20));
    let to = text.floor_char_boundary((at + 20).min(text.len()));
    let near = text.get(from..to).unwrap_or_default().into();
    let reason = error.to_string();
    let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason).into();
    Error::NotJson { at, near, reason }
}

/// A request from raw parts; `params` is a JSON object's text.
pub fn request(id: &Id, method: &str, params: Option<&str>) -> String {
    build(Some(id), method, params)
}

/// A notification from raw parts; `params` is a JSON object's text.
pub fn notification(method: &str, params: Option<&str>) -> String {
    build(None, method, params)
}

/// A good answer from a raw result.
pub fn answer(id: &Id, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// A bad answer from a raw error object; without an id where the request's could not be read.
pub fn failure(id: Option<&Id>, error: &str) -> String {
    let id = id.map_or("null", Id::as_json);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// A raw error object from a code and a sentence.
pub fn error_object(code: i64, message: &str) -> String {
    format!(r#"{{"code":{code},"message":{}}}"#, quoted(message))
}

/// A string as JSON text.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn build(id: Option<&Id>, method: &str, params: Option<&str>) -> String {
    let mut out = String::with_capacity(64 + method.len() + params.map_or(0, str::len));
    out.push_str(r#"{"jsonrpc":"2.0""#);
    if let Some(id) = id {
        out.push_str(r#","id":"#);
        out.push_str(id.as_json());
    }
    out.push_str(r#","method":"#);
    out.push_str(&quoted(method));
    if let Some(params) = params {
        out.push_str(r#","params":"#);
        out.push_str(params);
    }
    out.push('}');
    out
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
