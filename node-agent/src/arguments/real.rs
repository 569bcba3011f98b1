//! Putting the real text back where a model sends the written one (20-listings, 2).
//!
//! The one change that is ever made to arguments, for the rare function whose input schema had hidden
//! text in a property name, an `enum` or a `const`.

use domain::listing::RealText;
use serde_json::value::RawValue;
use tools::envelope::{self, Object};

/// Levels that are looked into; deeper values go on as sent. As deep as a listing may nest.
const DEPTH: usize = domain::listing::DEPTH;

/// The arguments with real texts in the places of written ones; all other bytes but white space
/// between members and items stay.
pub(crate) fn put_back(arguments: &RawValue, texts: &[RealText]) -> String {
    let mut out = String::with_capacity(arguments.get().len());
    write(&mut out, arguments, texts, DEPTH);
    out
}

fn write(out: &mut String, value: &RawValue, texts: &[RealText], depth: usize) {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'{') if depth > 0 => {
            let members: Object<'_> = envelope::members(value).unwrap_or_default();
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(real(name, texts, true));
                out.push(':');
                write(out, value, texts, depth - 1);
            }
            out.push('}');
        }
        Some(b'[') if depth > 0 => {
            let items: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            out.push('[');
            for (index, item) in items.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item, texts, depth - 1);
            }
            out.push(']');
        }
        Some(b'"') => out.push_str(real(value, texts, false)),
        _ => out.push_str(json),
    }
}

fn real<'t>(raw: &'t RawValue, texts: &'t [RealText], is_member_name: bool) -> &'t str {
    let Some(text) = envelope::text(raw) else { return raw.get() };
    texts
        .iter()
        .find(|known| known.is_member_name == is_member_name && *known.written == *text)
        .map_or_else(|| raw.get(), |known| &known.real)
}
