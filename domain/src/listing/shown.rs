//! What models are served of a listing: the canonical form less what agents would choke on.

use super::canonical::canonical;
use super::json::{Json, Member};
use super::reader::read_document;

/// The listing as the gateway serves it: the canonical form without *known optional* members that
/// are null or of the wrong type, since agents reject whole lists over one (20-listings, 1).
///
/// Nothing is added or changed, so all that a model reads was hashed. A text that is no canonical
/// listing is given back as it is.
pub fn shown_form(canonical_form: &str) -> String {
    let Ok(Json::Object(mut members)) = read_document(canonical_form) else {
        return canonical_form.to_owned();
    };
    let before = count(&members);
    members.retain(|(name, value)| suits_entry(name, value));
    for (name, value) in &mut members {
        let suits: fn(&str, &Json<'_>) -> bool = match &**name {
            "annotations" => suits_annotations,
            "execution" => suits_execution,
            _ => continue,
        };
        if let Json::Object(inner) = value {
            inner.retain(|(name, value)| suits(name, value));
        }
    }
    if count(&members) == before {
        canonical_form.to_owned()
    } else {
        canonical(&Json::Object(members), canonical_form.len())
    }
}

/// Members that may be taken away, those of members included.
fn count(members: &[Member<'_>]) -> usize {
    members.iter().map(|(_, value)| 1 + value.members().map_or(0, <[_]>::len)).sum()
}

/// `Tool` of the protocol, revisions 2024-11-05 to 2026-07-28.
fn suits_entry(name: &str, value: &Json<'_>) -> bool {
    match name {
        "title" | "description" => value.text().is_some(),
        "outputSchema" => value.get("type").and_then(Json::text) == Some("object"),
        "annotations" | "execution" | "_meta" => value.members().is_some(),
        "icons" => value.items().is_some_and(|icons| icons.iter().all(is_icon)),
        _ => true,
    }
}

fn suits_annotations(name: &str, value: &Json<'_>) -> bool {
    match name {
        "title" => value.text().is_some(),
        "readOnlyHint" | "destructiveHint" | "idempotentHint" | "openWorldHint" => {
            matches!(value, Json::Bool(_))
        }
        _ => true,
    }
}

fn suits_execution(name: &str, value: &Json<'_>) -> bool {
    name != "taskSupport" || matches!(value.text(), Some("forbidden" | "optional" | "required"))
}

fn is_icon(icon: &Json<'_>) -> bool {
    let is_text_or_absent = |name| icon.get(name).is_none_or(|value| value.text().is_some());
    let sizes =
        |value: &Json<'_>| value.items().is_some_and(|all| all.iter().all(|one| one.text().is_some()));
    icon.get("src").is_some_and(|src| src.text().is_some())
        && is_text_or_absent("mimeType")
        && is_text_or_absent("theme")
        && icon.get("sizes").is_none_or(sizes)
}
