//! One call, or one list, for commands of ours; revision 2026-07-28.

use futures::future::BoxFuture;
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

impl CallOutcome {
    /// The raw result's text.
    pub fn get(&self) -> &str {
        self.result.get()
    }
}

/// Calls a function by its ID or model name, with raw JSON arguments. `on_progress` gets what the
/// tool says meanwhile: its message, or else how far it is.
///
/// Dropping the future cancels the call.
///
/// # Errors
/// The node cannot be reached or used, or the tool answered with a JSON-RPC error. A refusal is no
/// error but an outcome.
pub fn call<'a>(
    url: &'a str,
    token: &'a str,
    function: &'a str,
    arguments: &'a str,
    on_progress: &'a mut (dyn FnMut(&str) + Send),
) -> BoxFuture<'a, Result<CallOutcome, Error>> {
    Box::pin(call_once(url, token, function, arguments, on_progress))
}

async fn call_once(
    url: &str,
    token: &str,
    function: &str,
    arguments: &str,
    on_progress: &mut (dyn FnMut(&str) + Send),
) -> Result<CallOutcome, Error> {
    let endpoint = Endpoint::new(url, token)?;
    let arguments: &RawValue = serde_json::from_str(arguments).map_err(Error::Arguments)?;
    let params = format!(r#"{{"name":{},"arguments":{arguments},"_meta":{}}}"#, quoted(function), meta(true));
    let result = ask(&endpoint, "tools/call", &params, on_progress).await?;
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
pub fn list<'a>(url: &'a str, token: &'a str) -> BoxFuture<'a, Result<Vec<Box<RawValue>>, Error>> {
    Box::pin(list_pages(url, token))
}

async fn list_pages(url: &str, token: &str) -> Result<Vec<Box<RawValue>>, Error> {
    let endpoint = Endpoint::new(url, token)?;
    let mut entries = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES {
        let at =
            cursor.map_or_else(String::new, |cursor: String| format!(r#""cursor":{},"#, quoted(&cursor)));
        let params = format!(r#"{{{at}"_meta":{}}}"#, meta(false));
        let page = ask(&endpoint, "tools/list", &params, &mut |_| {}).await?;
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

/// What a progress message says.
fn said(params: &RawValue) -> String {
    let params = envelope::members(params).unwrap_or_default();
    if let Some(message) = params.get("message").and_then(envelope::text) {
        return message.into_owned();
    }
    let number = |name| params.get(name).map(RawValue::get);
    match (number("progress"), number("total")) {
        (Some(progress), Some(total)) => format!("{progress} of {total}"),
        (progress, _) => progress.unwrap_or_default().to_owned(),
    }
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
    on_progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Box<RawValue>, Error> {
    let id = Id::from(1);
    let body = envelope::request(&id, method, Some(params));
    let headers = RawValue::from_string(params.to_owned())
        .ok()
        .and_then(|params| header::modern(method, Some(&params)))
        .ok_or_else(|| endpoint.broken("the request cannot be written"))?;
    let (_, reply) = endpoint.post(headers, body.into()).await?;
    match reply {
        Reply::Json(body) => outcome(endpoint, &String::from_utf8_lossy(&body)),
        Reply::Events(mut events) => {
            while let Some(message) = events.next().await {
                match envelope::parse_str(&message) {
                    Ok(Message::Notification { method, params: Some(params) }) if method == PROGRESS => {
                        on_progress(&said(params));
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
