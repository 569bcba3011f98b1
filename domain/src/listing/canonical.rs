//! The canonical form of a document, RFC 8785.
//!
//! Member order is the tree's and numbers are written by the canonicalisation library. Strings are
//! visible, so five characters are all that has to be escaped; they are written here because the
//! library holds every member in buffers of its own and parses its name again, which takes longer
//! than all the rest of judging an entry. Tests hold the two to the same bytes.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::json::Json;
use super::word;

/// Writes the canonical form; `size` is about how many bytes it will have.
pub(crate) fn canonical(json: &Json<'_>, size: usize) -> String {
    let mut out = String::with_capacity(size);
    write(json, &mut out);
    out
}

/// Recursion is bounded by the depth that the reader allows.
fn write(json: &Json<'_>, out: &mut String) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Number(number) => write_number(*number, out),
        Json::Text(text) => write_text(text, out),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(name, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

/// As ECMAScript writes a double. Integers that a double tells from their neighbours are written
/// with all their digits there as here.
#[expect(clippy::expect_used, reason = "a finite number is written, and a String takes any text")]
fn write_number(number: f64, out: &mut String) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        let whole = number as i64;
        write!(out, "{whole}").expect("a String takes any text");
    } else {
        out.push_str(&serde_json_canonicalizer::to_string(&number).expect("the reader takes finite numbers"));
    }
}

#[expect(clippy::ptr_arg, reason = "borrowed text is a stretch of JSON without an escape, so it needs none")]
fn write_text(text: &Cow<'_, str>, out: &mut String) {
    out.push('"');
    let mut rest = match text {
        Cow::Borrowed(text) => {
            out.push_str(text);
            ""
        }
        Cow::Owned(text) => text.as_str(),
    };
    while let Some(at) = first_to_escape(rest.as_bytes()) {
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = special.chars();
        match chars.next() {
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            // Other controls cannot stand in visible text; if one did, it is written out now.
            Some(other) => {
                crate::visible::write_visible(out, other.into(), false);
            }
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// The first byte that may not stand in a JSON string as it is.
fn first_to_escape(bytes: &[u8]) -> Option<usize> {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, bytes) in words.iter().enumerate() {
        let stops = word::stops(u64::from_le_bytes(*bytes));
        if stops != 0 {
            return Some(index * 8 + word::bytes_before(stops));
        }
    }
    tail.iter().position(|byte| word::is_stop(*byte)).map(|at| words.len() * 8 + at)
}
