//! The words of JSON text: white space, strings, numbers, and whole values that are passed over.
//!
//! Strict (RFC 8259) except for half surrogate pairs in escapes, which become visible text. Nothing
//! here recurses.

use std::borrow::Cow;

use super::fault::{Fault, UnreadableFault};
use super::word;
use crate::visible::{make_visible, write_visible};

pub(super) type Read<T> = Result<T, Fault>;

/// A string as it reads once visible.
pub(super) struct Text<'a> {
    pub(super) visible: Cow<'a, str>,
    /// Whether something in it had to be written out.
    pub(super) hidden: bool,
    /// Its bytes as the canonical form spells it, without its quotes.
    pub(super) spelled: usize,
    /// As it stands in the source, quotes included.
    pub(super) token: &'a str,
}

impl<'a> Text<'a> {
    fn new(visible: Cow<'a, str>, hidden: bool, token: &'a str) -> Self {
        let escapes = match &visible {
            // A slice of the source between its quotes has nothing that has to be escaped.
            Cow::Borrowed(_) => 0,
            Cow::Owned(text) => text.bytes().filter(|b| matches!(b, b'"' | b'\\' | 0..0x20)).count(),
        };
        Self { spelled: visible.len() + escapes, visible, hidden, token }
    }
}

/// A place in JSON text.
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// Doubles each backslash of a string's own text, so that what was written out and what was
    /// typed so stay apart.
    distinct: bool,
}

impl<'a> Scan<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0, distinct: false }
    }

    /// As [`Scan::new`], for telling apart strings that read alike once visible.
    pub(super) const fn distinct(text: &'a str) -> Self {
        Self { text, at: 0, distinct: true }
    }

    pub(super) const fn is_distinct(&self) -> bool {
        self.distinct
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// The source from `start` to this place.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The next byte after white space, not taken.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        // Between most words there is none.
        if let Some(byte) = rest.first().filter(|byte| **byte > b' ') {
            return Some(*byte);
        }
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += blank;
        rest.get(blank).copied()
    }

    /// Takes the next byte after white space if it is this one.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    pub(super) fn expect(&mut self, byte: u8, expected: &'static str) -> Read<()> {
        if self.take(byte) { Ok(()) } else { Err(self.fault(expected)) }
    }

    /// Refuses what follows the value.
    pub(super) fn end(&mut self) -> Read<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.fault("the end of the text")) }
    }

    /// Takes `true`, `false` or `null`.
    pub(super) fn word(&mut self, word: &'static str) -> Read<()> {
        if self.rest().starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.fault("a value"))
        }
    }

    /// Takes a number and gives its source; the next byte is `-` or a digit.
    pub(super) fn number(&mut self) -> Read<&'a str> {
        let start = self.at;
        self.at += usize::from(self.rest().first() == Some(&b'-'));
        match self.rest().first() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.rest().first() == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.rest().first(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.rest().first(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(self.since(start))
    }

    fn digits(&mut self) -> Read<()> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Err(self.fault("a digit"));
        }
        self.at += digits;
        Ok(())
    }

    /// Takes a string; the next byte is its quote.
    #[inline]
    pub(super) fn string(&mut self) -> Read<Text<'a>> {
        let start = self.at;
        self.at += 1;
        let run = self.run()?;
        if run.stop == b'"' {
            let plain = self.since(start + 1);
            self.at += 1;
            let visible = if run.ascii { Cow::Borrowed(plain) } else { make_visible(plain) };
            let hidden = matches!(visible, Cow::Owned(_));
            return Ok(Text::new(visible, hidden, self.since(start)));
        }
        self.string_with_escapes(start)
    }

    /// The same of one that is at its first backslash.
    #[inline(never)]
    fn string_with_escapes(&mut self, start: usize) -> Read<Text<'a>> {
        let (text, halves) = self.escaped(start + 1)?;
        let written_out = match make_visible(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(visible) => Some(visible),
        };
        let hidden = halves || written_out.is_some();
        Ok(Text::new(Cow::Owned(written_out.unwrap_or(text)), hidden, self.since(start)))
    }

    /// The rest of a string from its first backslash on, decoded; and whether it had half a
    /// surrogate pair, which is written out.
    fn escaped(&mut self, start: usize) -> Read<(String, bool)> {
        let mut text = String::with_capacity(self.at - start + 32);
        text.push_str(self.since(start));
        let mut halves = false;
        loop {
            // At a backslash or the closing quote.
            let byte = self.rest().first().copied();
            self.at += 1;
            if byte == Some(b'"') {
                return Ok((text, halves));
            }
            halves |= self.escape(&mut text)?;
            let start = self.at;
            self.run()?;
            text.push_str(self.since(start));
        }
    }

    /// Decodes what follows a backslash.
    fn escape(&mut self, text: &mut String) -> Read<bool> {
        let plain = match self.rest().first() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{C}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let code_point = self.code_point()?;
                let Some(c) = char::from_u32(code_point) else {
                    return Ok(write_visible(text, code_point, false));
                };
                self.push(text, c);
                return Ok(false);
            }
            _ => return Err(self.fault("an escape")),
        };
        self.at += 1;
        self.push(text, plain);
        Ok(false)
    }

    fn push(&self, text: &mut String, c: char) {
        if c == '\\' && self.distinct {
            text.push('\\');
        }
        text.push(c);
    }

    /// The code point of `\uXXXX`, or of two of them that make a surrogate pair.
    fn code_point(&mut self) -> Read<u32> {
        let first = self.hex()?;
        if !(0xD800..0xDC00).contains(&first) || !self.rest().starts_with(b"\\u") {
            return Ok(first);
        }
        let back = self.at;
        self.at += 2;
        let second = self.hex()?;
        if (0xDC00..0xE000).contains(&second) {
            return Ok(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
        }
        self.at = back;
        Ok(first)
    }

    fn hex(&mut self) -> Read<u32> {
        let digits = self.rest().get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        let Some(value) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return Err(self.fault("four hexadecimal digits"));
        };
        self.at += 4;
        Ok(value)
    }

    /// Goes on to the next quote or backslash of a string.
    #[inline]
    fn run(&mut self) -> Read<Run> {
        let rest = self.rest();
        let (words, tail) = rest.as_chunks::<8>();
        let (mut passed, mut odd) = (0, false);
        for bytes in words {
            let word = u64::from_le_bytes(*bytes);
            let stops = word::stops(word);
            odd |= word::odd(word) & word::before(stops) != 0;
            passed += word::bytes_before(stops);
            if stops != 0 {
                return self.stop(rest, passed, odd);
            }
        }
        for byte in tail.iter().take_while(|byte| !word::is_stop(**byte)) {
            odd |= *byte >= 0x7F;
            passed += 1;
        }
        self.stop(rest, passed, odd)
    }

    #[inline]
    fn stop(&mut self, rest: &[u8], passed: usize, odd: bool) -> Read<Run> {
        self.at += passed;
        match rest.get(passed) {
            Some(stop @ (b'"' | b'\\')) => Ok(Run { stop: *stop, ascii: !odd }),
            Some(_) => Err(self.fault("an escape instead of a control character")),
            None => Err(self.fault("the end of a string")),
        }
    }

    /// Passes over a value of any depth, strictly, and gives its source.
    pub(super) fn skip(&mut self) -> Read<&'a str> {
        self.peek();
        let start = self.at;
        // One entry per open bracket: whether it is an object's.
        let mut open: Vec<bool> = Vec::new();
        loop {
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    if !self.take(b'}') {
                        self.member()?;
                        open.push(true);
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    if !self.take(b']') {
                        open.push(false);
                        continue;
                    }
                }
                _ => self.skip_scalar()?,
            }
            // A value is complete: close what ends with it.
            loop {
                let Some(is_object) = open.last().copied() else {
                    return Ok(self.since(start));
                };
                if self.take(b',') {
                    if is_object {
                        self.member()?;
                    }
                    break;
                }
                let (close, expected) = closing(is_object);
                self.expect(close, expected)?;
                open.pop();
            }
        }
    }

    fn member(&mut self) -> Read<()> {
        self.name_token()?;
        self.expect(b':', "a colon")
    }

    /// Takes a member's name.
    #[inline]
    pub(super) fn name(&mut self) -> Read<Text<'a>> {
        if self.peek() == Some(b'"') { self.string() } else { Err(self.fault("a member's name")) }
    }

    fn name_token(&mut self) -> Read<()> {
        if self.peek() == Some(b'"') { self.skip_scalar() } else { Err(self.fault("a member's name")) }
    }

    fn skip_scalar(&mut self) -> Read<()> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                while self.run()?.stop == b'\\' {
                    self.at += 1;
                    // What it decodes to is of no interest, only that it is an escape.
                    self.escape(&mut String::new())?;
                }
                self.at += 1;
                Ok(())
            }
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            _ => Err(self.fault("a value")),
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// No JSON at this place.
    #[cold]
    pub(super) fn fault(&self, expected: &'static str) -> Fault {
        let from = self.text.floor_char_boundary(self.at.saturating_sub(20));
        let to = self.text.floor_char_boundary(self.at.saturating_add(20));
        let around = make_visible(self.text.get(from..to).unwrap_or_default()).into_owned();
        Fault::new(UnreadableFault::NotJson { at: self.at, expected, around })
    }
}

/// What ends an open object or array.
pub(super) const fn closing(is_object: bool) -> (u8, &'static str) {
    if is_object { (b'}', "a comma or }") } else { (b']', "a comma or ]") }
}

/// A stretch of a string without quotes and backslashes.
struct Run {
    /// The quote or backslash that it ends at.
    stop: u8,
    /// Whether all of it is visible ASCII.
    ascii: bool,
}
