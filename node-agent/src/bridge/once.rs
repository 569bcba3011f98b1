//! One call, or one list, for commands of ours; revision 2026-07-28.

use serde_json::value::RawValue;
use tools::envelope::{self, Id, Message, quoted};
use tools::{RawResult, RpcError};

use super::endpoint::{Endpoint, Reply};
use super::{Error, header};
use crate::gateway::protocol::{CAPABILITIES_KEY, MODERN, PROGRESS, REFUSAL_KEY, VERSION_KEY};

/// Pages of a list: a node lists at most 10,000 functions, and pages are of a thousand.
const PAGES: usize = 1_000;

/// How a call ended.
#[derive(Debug)]
pub struct CallOutcome {
    /// The raw result, as the gateway marked it.
    pub result: Box<RawValue>,
    /// Member `isError`.
    pub is_error: bool,
    /// The code, if the node did not make the call.
    pub refusal: Option<Box<str>>,
}

/// Calls a function by its ID or model name. `on_progress` gets the raw params of each progress message.
///
/// Dropping the future cancels the call.
///
/// # Errors
/// The node cannot be reached or used, or the tool answered with a JSON-RPC error. A refusal is no
/// error but an outcome.
pub async fn call(
    endpoint: &Endpoint,
    function: &str,
    arguments: Option<&RawValue>,
    mut on_progress: impl FnMut(&RawValue) + Send,
) -> Result<CallOutcome, Error> {
    let arguments = arguments.map_or("{}", RawValue::get);
    let params = format!(r#"{{"name":{},"arguments":{arguments},"_meta":{}}}"#, quoted(function), meta(true));
    let RawResult(result) = ask(endpoint, "tools/call", &params, &mut on_progress).await.map(RawResult)?;
    let is_error = RawResult(result.clone()).is_error();
    let refusal = envelope::members(&result)
        .and_then(|members| members.get("_meta"))
        .and_then(envelope::members)
        .and_then(|meta| meta.get(REFUSAL_KEY))
        .and_then(envelope::text)
        .map(Into::into);
    Ok(CallOutcome { result, is_error, refusal })
}

/// The whole list as models get it, each entry raw, in its order.
///
/// # Errors
/// As [`call`].
pub async fn list(endpoint: &Endpoint) -> Result<Vec<Box<RawValue>>, Error> {
    let mut entries = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES {
        let at =
            cursor.map_or_else(String::new, |cursor: String| format!(r#""cursor":{},"#, quoted(&cursor)));
        let params = format!(r#"{{{at}"_meta":{}}}"#, meta(false));
        let page = ask(endpoint, "tools/list", &params, &mut |_| {}).await?;
        let members = envelope::members(&page).unwrap_or_default();
        let tools = members.get("tools").map(|tools| serde_json::from_str::<Vec<Box<RawValue>>>(tools.get()));
        let Some(Ok(tools)) = tools else { return Err(endpoint.broken("it is no list")) };
        entries.extend(tools);
        match members.get("nextCursor").and_then(envelope::text) {
            None => return Ok(entries),
            Some(next) => cursor = Some(next.into_owned()),
        }
    }
    Err(endpoint.broken("the list does not end"))
}

fn meta(wants_progress: bool) -> String {
    let token = if wants_progress { r#""progressToken":1,"# } else { "" };
    let client = format!(r#"{{"name":"pintle","version":"{}"}}"#, env!("CARGO_PKG_VERSION"));
    format!(
        r#"{{{token}"{VERSION_KEY}":"{MODERN}","{CAPABILITIES_KEY}":{{}},"io.modelcontextprotocol/clientInfo":{client}}}"#
    )
}

async fn ask(
    endpoint: &Endpoint,
    method: &str,
    params: &str,
    on_progress: &mut (dyn FnMut(&RawValue) + Send),
) -> Result<Box<RawValue>, Error> {
    let id = Id::from(1);
    let body = envelope::request(&id, method, Some(params));
    let headers = RawValue::from_string(params.to_owned())
        .ok()
        .and_then(|params| header::modern(method, Some(&params)))
        .ok_or_else(|| endpoint.broken("the request cannot be written"))?;
    let (_, reply) = endpoint.post(headers, body.into()).await?;
    match reply {
        Reply::Json(_, body) => outcome(endpoint, &String::from_utf8_lossy(&body)),
        Reply::Events(mut events) => {
            while let Some(message) = events.next().await {
                match envelope::parse_str(&message) {
                    Ok(Message::Notification { method, params: Some(params) }) if method == PROGRESS => {
                        on_progress(params);
                    }
                    Ok(Message::Response { .. }) => return outcome(endpoint, &message),
                    _ => {}
                }
            }
            Err(endpoint.broken("it broke off"))
        }
        Reply::Nothing | Reply::SessionLost => Err(endpoint.broken("it is no answer")),
    }
}

fn outcome(endpoint: &Endpoint, message: &str) -> Result<Box<RawValue>, Error> {
    match envelope::parse_str(message) {
        Ok(Message::Response { outcome: Ok(result), .. }) => Ok(result.to_owned()),
        Ok(Message::Response { outcome: Err(error), .. }) => Err(Error::Rpc(RpcError::from_raw(error))),
        _ => Err(endpoint.broken("it is no answer")),
    }
}
