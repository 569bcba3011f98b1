//! A tool server that does in each call what the exchange's script says, in either era, and notes what it sees.
//!
//! It runs in this process, so that both ways' notes can be compared; over stdio its node starts a program that
//! carries bytes to and fro.

mod http;
mod part;
mod stdio;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};

use super::json::{member, string};
use super::script::LEVELS;
use super::stage::{Play, Stage};
use super::{EXCHANGE, Era, Way, lists};

pub(super) use http::serve as serve_http;
pub(super) use stdio::{pipe, serve as serve_stdio};

/// A message of the client.
#[derive(Debug, Deserialize)]
struct Incoming {
    #[serde(default, deserialize_with = "present")]
    id: Option<Box<RawValue>>,
    method: Option<String>,
    #[serde(default, deserialize_with = "present")]
    params: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl Incoming {
    fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()
    }

    fn params(&self) -> &str {
        self.params.as_deref().map_or("{}", RawValue::get)
    }
}

/// The functions that can be played, as they are listed.
const FUNCTIONS: &str = r#"{"name":"any","inputSchema":{"type":"object"}},{"name":"marked","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"count":{"type":"integer","x-mcp-header":"Count"}}}}"#;

/// Whoever talks to the server on one connection or in one session.
#[derive(Debug)]
struct Client {
    stage: Arc<Stage>,
    way: Way,
    /// Whether it sees the functions that are only listed.
    lists: bool,
    /// What it wants to be told, where it said so.
    level: Mutex<Option<usize>>,
    next: AtomicU64,
    asked: Mutex<HashMap<u64, oneshot::Sender<(String, String)>>>,
    /// Calls by their ids.
    calls: Mutex<HashMap<String, watch::Sender<Call>>>,
}

/// Whether a call goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Goes,
    /// With the reason, where one was given.
    Cancelled(Option<String>),
}

/// Where a call's messages go.
#[derive(Debug)]
struct Voice {
    out: mpsc::UnboundedSender<String>,
    /// Whether it is cancelled by nobody listening any more.
    ends_with_its_stream: bool,
}

impl Client {
    fn new(stage: &Arc<Stage>, way: Way, lists: bool) -> Self {
        Self {
            stage: Arc::clone(stage),
            way,
            lists,
            level: Mutex::default(),
            next: AtomicU64::new(1),
            asked: Mutex::default(),
            calls: Mutex::default(),
        }
    }

    /// What an answer or a notification means to the calls under way.
    fn hear(&self, message: &Incoming) {
        let id = |name| member(message.params(), name);
        match message.method.as_deref() {
            Some("notifications/cancelled") => {
                let call = id("requestId").and_then(|id| lock(&self.calls).get(&id).cloned());
                if let Some(call) = call {
                    call.send_replace(Call::Cancelled(id("reason")));
                }
            }
            Some(_) => {}
            None => {
                let id = message.id.as_ref().and_then(|id| id.get().parse().ok());
                let asked = id.and_then(|id: u64| lock(&self.asked).remove(&id));
                let answer = match (&message.result, &message.error) {
                    (Some(result), _) => ("result", result),
                    (None, Some(error)) => ("error", error),
                    (None, None) => return,
                };
                if let Some(asked) = asked {
                    asked.send((answer.0.to_owned(), answer.1.get().to_owned())).ok();
                }
            }
        }
    }

    /// The answer to a request that is no call: `result` or `error`, and its value.
    fn plain(&self, era: Era, method: &str, params: &str) -> (&'static str, String) {
        let result = match (era, method) {
            (_, "tools/list") if self.lists => {
                let cursor = member(params, "cursor").and_then(|cursor| string(&cursor));
                lists::page(&self.stage.functions, cursor.as_deref())
            }
            (_, "tools/list") => format!(r#"{{"resultType":"complete","tools":[{FUNCTIONS}]}}"#),
            (Era::Modern, "server/discover") => {
                let capabilities = r#"{"tools":{},"logging":{}}"#;
                format!(
                    r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{capabilities}}}"#
                )
            }
            (Era::Handshake, "initialize") => {
                let version =
                    member(params, "protocolVersion").unwrap_or_else(|| "\"2025-11-25\"".to_owned());
                let capabilities = r#"{"tools":{},"logging":{}}"#;
                format!(
                    r#"{{"protocolVersion":{version},"capabilities":{capabilities},"serverInfo":{{"name":"mimic","version":"1"}}}}"#
                )
            }
            (Era::Handshake, "ping") => "{}".to_owned(),
            (Era::Handshake, "logging/setLevel") => {
                let level = member(params, "level").and_then(|level| string(&level));
                let Some(level) = level.and_then(|level| LEVELS.iter().position(|known| *known == level))
                else {
                    return ("error", r#"{"code":-32602,"message":"no such level"}"#.to_owned());
                };
                *lock(&self.level) = Some(level);
                "{}".to_owned()
            }
            (_, "tools/call") => {
                // Of no exchange: whoever looks whether it can be called.
                r#"{"content":[]}"#.to_owned()
            }
            _ => return ("error", r#"{"code":-32601,"message":"Method not found"}"#.to_owned()),
        };
        ("result", result)
    }

    /// The exchange that a call belongs to.
    fn play(&self, message: &Incoming) -> Option<Arc<Play>> {
        let meta = member(message.params(), "_meta")?;
        self.stage.find(member(&meta, EXCHANGE)?.parse().ok()?)
    }
}

impl Voice {
    fn say(&self, method: &str, params: &str) {
        self.out.send(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)).ok();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
