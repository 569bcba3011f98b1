//! Messages that are no call, and bodies that are no message: the status and the code are alike on both ways.

use anyhow::Result;
use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::agent::Agent;
use super::json::Writer;
use super::{BATCHES, CAPABILITIES, Era, PROTOCOL};

/// What one of them came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    status: u16,
    /// Of each answer: its id as it is spelled, and its code or that it is good.
    answers: Vec<(String, String)>,
}

/// A body and its headers.
pub(super) struct Odd {
    headers: HeaderMap,
    body: String,
}

/// Any of them that the agent's revision has.
pub(super) fn odd(writer: &mut Writer<'_>, agent: &Agent) -> Odd {
    let kind = writer.random.below(12);
    let id = if writer.chance(2) { writer.string() } else { writer.random.below(1 << 50).to_string() };
    let mut headers = HeaderMap::new();
    let mut message = |writer: &mut Writer<'_>, id: Option<&str>, method: &'static str| {
        headers.extend(agent.headers(method));
        let mut params = vec![];
        if agent.era == Era::Modern {
            let version = format!("\"{}\"", agent.version);
            let meta = [("protocolVersion", version), ("clientCapabilities", CAPABILITIES.to_owned())];
            let meta = meta.map(|(name, value)| (format!("\"{PROTOCOL}{name}\""), value));
            params.push(("_meta", writer.object(&meta)));
        }
        if writer.chance(2) {
            params.push(("x", writer.value()));
        }
        let mut known = vec![("jsonrpc", r#""2.0""#.to_owned()), ("method", format!("\"{method}\""))];
        known.extend(id.map(|id| ("id", id.to_owned())));
        known.push(("params", writer.object_with(&params)));
        writer.object_with(&known)
    };
    let body = match kind {
        0 => message(writer, Some(&id), "ping"),
        1 => message(writer, Some(&id), "x/unknown"),
        2 => message(writer, Some(&id), "tasks/get"),
        3 => message(writer, None, "notifications/x"),
        4 => message(writer, None, "notifications/roots/list_changed"),
        5 => message(writer, None, "notifications/cancelled"),
        // Where to stop reading is not to be known.
        6 => {
            let whole = message(writer, Some(&id), "ping");
            whole.trim_end().trim_end_matches('}').to_owned()
        }
        7 => writer.list(&[]),
        8 => format!("{} trailing", message(writer, Some(&id), "ping")),
        9 => {
            let id = writer.pick(&["null", "true", "[]", "{}"]);
            message(writer, id, "ping")
        }
        10 => message(writer, Some(&id), "ping").replace("\"2.0\"", "\"1.0\""),
        _ if agent.version == BATCHES => {
            let items = [
                message(writer, Some(&id), "ping"),
                message(writer, None, "notifications/x"),
                message(writer, Some("7"), "x/unknown"),
                "{}".to_owned(),
            ];
            writer.list(&items)
        }
        _ => message(writer, Some(&id), "server/unknown"),
    };
    headers.entry("x-odd").or_insert(HeaderValue::from_static("1"));
    Odd { headers, body }
}

/// Sends it.
///
/// # Errors
/// The other end cannot be reached.
pub(super) async fn send(agent: &Agent, odd: &Odd) -> Result<Outcome> {
    let (status, text) = agent.send(odd.headers.clone(), odd.body.clone()).await?;
    let answers = match serde_json::from_str(&text) {
        Ok(Value::Array(all)) => all.iter().map(answer).collect(),
        Ok(one) => vec![answer(&one)],
        Err(_) => Vec::new(),
    };
    Ok(Outcome { status: status.as_u16(), answers })
}

fn answer(message: &Value) -> (String, String) {
    let id = message.get("id").map(ToString::to_string).unwrap_or_default();
    let code = message.pointer("/error/code").map_or_else(|| "good".to_owned(), ToString::to_string);
    (id, code)
}

impl std::fmt::Debug for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.body)
    }
}
