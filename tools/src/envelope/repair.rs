//! What must be put right, or bounded, in a raw result before others read it.

use std::borrow::Cow;

/// JSON text in which each escape of half a surrogate pair is U+FFFD; everything else is as it was.
///
/// Parsers refuse a whole message, and model APIs each later request, over one half (20-listings 2).
/// `json` is valid JSON text, so that an escape's four digits are there.
pub fn repair_surrogates(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let escape = at + found;
        // Every other escape is two bytes; skipping both keeps `\\ud83d` what it is.
        at = escape + 2;
        match (unit(json, escape), unit(json, escape + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => at = escape + 12,
            (Some(0xD800..=0xDFFF), _) => {
                at = escape + 6;
                out.push_str(json.get(copied..escape).unwrap_or_default());
                out.push_str("\\ufffd");
                copied = at;
            }
            _ => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(json.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// The UTF-16 unit that an escape at this place writes.
fn unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

/// How deep JSON text is nested; a bare value is 0. Without recursion.
pub fn depth(json: &str) -> usize {
    let bytes = json.as_bytes();
    let (mut now, mut deepest) = (0_usize, 0);
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = behind_string(bytes, at),
            b'{' | b'[' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Where what comes behind a string begins, from its first character on. Most of a large result is in strings.
fn behind_string(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) else {
            return bytes.len();
        };
        at += found;
        match bytes.get(at) {
            Some(b'"') => return at + 1,
            _ => at += 2,
        }
    }
}
