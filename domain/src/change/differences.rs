//! Where two listings differ, member by member, for showing.

use super::grade::pairs;
use crate::listing::json::Json;
use crate::listing::{canonical_of, read_canonical};

/// How many differences are told one by one; a change with more is not read one by one either.
pub const MAX_DIFFERENCES: usize = 1_000;

/// Bytes of all their pointers: long names at great depth would otherwise be repeated a thousand
/// times.
const MAX_POINTER_BYTES: usize = 1 << 20;

/// One place in which two listings differ. Its texts are visible, but unbounded up to the limits
/// of a listing: screens fold them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// A JSON pointer into the listing.
    pub pointer: String,
    /// What was approved, `None` if there was nothing.
    pub before: Option<String>,
    /// What was seen, `None` if there is nothing.
    pub after: Option<String>,
    /// Whether what there is on each side is a string, given as its text; else values are given as
    /// canonical JSON.
    pub is_text: bool,
}

/// Where two canonical forms differ, in the order of their members. Nothing is left away: what
/// would be more than [`MAX_DIFFERENCES`] is told as fewer, larger ones.
pub fn differences(approved: &str, seen: &str) -> Vec<Difference> {
    if approved == seen {
        return Vec::new();
    }
    let whole = || {
        vec![Difference {
            pointer: String::new(),
            before: Some(approved.to_owned()),
            after: Some(seen.to_owned()),
            is_text: false,
        }]
    };
    let (Some(before), Some(after)) = (read_canonical(approved), read_canonical(seen)) else {
        return whole();
    };
    // First each difference, then each member of the listing, then the listing.
    for depth in [usize::MAX, 1] {
        let mut found = Found { differences: Vec::new(), bytes: 0 };
        if found.compare(&mut String::new(), Some(&before), Some(&after), depth).is_some() {
            return found.differences;
        }
    }
    whole()
}

/// Whether two listings differ in digits only: a count, a date, a time. A hint for people that a
/// function is volatile, never a reason to take it as unchanged.
pub fn differs_in_digits_only(approved: &str, seen: &str) -> bool {
    fn rest(text: &str) -> impl Iterator<Item = char> {
        text.chars().filter(|c| !c.is_ascii_digit())
    }
    approved != seen && rest(approved).eq(rest(seen))
}

struct Found {
    differences: Vec<Difference>,
    bytes: usize,
}

impl Found {
    /// Goes `depth` levels down. `None` if there are too many.
    fn compare(
        &mut self,
        pointer: &mut String,
        before: Option<&Json<'_>>,
        after: Option<&Json<'_>>,
        depth: usize,
    ) -> Option<()> {
        match (before, after) {
            _ if before == after => Some(()),
            (Some(Json::Object(before)), Some(Json::Object(after))) if depth > 0 => {
                for (name, before, after) in pairs(before, after) {
                    if before != after {
                        let step = name.replace('~', "~0").replace('/', "~1");
                        self.below(pointer, &step, before, after, depth)?;
                    }
                }
                Some(())
            }
            (Some(Json::Array(old)), Some(Json::Array(new)))
                if depth > 0 && !(old.iter().all(is_scalar) && new.iter().all(is_scalar)) =>
            {
                for index in 0..old.len().max(new.len()) {
                    self.below(pointer, &index.to_string(), old.get(index), new.get(index), depth)?;
                }
                Some(())
            }
            _ => self.add(pointer, before, after),
        }
    }

    fn below(
        &mut self,
        pointer: &mut String,
        step: &str,
        before: Option<&Json<'_>>,
        after: Option<&Json<'_>>,
        depth: usize,
    ) -> Option<()> {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(step);
        let result = self.compare(pointer, before, after, depth - 1);
        pointer.truncate(length);
        result
    }

    fn add(&mut self, pointer: &str, before: Option<&Json<'_>>, after: Option<&Json<'_>>) -> Option<()> {
        self.bytes += pointer.len();
        if self.differences.len() == MAX_DIFFERENCES || self.bytes > MAX_POINTER_BYTES {
            return None;
        }
        let is_text = [before, after].into_iter().flatten().all(|value| value.text().is_some());
        let spell = |value: &Json<'_>| match value.text() {
            Some(text) if is_text => text.to_owned(),
            _ => canonical_of(value),
        };
        self.differences.push(Difference {
            pointer: pointer.to_owned(),
            before: before.map(spell),
            after: after.map(spell),
            is_text,
        });
        Some(())
    }
}

const fn is_scalar(json: &Json<'_>) -> bool {
    !matches!(json, Json::Array(_) | Json::Object(_))
}
