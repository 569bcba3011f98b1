//! Writing invisible text out: every code point of the frozen set becomes `\u{HEX}`.
//!
//! The set itself is in [`v1`]. Listings go through here before they are hashed (see `listing`),
//! everything else before a person reads it. Deliberately untouched: tab, LF, and CR before LF.
//! Folding of long blank runs is up to the screens.

use std::borrow::Cow;
use std::fmt::Write as _;

pub mod v1;

/// `text` with each invisible code point written as `\u{HEX}` (upper case, no leading zeros).
///
/// Borrowed if nothing had to be written out. Idempotent: what it writes is visible.
pub fn make_visible(text: &str) -> Cow<'_, str> {
    let Some(first) = first_invisible(text) else {
        return Cow::Borrowed(text);
    };
    let (clean, rest) = text.split_at(first);
    // Escapes are up to twelve times as long as what they stand for; a quarter more suits text in
    // which they are rare.
    let mut out = String::with_capacity(text.len() + text.len() / 4 + 16);
    out.push_str(clean);
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        let stays = if c == '\r' { chars.peek() == Some(&'\n') } else { !v1::contains(c.into()) };
        if stays {
            out.push(c);
        } else {
            write_escape(&mut out, c.into());
        }
    }
    Cow::Owned(out)
}

/// The first `most` characters of `text` made visible, less a CR whose LF would be cut off.
pub fn make_visible_up_to(text: &str, most: usize) -> String {
    cut_visible(&make_visible(text), most)
}

/// The first `most` characters of what is visible, less a CR whose LF would be cut off.
pub fn cut_visible(visible: &str, most: usize) -> String {
    let mut cut: String = visible.chars().take(most).collect();
    if cut.ends_with('\r') {
        cut.pop();
    }
    cut
}

/// Whether [`make_visible`] would leave `text` as it is.
pub fn is_visible(text: &str) -> bool {
    first_invisible(text).is_none()
}

/// Adds one code point in its visible form; returns whether it had to be written out.
///
/// For readers of UTF-16 or JSON escapes, where half a surrogate pair is a code point that no
/// `char` can hold. A CR is written out unless `next_is_lf`. What is no code point at all (above
/// U+10FFFF) is written out too.
pub fn write_visible(out: &mut String, code_point: u32, next_is_lf: bool) -> bool {
    let stays = if code_point == 0x0D { next_is_lf } else { !v1::contains(code_point) };
    match char::from_u32(code_point) {
        Some(c) if stays => {
            out.push(c);
            false
        }
        _ => {
            write_escape(out, code_point);
            true
        }
    }
}

#[expect(clippy::expect_used, reason = "writing to a String never fails")]
fn write_escape(out: &mut String, code_point: u32) {
    write!(out, "\\u{{{code_point:X}}}").expect("a String takes any text");
}

/// Where the first code point to be written out begins, in bytes.
fn first_invisible(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let rest = bytes.get(from..)?;
        let at = from + rest.iter().position(|byte| !is_plain(*byte))?;
        let mut chars = text.get(at..)?.chars();
        let c = chars.next()?;
        let stays = if c == '\r' { chars.next() == Some('\n') } else { !v1::contains(c.into()) };
        if !stays {
            return Some(at);
        }
        from = at + c.len_utf8();
    }
}

/// A byte that is a visible ASCII character, a tab or an LF.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7E | b'\t' | b'\n')
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
