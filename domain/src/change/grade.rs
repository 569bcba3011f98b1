//! The grade of a change (20-listings, 5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::schema::{Side, compare_schemas};
use crate::id::FunctionId;
use crate::listing::json::{Json, Member, member_order};
use crate::listing::read_canonical;
use crate::visible::v1;

/// What kind of change it is. Several may hold of one; in ascending order of concern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// The same meaning: null against absent in a known optional member, a hint against its
    /// protocol default, the order of `required`.
    Notation,
    /// `_meta` differs; alone, nothing else does.
    MetaOnly,
    /// A hint admits more: no longer read-only, destructive, not idempotent, open world.
    HintStricter,
    /// Fewer arguments (or results) fit a schema.
    Narrowed,
    /// The function is not listed any more.
    Gone,
    /// Something that people or models read, or a member whose meaning is not known here.
    Text,
    /// More arguments (or results) fit a schema.
    Widened,
    /// An argument became required.
    NewRequired,
    /// A hint promises more than before: read-only, not destructive, idempotent, closed world.
    HintLaxer,
    /// The snapshot does not have the function.
    New,
    /// New, with the input schema of one that is gone.
    Renamed {
        /// The one that is gone.
        from: Arc<str>,
    },
    /// Text that people do not see was added (it is written out in the listing).
    HiddenText,
}

impl Grade {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Notation => "notation",
            Self::MetaOnly => "meta_only",
            Self::HintStricter => "hint_stricter",
            Self::Narrowed => "narrowed",
            Self::Gone => "gone",
            Self::Text => "text",
            Self::Widened => "widened",
            Self::NewRequired => "new_required",
            Self::HintLaxer => "hint_laxer",
            Self::New => "new",
            Self::Renamed { .. } => "renamed",
            Self::HiddenText => "hidden_text",
        }
    }
}

/// The grade of most concern, by which changes are sorted; `None` of no change.
pub fn worst(grades: &BTreeSet<Grade>) -> Option<&Grade> {
    grades.last()
}

/// Whether a change is nothing but notation, which a policy may approve by itself.
pub fn is_notation_only(grades: &BTreeSet<Grade>) -> bool {
    grades.iter().eq([&Grade::Notation])
}

/// Grades a change between two canonical forms; empty exactly if they are equal.
pub fn grade(approved: Option<&str>, seen: Option<&str>) -> BTreeSet<Grade> {
    let mut grades = BTreeSet::new();
    match (approved, seen) {
        (None, None) => {}
        (Some(_), None) => {
            grades.insert(Grade::Gone);
        }
        (None, Some(seen)) => {
            grades.insert(Grade::New);
            if read_canonical(seen).is_some_and(|seen| hidden_text(None, Some(&seen))) {
                grades.insert(Grade::HiddenText);
            }
        }
        (Some(approved), Some(seen)) if approved == seen => {}
        (Some(approved), Some(seen)) => {
            if let (Some(approved), Some(seen)) = (read_canonical(approved), read_canonical(seen)) {
                compare_entries(&approved, &seen, &mut grades);
                if hidden_text(Some(&approved), Some(&seen)) {
                    grades.insert(Grade::HiddenText);
                }
            }
            // Whatever is not recognised is something to read.
            if grades.is_empty() {
                grades.insert(Grade::Text);
            }
        }
    }
    grades
}

/// Grades functions that are new to the snapshot, beside those that are gone from it, both with
/// their canonical forms. Of several gone ones with the new one's input schema the one of the
/// nearest name counts.
pub fn grade_new(
    new: &[(&FunctionId, &str)],
    gone: &[(&FunctionId, &str)],
) -> BTreeMap<FunctionId, BTreeSet<Grade>> {
    let schema_of = |text: &str| read_canonical(text)?.get("inputSchema").map(crate::listing::canonical_of);
    let gone: Vec<(&FunctionId, Option<String>)> =
        gone.iter().map(|(id, text)| (*id, schema_of(text))).collect();
    let graded = new.iter().map(|(id, text)| {
        let mut grades = grade(None, Some(text));
        let schema = schema_of(text);
        let nearness =
            |other: &FunctionId| (strsim::levenshtein(&other.function, &id.function), other.clone());
        let same = gone
            .iter()
            .filter(|(other, theirs)| other.tool == id.tool && schema.is_some() && *theirs == schema);
        if let Some((from, _)) = same.min_by_key(|(other, _)| nearness(other)) {
            grades.remove(&Grade::New);
            grades.insert(Grade::Renamed { from: from.to_string().into() });
        }
        ((*id).clone(), grades)
    });
    graded.collect()
}

/// Pairs the members of two objects by name, in order.
pub(super) fn pairs<'j, 'a>(
    before: &'j [Member<'a>],
    after: &'j [Member<'a>],
) -> Vec<(&'j str, Option<&'j Json<'a>>, Option<&'j Json<'a>>)> {
    let mut pairs = Vec::with_capacity(before.len().max(after.len()));
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (Some((a, _)), Some((b, _))) => member_order(a, b),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return pairs,
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { after.next() } else { None };
        let name = old.or(new).map_or("", |(name, _)| name);
        pairs.push((name, old.map(|(_, value)| value), new.map(|(_, value)| value)));
    }
}

fn compare_entries(approved: &Json<'_>, seen: &Json<'_>, grades: &mut BTreeSet<Grade>) {
    let members = |json: &Json<'_>| json.members().map(<[Member<'_>]>::len).is_some();
    if !members(approved) || !members(seen) {
        grades.insert(Grade::Text);
        return;
    }
    let (approved, seen) = (approved.members().unwrap_or_default(), seen.members().unwrap_or_default());
    for (name, before, after) in pairs(approved, seen) {
        if before == after {
            continue;
        }
        if is_known_optional(name) && is_null_or_absent(before) && is_null_or_absent(after) {
            grades.insert(Grade::Notation);
            continue;
        }
        match name {
            "inputSchema" => compare_schemas(before, after, Side::Input, grades),
            "outputSchema" => compare_schemas(before, after, Side::Output, grades),
            "annotations" => compare_annotations(before, after, grades),
            "_meta" => {
                grades.insert(Grade::MetaOnly);
            }
            _ => {
                grades.insert(Grade::Text);
            }
        }
    }
}

/// Known optional members, which are not served while they are null.
fn is_known_optional(name: &str) -> bool {
    matches!(name, "title" | "description" | "outputSchema" | "annotations" | "icons" | "execution" | "_meta")
}

const fn is_null_or_absent(value: Option<&Json<'_>>) -> bool {
    matches!(value, None | Some(Json::Null))
}

fn compare_annotations(before: Option<&Json<'_>>, after: Option<&Json<'_>>, grades: &mut BTreeSet<Grade>) {
    let is_object =
        |value: Option<&Json<'_>>| is_null_or_absent(value) || value.is_some_and(|v| v.members().is_some());
    if !is_object(before) || !is_object(after) {
        grades.insert(Grade::Text);
        return;
    }
    let (old, new) = (before.and_then(Json::members), after.and_then(Json::members));
    let pairs = pairs(old.unwrap_or_default(), new.unwrap_or_default());
    if pairs.iter().all(|(_, before, after)| before == after) {
        // Annotations that say nothing against none.
        grades.insert(Grade::Notation);
    }
    for (name, before, after) in pairs.into_iter().filter(|(_, before, after)| before != after) {
        grades.insert(compare_hint(name, before, after));
    }
}

/// Grades one annotation; the defaults are the protocol's (MCP 2026-07-28, `ToolAnnotations`).
fn compare_hint(name: &str, before: Option<&Json<'_>>, after: Option<&Json<'_>>) -> Grade {
    // The default, and the value that promises more.
    let (default, lax) = match name {
        "readOnlyHint" | "idempotentHint" => (false, true),
        "destructiveHint" | "openWorldHint" => (true, false),
        "title" if is_null_or_absent(before) && is_null_or_absent(after) => return Grade::Notation,
        _ => return Grade::Text,
    };
    let effective = |value: Option<&Json<'_>>| match value {
        None | Some(Json::Null) => Some(default),
        Some(Json::Bool(value)) => Some(*value),
        // Some clients may take "true" for true.
        Some(_) => None,
    };
    match (effective(before), effective(after)) {
        (Some(before), Some(after)) if before == after => Grade::Notation,
        (Some(_), Some(after)) if after == lax => Grade::HintLaxer,
        (Some(_), Some(_)) => Grade::HintStricter,
        _ => Grade::Text,
    }
}

/// Whether text that was written out was added anywhere.
fn hidden_text(before: Option<&Json<'_>>, after: Option<&Json<'_>>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) if before == after => false,
        (Some(Json::Object(before)), Some(Json::Object(after))) => {
            pairs(before, after).into_iter().any(|(name, before, after)| {
                (before.is_none() && !written_out(name).is_empty()) || hidden_text(before, after)
            })
        }
        (Some(Json::Array(before)), Some(Json::Array(after))) => {
            let before = before.iter().map(Some).chain(std::iter::repeat(None));
            after.iter().zip(before).any(|(after, before)| hidden_text(before, Some(after)))
        }
        (before, Some(Json::Text(after))) => {
            let old = before.and_then(Json::text).map(written_out).unwrap_or_default();
            let new = written_out(after);
            new.iter().any(|(code_point, count)| old.get(code_point).is_none_or(|old| old < count))
        }
        (_, Some(Json::Object(after))) => {
            after.iter().any(|(name, value)| !written_out(name).is_empty() || hidden_text(None, Some(value)))
        }
        (_, Some(Json::Array(after))) => after.iter().any(|value| hidden_text(None, Some(value))),
        _ => false,
    }
}

/// The code points that are written out in a text, and how often.
fn written_out(text: &str) -> BTreeMap<u32, usize> {
    let mut found = BTreeMap::new();
    for rest in text.split("\\u{").skip(1) {
        let code_point = rest.split_once('}').and_then(|(hex, _)| u32::from_str_radix(hex, 16).ok());
        if let Some(code_point) = code_point.filter(|c| v1::contains(*c) || *c == 0x0D) {
            *found.entry(code_point).or_default() += 1;
        }
    }
    found
}
