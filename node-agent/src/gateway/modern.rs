//! Revision 2026-07-28: every request stands alone and carries its metadata.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::value::RawValue;
use tools::envelope::{self, Id, Message};

use super::call::Asked;
use super::post::{Head, is_spoken, respond, unsupported};
use super::protocol::{
    ACKNOWLEDGED, BRIDGE_HEADER, CAPABILITIES_KEY, Era, HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST,
    LIST_CHANGED, METHOD_HEADER, METHOD_NOT_FOUND, MODERN, NAME_HEADER, VERSION_KEY, subscription_meta,
};
use super::stream::{self, Announce};
use super::{Shared, answer, discover};
use crate::arguments::{decode_header, header_mismatch};

/// Answers one message.
pub(super) async fn post(shared: &Arc<Shared>, head: &Head<'_>, message: Message<'_>) -> Response {
    let (id, method, params) = match message {
        Message::Request { id, method, params } => (id, method, params),
        // This revision has none over HTTP; closing the connection cancels.
        Message::Notification { .. } => return answer::accepted(),
        Message::Response { id, .. } => {
            let sentence = "clients send requests and notifications only";
            return answer::failure(StatusCode::BAD_REQUEST, id.as_ref(), INVALID_REQUEST, sentence);
        }
    };
    if let Err(response) = check(head, &id, &method, params) {
        return *response;
    }
    match &*method {
        "server/discover" => answer::message(discover::discover(&id)),
        "tools/list" => answer::message(discover::tools(shared, &id, params, None).await),
        "tools/call" => call(shared, head, id, params).await,
        "subscriptions/listen" => listen(shared, &id, params),
        _ => {
            let sentence = "this server has no such method";
            answer::failure(StatusCode::NOT_FOUND, Some(&id), METHOD_NOT_FOUND, sentence)
        }
    }
}

/// Version, capabilities and the headers that mirror the body, in the order of what they depend on.
fn check(head: &Head<'_>, id: &Id, method: &str, params: Option<&RawValue>) -> Result<(), Box<Response>> {
    let bad = |code, sentence: &str| {
        Err(Box::new(answer::failure(StatusCode::BAD_REQUEST, Some(id), code, sentence)))
    };
    let params = params.and_then(envelope::members).unwrap_or_default();
    let meta = params.get("_meta").and_then(envelope::members).unwrap_or_default();
    let Some(version) = meta.get(VERSION_KEY).and_then(envelope::text) else {
        return match head.version {
            Some(version) if !is_spoken(version) => Err(Box::new(unsupported(Some(id), version))),
            _ => bad(INVALID_PARAMS, "params._meta with io.modelcontextprotocol/protocolVersion is expected"),
        };
    };
    match head.version {
        None => return bad(HEADER_MISMATCH, "header MCP-Protocol-Version is missing"),
        Some(header) if header != version => {
            return bad(
                HEADER_MISMATCH,
                "header MCP-Protocol-Version differs from the version in params._meta",
            );
        }
        Some(_) if version != MODERN => return Err(Box::new(unsupported(Some(id), &version))),
        Some(_) => {}
    }
    if meta.get(CAPABILITIES_KEY).and_then(envelope::members).is_none() {
        return bad(
            INVALID_PARAMS,
            "params._meta with io.modelcontextprotocol/clientCapabilities is expected",
        );
    }
    match header(head, METHOD_HEADER) {
        None => return bad(HEADER_MISMATCH, "header Mcp-Method is missing"),
        Some(header) if header != method => {
            return bad(HEADER_MISMATCH, "header Mcp-Method differs from the method");
        }
        Some(_) => {}
    }
    if method == "tools/call" {
        let name = params.get("name").and_then(envelope::text);
        return match (header(head, NAME_HEADER).and_then(decode_header), name) {
            (None, _) => bad(HEADER_MISMATCH, "header Mcp-Name is missing or broken"),
            (Some(header), Some(name)) if header == name => Ok(()),
            _ => bad(HEADER_MISMATCH, "header Mcp-Name differs from params.name"),
        };
    }
    Ok(())
}

fn header<'r>(head: &Head<'r>, name: &str) -> Option<&'r str> {
    head.headers.get(name).and_then(|value| value.to_str().ok())
}

async fn call(shared: &Arc<Shared>, head: &Head<'_>, id: Id, params: Option<&RawValue>) -> Response {
    let asked = match Asked::read(id.clone(), Era::Modern, params) {
        Ok(asked) => asked,
        Err(sentence) => return answer::message(envelope::failure(Some(&id), &Asked::error(sentence))),
    };
    if !head.headers.contains_key(BRIDGE_HEADER)
        && let Some(mismatch) = mirrored(shared, head, &asked)
    {
        return answer::failure(StatusCode::BAD_REQUEST, Some(&id), HEADER_MISMATCH, &mismatch);
    }
    respond(shared, head, asked, None).await
}

/// What is wrong with `Mcp-Param-…`, by the approved schema that the client was listed.
fn mirrored(shared: &Shared, head: &Head<'_>, asked: &Asked) -> Option<String> {
    let table = shared.upstream.table();
    let listing = table.slot(&asked.name)?.listing.as_ref()?;
    let schema = shared.schemas.of(listing, &table);
    header_mismatch(&schema.header_params, head.headers, asked.arguments.as_deref())
}

fn listen(shared: &Arc<Shared>, id: &Id, params: Option<&RawValue>) -> Response {
    let Some(room) = shared.limits.stream() else {
        let sentence = "this node has as many streams as it allows (setting `gateway.streams`)";
        return answer::failure(StatusCode::SERVICE_UNAVAILABLE, Some(id), INVALID_REQUEST, sentence);
    };
    let wants = params
        .and_then(envelope::members)
        .and_then(|params| params.get("notifications"))
        .and_then(envelope::members)
        .and_then(|filter| filter.get("toolsListChanged"))
        .is_some_and(|wants| wants.get() == "true");
    let meta = subscription_meta(id);
    let honoured = if wants { r#"{"toolsListChanged":true}"# } else { "{}" };
    let acknowledged = format!(r#"{{"_meta":{meta},"notifications":{honoured}}}"#);
    let announce = Announce {
        first: Some(envelope::notification(ACKNOWLEDGED, Some(&acknowledged))),
        changed: wants.then(|| envelope::notification(LIST_CHANGED, Some(&format!(r#"{{"_meta":{meta}}}"#)))),
        last: Some(envelope::answer(id, &format!(r#"{{"resultType":"complete","_meta":{meta}}}"#))),
        known: shared.lists.current(&*shared.upstream).revision,
        session: None,
    };
    stream::announce(shared, announce, room)
}
