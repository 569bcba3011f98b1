//! A JSON document whose strings are visible: what `reader` builds and `change` compares.
//!
//! Members stand in the order of RFC 8785, so a lookup is a binary search and no member is twice.
//! Trees are never deeper than the reader allowed, so walking or dropping one is safe.

use std::borrow::Cow;
use std::cmp::Ordering;

/// A member of an object.
pub(crate) type Member<'a> = (Cow<'a, str>, Json<'a>);

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    /// Finite, and the nearest double to what was written.
    Number(f64),
    /// Borrowed only as it stands between the quotes of JSON source, without an escape.
    Text(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    /// Sorted by [`member_order`], each name once.
    Object(Vec<Member<'a>>),
}

impl<'a> Json<'a> {
    /// The member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Json<'a>> {
        let members = self.members()?;
        let at = members.binary_search_by(|(other, _)| member_order(other, name)).ok()?;
        members.get(at).map(|(_, value)| value)
    }

    /// The members of an object.
    pub(crate) fn members(&self) -> Option<&[Member<'a>]> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The values of an array.
    pub(crate) fn items(&self) -> Option<&[Json<'a>]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The text of a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The word that sentences use for this kind of value.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// The order of member names in RFC 8785: by UTF-16 code units.
pub(crate) fn member_order(a: &str, b: &str) -> Ordering {
    match a.bytes().zip(b.bytes()).find(|(a, b)| a != b) {
        None => a.len().cmp(&b.len()),
        // Below U+E000 code points stand in one order in UTF-8 and UTF-16.
        Some((a, b)) if a < 0xEE && b < 0xEE => a.cmp(&b),
        Some(_) => a.encode_utf16().cmp(b.encode_utf16()),
    }
}
