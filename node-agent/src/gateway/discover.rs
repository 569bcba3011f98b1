//! Results that both eras share but for their frame: the list, and who we are.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::RawValue;
use tools::envelope::{self, Id, quoted};

use super::protocol::{CAPABILITIES, Era, INVALID_PARAMS, SERVER_INFO, SERVER_KEY, supported};
use super::session::Session;
use super::{Shared, list};

/// How long a client may keep what we say about ourselves: it changes with an update only.
const DISCOVER_TTL_MS: u64 = 3_600_000;

/// The answer to `server/discover`.
pub(super) fn discover(id: &Id) -> String {
    let versions = supported();
    envelope::answer(
        id,
        &format!(
            r#"{{"resultType":"complete","supportedVersions":{versions},"capabilities":{CAPABILITIES},"ttlMs":{DISCOVER_TTL_MS},"cacheScope":"public","_meta":{{"{SERVER_KEY}":{SERVER_INFO}}}}}"#
        ),
    )
}

/// The answer to `tools/list`.
pub(super) async fn tools(
    shared: &Arc<Shared>,
    id: &Id,
    params: Option<&RawValue>,
    session: Option<&Session>,
) -> String {
    let cursor = params.and_then(envelope::members).and_then(|params| params.get("cursor"));
    let cursor = match cursor.filter(|cursor| cursor.get() != "null") {
        None => None,
        Some(cursor) => match envelope::text(cursor) {
            Some(cursor) => Some(cursor),
            None => return bad_cursor(id),
        },
    };
    let list = list::wanted(shared).await;
    let Some((tools, next)) = shared.lists.at(&list, cursor.as_deref()) else { return bad_cursor(id) };
    if let Some(session) = session {
        session.listed.store(list.revision, Ordering::Relaxed);
    }
    let era = if session.is_some() { Era::Handshake } else { Era::Modern };
    let mut out = String::with_capacity(tools.len() + 320);
    out.push_str(r#"{"jsonrpc":"2.0","id":"#);
    out.push_str(id.as_json());
    out.push_str(r#","result":{"tools":"#);
    out.push_str(&tools);
    if let Some(next) = next {
        out.push_str(r#","nextCursor":"#);
        out.push_str(&quoted(&next));
    }
    if era == Era::Modern {
        // What is not the list yet is not to be kept.
        let ttl_ms = if list.revision == 0 { 0 } else { shared.config.list_ttl.as_millis() };
        let ttl_ms = ttl_ms.to_string();
        for part in [
            r#","resultType":"complete","cacheScope":"private","ttlMs":"#,
            &ttl_ms,
            r#","_meta":{""#,
            SERVER_KEY,
            "\":",
            SERVER_INFO,
            "}",
        ] {
            out.push_str(part);
        }
    }
    out.push_str("}}");
    out
}

fn bad_cursor(id: &Id) -> String {
    let sentence = "this cursor is none of this server's; ask for the list from its beginning";
    envelope::failure(Some(id), &envelope::error_object(INVALID_PARAMS, sentence))
}
