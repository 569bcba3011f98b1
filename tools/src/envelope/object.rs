//! Single members of raw objects: reading one, setting one, without touching the others' bytes.
//!
//! Only white space between members is not kept; names, values and the order are, those named twice too.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::quoted;

/// An object's members in their order, each name and value as raw JSON.
#[derive(Debug, Default)]
pub struct Object<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

impl<'a> Object<'a> {
    /// The value of a member as raw JSON; of one named twice the last, as most parsers take it.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| is_named(key, name)).map(|(_, value)| *value)
    }

    /// Name and value of each member, in the order sent.
    pub fn iter(&self) -> impl Iterator<Item = (&'a RawValue, &'a RawValue)> {
        self.0.iter().copied()
    }
}

fn is_named(key: &RawValue, name: &str) -> bool {
    let text = key.get();
    text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).is_some_and(|inner| inner == name)
        || (text.contains('\\') && serde_json::from_str::<String>(text).is_ok_and(|key| key == name))
}

/// The members of a raw value, if it is an object.
pub fn members(raw: &RawValue) -> Option<Object<'_>> {
    serde_json::from_str(raw.get()).ok()
}

/// A raw value as text, if it is a string (without half surrogate pairs).
pub fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let quoted = raw.get();
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(quoted).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// The object's text with a member set to a raw value: replaced where it stands, else put last.
///
/// `object` is an object's text; anything else counts as an empty object.
pub fn with_member(object: &str, name: &str, value: &str) -> String {
    edit(object, &[(name, Some(value))])
}

/// The object's text with members set (`Some`) or taken away (`None`), in one go.
pub fn with_members(object: &str, changes: &[(&str, Option<&str>)]) -> String {
    edit(object, changes)
}

/// The object's text without a member.
pub fn without_member(object: &str, name: &str) -> String {
    edit(object, &[(name, None)])
}

/// Raw params with members of their `_meta` set (`Some`) or taken away (`None`).
///
/// A `_meta` that would be empty is not added; one that is there and becomes empty stays.
pub fn with_meta(params: &str, changes: &[(&str, Option<&str>)]) -> String {
    let parsed: Object<'_> = serde_json::from_str(params).unwrap_or_default();
    let meta = parsed.get("_meta").map(RawValue::get);
    if meta.is_none() && changes.iter().all(|(_, value)| value.is_none()) {
        return params.to_owned();
    }
    let meta = edit(meta.unwrap_or("{}"), changes);
    edit(params, &[("_meta", Some(&meta))])
}

fn edit(object: &str, changes: &[(&str, Option<&str>)]) -> String {
    let parsed: Object<'_> = serde_json::from_str(object).unwrap_or_default();
    let added: usize = changes.iter().map(|(name, value)| name.len() + value.map_or(0, str::len) + 8).sum();
    let mut out = String::with_capacity(object.len() + added);
    out.push('{');
    let mut done = vec![false; changes.len()];
    for (key, value) in parsed.iter() {
        let change = changes.iter().zip(&mut done).find(|((name, _), _)| is_named(key, name));
        let value = match change {
            None => value.get(),
            // Named twice: set once, the others go.
            Some((_, done)) if *done => continue,
            Some(((_, new), done)) => {
                *done = true;
                let Some(new) = new else { continue };
                new
            }
        };
        push(&mut out, key.get(), value);
    }
    for ((name, value), done) in changes.iter().zip(done) {
        if let (Some(value), false) = (value, done) {
            push(&mut out, &quoted(name), value);
        }
    }
    out.push('}');
    out
}

fn push(out: &mut String, key: &str, value: &str) {
    if out.len() > 1 {
        out.push(',');
    }
    out.push_str(key);
    out.push(':');
    out.push_str(value);
}
