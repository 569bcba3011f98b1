//! What did not fit, in words: the field, what was expected, what was found.

use std::fmt::Write as _;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use super::Fault;

/// Characters of a quoted value; enough to know it again, and a sentence stays one.
const QUOTED: usize = 100;
/// Values of an `enum` that are named.
const NAMED: usize = 20;

pub(super) fn fault(error: &ValidationError<'_>) -> Fault {
    let place = error.instance_path().as_str().to_owned();
    let found = quote(error.instance());
    let expected = match error.kind() {
        Kind::Required { property } => format!("property {property} is required"),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!(
                "no such property is declared: {}",
                list(unexpected.iter().map(|name| cut(&format!("\"{name}\""))))
            )
        }
        Kind::Enum { options } => match options {
            Value::Array(options) => {
                format!("one of {} is expected, not {found}", list(options.iter().map(quote)))
            }
            other => format!("one of {} is expected, not {found}", quote(other)),
        },
        Kind::Constant { expected_value } => format!("{} is expected, not {found}", quote(expected_value)),
        Kind::Type { .. } => format!("{} is expected, not {found}", types(error)),
        Kind::Minimum { limit } => format!("at least {limit} is expected, not {found}"),
        Kind::Maximum { limit } => format!("at most {limit} is expected, not {found}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit} is expected, not {found}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit} is expected, not {found}"),
        Kind::MinLength { limit } => format!("at least {limit} characters are expected, not {found}"),
        Kind::MaxLength { limit } => format!("at most {limit} characters are expected, not {found}"),
        Kind::MinItems { limit } => format!("at least {limit} items are expected"),
        Kind::MaxItems { limit } => format!("at most {limit} items are expected"),
        Kind::Pattern { pattern } => format!("text that matches `{}` is expected, not {found}", cut(pattern)),
        Kind::OneOfMultipleValid { .. } => {
            format!("exactly one of several forms is expected, and {found} fits more than one")
        }
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            format!("one of several forms is expected, and {found} fits none")
        }
        // The crate's own words: the rarer keywords need no better ones.
        _ => cut(&error.to_string()),
    };
    Fault { place, expected }
}

/// The types that the schema allows; the crate's text ends with them.
fn types(error: &ValidationError<'_>) -> String {
    let text = error.to_string();
    text.rsplit_once(" is not of type").map_or_else(
        || "another type".to_owned(),
        |(_, types)| {
            let types = types.strip_prefix('s').unwrap_or(types).trim();
            types.replace('"', "`")
        },
    )
}

fn quote(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => cut(&value.to_string()),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}

fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(NAMED);
    let mut out = items.take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    out
}
