//! Grades the difference of two JSON schemas, by keyword and without following references.
//!
//! Only keywords in schema positions count: a property may be called `required`, and a default is
//! data. Where a difference cannot be ordered it is both narrowed and widened, so that nothing is
//! shown as milder than it may be.

use std::collections::BTreeSet;

use super::grade::{Grade, pairs};
use crate::listing::json::Json;

/// Whose values a schema is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Arguments: what becomes required is asked of callers.
    Input,
    /// Results.
    Output,
}

/// Grades a difference; the schemas are not equal. Recursion is bounded by the depth of listings.
pub(super) fn compare_schemas(
    before: Option<&Json<'_>>,
    after: Option<&Json<'_>>,
    side: Side,
    grades: &mut BTreeSet<Grade>,
) {
    match (before, after) {
        _ if before == after => {}
        (Some(Json::Object(before)), Some(Json::Object(after))) => {
            for (keyword, before, after) in pairs(before, after) {
                if before != after {
                    compare_keyword(keyword, before, after, side, grades);
                }
            }
        }
        _ => match (reach(before), reach(after)) {
            (Some(before), Some(after)) if before < after => add(grades, Grade::Widened),
            (Some(before), Some(after)) if before > after => add(grades, Grade::Narrowed),
            (Some(_), Some(_)) => add(grades, Grade::Text),
            _ => both(grades),
        },
    }
}

fn add(grades: &mut BTreeSet<Grade>, grade: Grade) {
    grades.insert(grade);
}

fn both(grades: &mut BTreeSet<Grade>) {
    grades.extend([Grade::Narrowed, Grade::Widened]);
}

/// How much fits a whole schema: nothing, something, everything.
fn reach(schema: Option<&Json<'_>>) -> Option<u8> {
    match schema {
        Some(Json::Bool(false)) => Some(0),
        Some(Json::Object(members)) if !members.is_empty() => Some(1),
        None | Some(Json::Bool(true) | Json::Object(_)) => Some(2),
        Some(_) => None,
    }
}

fn compare_keyword(
    keyword: &str,
    before: Option<&Json<'_>>,
    after: Option<&Json<'_>>,
    side: Side,
    grades: &mut BTreeSet<Grade>,
) {
    match keyword {
        "required" => compare_required(before, after, side, grades),
        "properties" => compare_properties(before, after, side, grades),
        "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            compare_map(before, after, side, grades);
        }
        "items"
        | "additionalItems"
        | "additionalProperties"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contains"
        | "propertyNames"
        | "contentSchema"
            if !is_array(before) && !is_array(after) =>
        {
            compare_schemas(before, after, side, grades);
        }
        "anyOf" | "oneOf" => compare_list(before, after, side, (Grade::Widened, Grade::Narrowed), grades),
        "allOf" | "prefixItems" | "items" => {
            compare_list(before, after, side, (Grade::Narrowed, Grade::Widened), grades);
        }
        "type" => compare_sets(types(before).as_ref(), types(after).as_ref(), grades),
        "enum" => compare_enum(before, after, grades),
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" | "maxContains" => {
            compare_bound(before, after, false, grades);
        }
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" | "minContains" => {
            compare_bound(before, after, true, grades);
        }
        "const" | "pattern" | "format" | "multipleOf" | "uniqueItems" | "not" | "if" | "then" | "else"
        | "$ref" | "$dynamicRef" | "$recursiveRef" | "dependentRequired" | "dependencies" => {
            match (before, after) {
                (None, Some(_)) => add(grades, Grade::Narrowed),
                (Some(_), None) => add(grades, Grade::Widened),
                _ => both(grades),
            }
            // A branch of a condition may go either way.
            if matches!(keyword, "if" | "then" | "else") {
                both(grades);
            }
        }
        // Titles, descriptions, defaults, examples, and keywords that are not known here.
        _ => add(grades, Grade::Text),
    }
}

const fn is_array(value: Option<&Json<'_>>) -> bool {
    matches!(value, Some(Json::Array(_)))
}

/// Early drafts write a boolean on the property itself.
fn compare_required(
    before: Option<&Json<'_>>,
    after: Option<&Json<'_>>,
    side: Side,
    grades: &mut BTreeSet<Grade>,
) {
    let demand = if side == Side::Input { Grade::NewRequired } else { Grade::Narrowed };
    if before == Some(&Json::Bool(true)) || after == Some(&Json::Bool(true)) {
        add(grades, if after == Some(&Json::Bool(true)) { demand } else { Grade::Widened });
        return;
    }
    let names = |value: Option<&Json<'_>>| match value {
        None | Some(Json::Bool(false)) => Some(Vec::new()),
        Some(Json::Array(items)) => {
            let names = items.iter().map(|item| item.text().map(str::to_owned));
            names.collect::<Option<Vec<_>>>().map(|mut names| {
                names.sort_unstable();
                names
            })
        }
        Some(_) => None,
    };
    let (Some(before), Some(after)) = (names(before), names(after)) else {
        return both(grades);
    };
    if before == after && !before.is_empty() {
        return add(grades, Grade::Notation);
    }
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), after.iter().collect());
    if old == new {
        // None against an empty list, or a name that is doubled.
        return add(grades, Grade::Text);
    }
    if !new.is_subset(&old) {
        add(grades, demand);
    }
    if !old.is_subset(&new) {
        add(grades, Grade::Widened);
    }
}

fn compare_properties(
    before: Option<&Json<'_>>,
    after: Option<&Json<'_>>,
    side: Side,
    grades: &mut BTreeSet<Grade>,
) {
    let members = |value: Option<&Json<'_>>| value.is_none_or(|value| value.members().is_some());
    if !members(before) || !members(after) {
        return both(grades);
    }
    let (old, new) = (before.and_then(Json::members), after.and_then(Json::members));
    let pairs = pairs(old.unwrap_or_default(), new.unwrap_or_default());
    if pairs.is_empty() {
        // An empty list of properties against none.
        add(grades, Grade::Text);
    }
    for (_, before, after) in pairs {
        match (before, after) {
            // Callers are told of one more thing to send, or of one less.
            (None, Some(_)) => add(grades, Grade::Widened),
            (Some(_), None) => add(grades, Grade::Narrowed),
            _ => compare_schemas(before, after, side, grades),
        }
    }
}

/// Schemas by name or pattern, whose coming and going has no direction of its own.
fn compare_map(
    before: Option<&Json<'_>>,
    after: Option<&Json<'_>>,
    side: Side,
    grades: &mut BTreeSet<Grade>,
) {
    let (Some(before), Some(after)) = (before.and_then(Json::members), after.and_then(Json::members)) else {
        return both(grades);
    };
    for (_, before, after) in pairs(before, after) {
        match (before, after) {
            (Some(_), Some(_)) => compare_schemas(before, after, side, grades),
            _ => both(grades),
        }
    }
}

/// A list of schemas; `(more, fewer)` is what another member or one less means.
fn compare_list(
    before: Option<&Json<'_>>,
    after: Option<&Json<'_>>,
    side: Side,
    (more, fewer): (Grade, Grade),
    grades: &mut BTreeSet<Grade>,
) {
    match (before.and_then(Json::items), after.and_then(Json::items)) {
        (Some(before), Some(after)) => {
            for (before, after) in before.iter().zip(after) {
                compare_schemas(Some(before), Some(after), side, grades);
            }
            match before.len().cmp(&after.len()) {
                std::cmp::Ordering::Less => add(grades, more),
                std::cmp::Ordering::Greater => add(grades, fewer),
                std::cmp::Ordering::Equal => {}
            }
        }
        // Where there was none, everything fitted.
        (None, Some(_)) if before.is_none() => add(grades, Grade::Narrowed),
        (Some(_), None) if after.is_none() => add(grades, Grade::Widened),
        _ => both(grades),
    }
}

/// The types that a schema allows, `None` for all. An integer is a number.
fn types(value: Option<&Json<'_>>) -> Option<BTreeSet<String>> {
    let names: Vec<&str> = match value? {
        Json::Text(name) => vec![name],
        Json::Array(items) => items.iter().filter_map(Json::text).collect(),
        _ => Vec::new(),
    };
    let mut types: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
    if types.contains("number") {
        types.insert("integer".to_owned());
    }
    Some(types)
}

fn compare_enum(before: Option<&Json<'_>>, after: Option<&Json<'_>>, grades: &mut BTreeSet<Grade>) {
    let values = |value: Option<&Json<'_>>| {
        let items = value.and_then(Json::items).unwrap_or_default();
        value.map(|_| items.iter().map(crate::listing::canonical_of).collect::<BTreeSet<_>>())
    };
    compare_sets(values(before).as_ref(), values(after).as_ref(), grades);
}

/// Sets of what is allowed, `None` for everything.
fn compare_sets(
    before: Option<&BTreeSet<String>>,
    after: Option<&BTreeSet<String>>,
    grades: &mut BTreeSet<Grade>,
) {
    match (before, after) {
        (None, Some(_)) => add(grades, Grade::Narrowed),
        (Some(_), None) => add(grades, Grade::Widened),
        (Some(before), Some(after)) if before != after => {
            if !after.is_subset(before) {
                add(grades, Grade::Widened);
            }
            if !before.is_subset(after) {
                add(grades, Grade::Narrowed);
            }
        }
        // The same in another order, which models read.
        _ => add(grades, Grade::Text),
    }
}

fn compare_bound(
    before: Option<&Json<'_>>,
    after: Option<&Json<'_>>,
    is_lower: bool,
    grades: &mut BTreeSet<Grade>,
) {
    let narrows = match (before, after) {
        (None, Some(_)) => true,
        (Some(_), None) => false,
        (Some(Json::Number(before)), Some(Json::Number(after))) => (after > before) == is_lower,
        // Draft 4 writes `exclusiveMaximum` as a boolean.
        (Some(Json::Bool(_)), Some(Json::Bool(after))) => *after,
        _ => return both(grades),
    };
    add(grades, if narrows { Grade::Narrowed } else { Grade::Widened });
}
