//! Answers to calls as text: the tool's result with our marks, refusals, failures.

use std::sync::Arc;

use domain::digest::ListingHash;
use domain::guard::Slot;
use domain::refusal::Refusal;
use serde_json::value::RawValue;
use tools::envelope::{self, Id, quoted};

use super::protocol::{Era, FAILED_KEY, LISTING_KEY, PLUGIN_KEY, REFUSAL_KEY, SERVER_INFO, SERVER_KEY};

/// `{"name":…,"version":…}` of a plugin; both are of harmless letters.
pub(super) fn plugin(slot: &Slot) -> String {
    format!(r#"{{"name":"{}","version":"{}"}}"#, slot.version.plugin, slot.version.version)
}

/// The tool's result as an answer: its bytes, with our members of `_meta` (and what revision
/// 2026-07-28 wants). `None` if it is no object.
pub(super) fn result(id: &Id, result: &RawValue, slot: &Slot, hash: ListingHash, era: Era) -> Option<String> {
    let members = envelope::members(result)?;
    let text = result.get();
    let plugin = plugin(slot);
    let mut out = String::with_capacity(text.len() + 320);
    begin(&mut out, id);
    if era == Era::Modern && members.get("resultType").is_none() {
        out.push_str(r#""resultType":"complete","#);
    }
    let edited;
    let body = if members.get("_meta").is_none() {
        out.push_str(r#""_meta":{"#);
        marks(&mut out, &plugin, Some(hash), era);
        out.push_str("},");
        text
    } else {
        let hash = quoted(&hash.to_string());
        let server = (era == Era::Modern).then_some(SERVER_INFO);
        let changes = [(PLUGIN_KEY, Some(&*plugin)), (LISTING_KEY, Some(&*hash)), (SERVER_KEY, server)];
        // Of a handshake client's result the server's own stays as it is.
        let changes = if server.is_some() { &changes[..] } else { changes.get(..2)? };
        edited = envelope::with_meta(text, changes);
        &edited
    };
    let rest = body.strip_prefix('{')?;
    if rest.trim_start().starts_with('}') && out.ends_with(',') {
        out.pop();
    }
    out.push_str(rest);
    out.push('}');
    Some(out)
}

/// A call that was not made: a result that a model reads, with the code for machines.
pub(super) fn refusal(id: &Id, refusal: &Refusal, slot: Option<&Arc<Slot>>, era: Era) -> String {
    let code = format!(r#""{REFUSAL_KEY}":"{}""#, refusal.code);
    failed_result(id, &refusal.sentence, &code, slot, era)
}

/// A call that came to no result though nothing refused it.
pub(super) fn failure(id: &Id, sentence: &str, may_have_run: bool, slot: &Arc<Slot>, era: Era) -> String {
    let mark = format!(r#""{FAILED_KEY}":{{"mayHaveRun":{may_have_run}}}"#);
    failed_result(id, &domain::visible::make_visible(sentence), &mark, Some(slot), era)
}

fn failed_result(id: &Id, sentence: &str, mark: &str, slot: Option<&Arc<Slot>>, era: Era) -> String {
    let mut out = String::with_capacity(sentence.len() + 320);
    begin(&mut out, id);
    if era == Era::Modern {
        out.push_str(r#""resultType":"complete","#);
    }
    out.push_str(r#""content":[{"type":"text","text":"#);
    out.push_str(&quoted(sentence));
    out.push_str(r#"}],"isError":true,"_meta":{"#);
    out.push_str(mark);
    if let Some(slot) = slot {
        out.push(',');
        let hash = slot.listing.as_ref().map(|(hash, _)| *hash);
        marks(&mut out, &plugin(slot), hash, era);
    }
    out.push_str("}}}");
    out
}

fn begin(out: &mut String, id: &Id) {
    out.push_str(r#"{"jsonrpc":"2.0","id":"#);
    out.push_str(id.as_json());
    out.push_str(r#","result":{"#);
}

/// Our members of `_meta`, without braces.
fn marks(out: &mut String, plugin: &str, hash: Option<ListingHash>, era: Era) {
    for part in ["\"", PLUGIN_KEY, "\":", plugin] {
        out.push_str(part);
    }
    if let Some(hash) = hash {
        for part in [",\"", LISTING_KEY, "\":\"", &hash.to_string(), "\""] {
            out.push_str(part);
        }
    }
    if era == Era::Modern {
        for part in [",\"", SERVER_KEY, "\":", SERVER_INFO] {
            out.push_str(part);
        }
    }
}
