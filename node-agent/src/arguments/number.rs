//! Numbers that no double can hold, for judging only; the tool gets them as sent.

use std::borrow::Cow;

/// The largest double, as the nearest to any number beyond it.
const LARGEST: &str = "1.7976931348623157e308";

/// JSON text in which each number beyond the doubles is the largest of its sign.
pub(super) fn within_doubles(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let rest = bytes.get(at..).unwrap_or_default();
                let length = rest
                    .iter()
                    .take_while(|b| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
                    .count();
                let number = json.get(at..at + length).unwrap_or_default();
                if number.parse::<f64>().is_ok_and(f64::is_infinite) {
                    out.push_str(json.get(copied..at).unwrap_or_default());
                    if number.starts_with('-') {
                        out.push('-');
                    }
                    out.push_str(LARGEST);
                    copied = at + length;
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(json.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Just behind the string that begins at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}
