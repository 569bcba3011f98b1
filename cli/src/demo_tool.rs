//! A small real MCP server that can be told to change: the tool that `pintle demo` runs.
//!
//! Raw JSON-RPC, both eras: the handshake revisions and 2026-07-28. What it lists comes from a control
//! file that it watches; what it was asked to do goes to a log that tells whether a call ever arrived.
//! Started as `pintle demo-tool` over [`stdio`] or [`http`]; not for use outside demos and tests.

use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(crate) mod control;
mod functions;
pub(crate) mod http;
mod log;
pub(crate) mod stdio;

pub(crate) use functions::{GOODBYE, HELLO, TODAY};
pub(crate) use log::Log;

/// The revision without a handshake.
const MODERN: &str = "2026-07-28";

/// The handshake revisions it speaks, newest first.
const HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// What a message wants beyond an answer.
pub(crate) enum Answer {
    /// Nothing to say.
    Nothing,
    /// One message.
    Message(String),
    /// Wants to be told of changes from here on, under the request's id.
    Listen(Value),
    /// The handshake is over: wants to be told of changes without an id.
    Ready,
}

/// The server without its transport.
pub(crate) struct Server {
    /// Answers only the handshake revisions, as many servers do.
    pub(crate) handshake_only: bool,
    /// Where calls are noted.
    pub(crate) log: Log,
}

impl Server {
    /// Answers one message, given what is listed at this moment.
    pub(crate) fn answer(&self, text: &str, listed: &[Box<RawValue>]) -> Answer {
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return Answer::Message(failure(&Value::Null, -32700, "this is not JSON"));
        };
        let Some(method) = message.get("method").and_then(Value::as_str) else { return Answer::Nothing };
        let Some(id) = message.get("id") else {
            return if method == "notifications/initialized" { Answer::Ready } else { Answer::Nothing };
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        let is_modern = params.pointer("/_meta").and_then(|meta| meta.get(VERSION_KEY)).is_some();
        if is_modern && self.handshake_only {
            return Answer::Message(failure(id, -32601, "this server begins with initialize"));
        }
        match method {
            "initialize" => Answer::Message(success(id, &initialized(params))),
            "server/discover" => Answer::Message(success(id, &discovered())),
            "ping" => Answer::Message(success(id, &json!({}))),
            "tools/list" => Answer::Message(list(id, listed, is_modern)),
            "tools/call" => Answer::Message(self.call(id, params, listed, is_modern)),
            "subscriptions/listen" if is_modern => Answer::Listen(id.clone()),
            _ => Answer::Message(failure(id, -32601, "there is no such method")),
        }
    }

    fn call(&self, id: &Value, params: &Value, listed: &[Box<RawValue>], is_modern: bool) -> String {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = params.get("arguments").unwrap_or(&Value::Null);
        self.log.call(name, arguments);
        if !listed.iter().any(|entry| name_of(entry).as_deref() == Some(name)) {
            return failure(id, -32602, "there is no such function");
        }
        let mut result = functions::call(name, arguments);
        if is_modern && let Some(members) = result.as_object_mut() {
            members.insert("resultType".to_owned(), json!("complete"));
        }
        success(id, &result)
    }
}

/// The first message on a subscription.
pub(crate) fn acknowledged(id: &Value) -> String {
    notification(
        "notifications/subscriptions/acknowledged",
        &json!({"notifications": {"toolsListChanged": true}, "_meta": {SUBSCRIPTION_KEY: id}}),
    )
}

/// Says that the list changed; `id` is the subscription's, if the era has them.
pub(crate) fn list_changed(id: Option<&Value>) -> String {
    let params = id.map_or_else(|| json!({}), |id| json!({"_meta": {SUBSCRIPTION_KEY: id}}));
    notification("notifications/tools/list_changed", &params)
}

fn initialized(params: &Value) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let version = HANDSHAKE.into_iter().find(|known| *known == asked).unwrap_or(HANDSHAKE[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": server_info(),
    })
}

fn discovered() -> Value {
    let versions: Vec<&str> = std::iter::once(MODERN).chain(HANDSHAKE).collect();
    json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": {"tools": {"listChanged": true}},
        "ttlMs": 0,
        "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
    })
}

fn server_info() -> Value {
    json!({"name": "pintle-demo-tool", "version": env!("CARGO_PKG_VERSION")})
}

/// The list as it stands in the control file, byte for byte.
fn list(id: &Value, listed: &[Box<RawValue>], is_modern: bool) -> String {
    let entries: Vec<&str> = listed.iter().map(|entry| entry.get()).collect();
    let hints = if is_modern { r#","resultType":"complete","ttlMs":0,"cacheScope":"public""# } else { "" };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{}]{hints}}}}}"#, entries.join(","))
}

fn name_of(entry: &RawValue) -> Option<String> {
    serde_json::from_str::<Value>(entry.get()).ok()?.get("name")?.as_str().map(str::to_owned)
}

fn success(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn failure(id: &Value, code: i32, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

fn notification(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}
