//! Arguments of a call against the approved input schema, as JSON Schema means it.
//!
//! Lives here: compiling a listing's input schema once, judging raw arguments with it, and which of
//! them are mirrored into HTTP headers. Not here: what a refusal says ([`domain::refusal`]) and who
//! may call. Called by the gateway with the *approved* listing only, never with the live one.
//!
//! A schema that cannot be used never costs a call: it accepts everything. `$ref`s out of the
//! document are not fetched and accept anything (20-listings, 1).

mod cache;
mod header;
mod local;
mod number;
mod real;
mod sentence;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use domain::listing::header_fault;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use serde_json::value::RawValue;
use tools::HeaderParam;
use tools::envelope;

pub(crate) use cache::Schemas;
pub(crate) use header::{decode_header, header_mismatch};
pub(crate) use real::put_back;

/// Steps of a back-tracking `pattern`; a hundred times what sensible patterns take, and still far
/// below a millisecond's work. A pattern over it is no reason to refuse.
const PATTERN_STEPS: usize = 100_000;
/// Bytes of one compiled `pattern`.
const PATTERN_BYTES: usize = 1 << 20;
/// Levels of arguments that are judged; deeper ones go on as sent. As deep as a listing may nest,
/// and with the length of chains of schemas it bounds the stack that judging takes.
const DEPTH: usize = domain::listing::DEPTH;

/// Levels past which arguments are not sent at all: readers of other languages end there, some with their process.
const DEPTH_MOST: usize = 1_000;

/// An approved input schema, compiled.
#[derive(Debug)]
pub(crate) struct Schema {
    /// Absent where the schema accepts everything, or cannot be used.
    validator: Option<Validator>,
    /// Arguments that HTTP clients send as headers too (`x-mcp-header`).
    pub(crate) header_params: Vec<HeaderParam>,
}

/// Arguments that do not fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// JSON pointer to the value; empty for the arguments as a whole.
    pub(crate) place: String,
    /// What was expected and what was found; not made visible yet.
    pub(crate) expected: String,
}

impl Schema {
    /// Compiles the `inputSchema` of a canonical listing.
    pub(crate) fn compile(canonical: &str) -> Self {
        let Ok(mut listing) = serde_json::from_str::<Value>(canonical) else {
            return Self { validator: None, header_params: Vec::new() };
        };
        let schema = listing.get_mut("inputSchema").map(Value::take).unwrap_or_default();
        let header_params = match header_fault(canonical) {
            None => header::params(&schema),
            Some(_) => Vec::new(),
        };
        Self { validator: validator(schema), header_params }
    }

    /// Judges raw arguments; absent and `null` ones count as an empty object.
    ///
    /// # Errors
    /// The first place that does not fit.
    pub(crate) fn check(&self, arguments: Option<&RawValue>) -> Result<(), Fault> {
        let text = arguments.map_or("{}", RawValue::get);
        let text = if text == "null" { "{}" } else { text };
        if !text.starts_with('{') {
            return Err(Fault { place: String::new(), expected: "an object is expected".to_owned() });
        }
        let depth = envelope::depth(text);
        if depth > DEPTH_MOST {
            let expected = format!("values nested at most {DEPTH_MOST} deep are expected, not {depth}");
            return Err(Fault { place: String::new(), expected });
        }
        let Some(validator) = &self.validator else { return Ok(()) };
        if depth > DEPTH {
            return Ok(());
        }
        let Some(value) = readable(text) else { return Ok(()) };
        if validator.is_valid(&value) {
            return Ok(());
        }
        match validator.iter_errors(&value).find(|error| is_the_arguments_fault(error.kind())) {
            None => Ok(()),
            Some(error) => Err(sentence::fault(&error)),
        }
    }
}

/// Arguments as a value to be judged: half surrogate pairs and numbers that no double can hold are
/// replaced by what comes nearest.
fn readable(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let paired: Cow<'_, str> = envelope::repair_surrogates(text);
    serde_json::from_str(&number::within_doubles(&paired)).ok()
}

/// Whether the arguments are to blame, rather than the schema.
const fn is_the_arguments_fault(kind: &ValidationErrorKind) -> bool {
    !matches!(
        kind,
        ValidationErrorKind::BacktrackLimitExceeded { .. }
            | ValidationErrorKind::RegexEngineFailure { .. }
            | ValidationErrorKind::Referencing(_)
    )
}

fn validator(schema: Value) -> Option<Validator> {
    if schema.is_null() {
        return None;
    }
    let schema = local::localised(schema)?;
    let patterns = PatternOptions::fancy_regex().backtrack_limit(PATTERN_STEPS).size_limit(PATTERN_BYTES);
    match jsonschema::options().with_pattern_options(patterns).build(&schema) {
        Ok(validator) => Some(validator),
        Err(error) => {
            tracing::debug!(
                keyword = error.kind().keyword(),
                "input schema cannot be used and accepts everything"
            );
            None
        }
    }
}
