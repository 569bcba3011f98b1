//! Reads one document into a tree: strictly, once, with every limit of the profile.
//!
//! Recursion is bounded by [`DEPTH`]; what is removed of `_meta` is passed over without any.

use std::borrow::Cow;

use super::canonical::canonical;
use super::entry::RealText;
use super::fault::{Fault, UnreadableFault};
use super::json::{Json, Member, member_order};
use super::meta::{MetaPointer, Removed};
use super::scan::{Read, Scan, Text, closing};
use super::{DEPTH, ENTRY_BYTES, STRING_BYTES};

/// What an entry reads as.
pub(super) struct ReadEntry<'a> {
    /// Its `name`, visible.
    pub(super) name: Cow<'a, str>,
    /// Everything else, as it is hashed.
    pub(super) rest: Json<'a>,
    /// Whether anything in it, its name included, had to be written out.
    pub(super) hidden: bool,
    /// What stands behind what was written out where a model sends it back.
    pub(super) real: Vec<RealText>,
}

/// Reads one entry of a `tools/list` result.
pub(super) fn read_entry<'a>(raw: &'a str, ignore: &[MetaPointer]) -> Read<ReadEntry<'a>> {
    let mut reader = Reader::new(Scan::new(raw));
    let (name, rest) = reader.entry(ignore)?;
    reader.scan.end()?;
    Ok(ReadEntry { name, rest, hidden: reader.hidden, real: reader.real })
}

/// Reads a canonical form, or any document, whole.
pub(super) fn read_document(text: &str) -> Read<Json<'_>> {
    let mut reader = Reader::new(Scan::new(text));
    let json = reader.value(&Removed::default())?;
    reader.scan.end()?;
    Ok(json)
}

struct Reader<'a> {
    scan: Scan<'a>,
    depth: usize,
    /// Bytes of the canonical form that were read so far: a lower bound, exact but for numbers.
    bytes: usize,
    hidden: bool,
    /// Whether this is below `inputSchema`, whose texts models send back.
    in_schema: bool,
    /// Whether this is below an `enum` or a `const`.
    in_choice: bool,
    real: Vec<RealText>,
}

impl<'a> Reader<'a> {
    const fn new(scan: Scan<'a>) -> Self {
        Self { scan, depth: 0, bytes: 0, hidden: false, in_schema: false, in_choice: false, real: Vec::new() }
    }

    fn entry(&mut self, ignore: &[MetaPointer]) -> Read<(Cow<'a, str>, Json<'a>)> {
        if self.scan.peek() != Some(b'{') {
            let got = self.value(&Removed::default())?.kind();
            return Err(Fault::new(UnreadableFault::NotAnObject { got }));
        }
        let mut name = None;
        let nothing = Removed::default();
        let rest = self.object(|reader, member| match &*member.visible {
            "name" => reader.entry_name(&mut name).map(|()| None),
            "_meta" => reader.value(&Removed::of_meta(ignore)).map(Some),
            "inputSchema" => {
                reader.in_schema = true;
                let value = reader.value(&nothing);
                reader.in_schema = false;
                value.map(Some)
            }
            _ => reader.member_value(member),
        })?;
        match name {
            Some(name) => Ok((name, rest)),
            None => Err(Fault::new(UnreadableFault::NoName)),
        }
    }

    /// The name is no part of the canonical form, so the limits do not count it; `name` judges it.
    fn entry_name(&mut self, name: &mut Option<Cow<'a, str>>) -> Read<()> {
        if name.is_some() {
            return Err(Fault::new(UnreadableFault::Twice));
        }
        if self.scan.peek() != Some(b'"') {
            let got = self.value(&Removed::default())?.kind();
            return Err(Fault::new(UnreadableFault::NameNotText { got }));
        }
        let text = self.scan.string()?;
        self.hidden |= text.hidden;
        *name = Some(text.visible);
        Ok(())
    }

    fn value(&mut self, removed: &Removed<'_>) -> Read<Json<'a>> {
        match self.scan.peek() {
            Some(b'{') if removed.is_nothing() => self.object(Self::member_value),
            Some(b'{') => self.object(|reader, member| {
                if removed.takes(&member.visible) {
                    reader.scan.skip().map(|_| None)
                } else {
                    let below = removed.below(&member.visible);
                    if below.is_nothing() {
                        reader.member_value(member)
                    } else {
                        reader.value(&below).map(Some)
                    }
                }
            }),
            Some(b'[') => self.array(removed),
            Some(b'"') => {
                let text = self.scan.string()?;
                self.count(text.spelled + 2)?;
                self.check_text(&text)?;
                if text.hidden && self.in_choice {
                    self.keep_real(&text, false);
                }
                Ok(Json::Text(text.visible))
            }
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.scan.fault("a value")),
        }
    }

    fn word(&mut self, word: &'static str, json: Json<'a>) -> Read<Json<'a>> {
        self.count(word.len())?;
        self.scan.word(word).map(|()| json)
    }

    fn number(&mut self) -> Read<Json<'a>> {
        self.count(1)?;
        let source = self.scan.number()?;
        // Most are short and whole, which is read faster than a double and is one exactly.
        if let Some(whole) = Some(source).filter(|s| s.len() < 10).and_then(|s| s.parse::<i32>().ok()) {
            return Ok(Json::Number(whole.into()));
        }
        match source.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Json::Number(number)),
            _ => Err(Fault::new(UnreadableFault::Number(source.chars().take(40).collect()))),
        }
    }

    fn member_value(&mut self, member: &Text<'a>) -> Read<Option<Json<'a>>> {
        let (is_enum, is_const) = (member.visible == "enum", member.visible == "const");
        if !is_enum && !is_const {
            return self.value(&Removed::default()).map(Some);
        }
        let outer = std::mem::replace(&mut self.in_choice, true);
        let hidden = std::mem::replace(&mut self.hidden, false);
        self.scan.peek();
        let start = self.scan.at();
        let value = self.value(&Removed::default())?;
        if is_enum && self.hidden && !values_stay_apart(self.scan.since(start), &value) {
            return Err(Fault::new(UnreadableFault::EnumOnceVisible));
        }
        self.hidden |= hidden;
        self.in_choice = outer;
        Ok(Some(value))
    }

    /// An object; `value` reads a member's value, or passes over it and gives `None`.
    fn object(
        &mut self,
        mut value: impl FnMut(&mut Self, &Text<'a>) -> Read<Option<Json<'a>>>,
    ) -> Read<Json<'a>> {
        self.open()?;
        let mut members: Vec<Member<'a>> = Vec::new();
        let mut left: Vec<Cow<'a, str>> = Vec::new();
        let mut hidden_names = false;
        let mut more = !self.scan.take(b'}');
        while more {
            let name = self.scan.name()?;
            self.scan.expect(b':', "a colon")?;
            hidden_names |= name.hidden;
            match value(self, &name).map_err(|fault: Fault| fault.below(&name.visible))? {
                Some(value) => {
                    // Two quotes, a colon and a comma.
                    self.count(name.spelled + 4)?;
                    self.check_text(&name)?;
                    if name.hidden && self.in_schema {
                        self.keep_real(&name, true);
                    }
                    members.push((name.visible, value));
                }
                None => left.push(name.visible),
            }
            more = self.scan.take(b',');
            if !more {
                let (close, expected) = closing(true);
                self.scan.expect(close, expected)?;
            }
        }
        self.depth -= 1;
        let in_order = members.is_sorted_by(|(a, _), (b, _)| member_order(a, b).is_lt());
        if in_order && left.len() < 2 {
            return Ok(Json::Object(members));
        }
        members.sort_by(|(a, _), (b, _)| member_order(a, b));
        left.sort_unstable();
        let twice = members.windows(2).find_map(|two| match two {
            [(a, _), (b, _)] if a == b => Some(a),
            _ => None,
        });
        let twice =
            twice.or_else(|| left.windows(2).find_map(|two| two.first().filter(|a| two.last() == Some(a))));
        if let Some(name) = twice {
            let written_out = hidden_names && name.contains("\\u{");
            let fault = if written_out { UnreadableFault::TwiceOnceVisible } else { UnreadableFault::Twice };
            return Err(Fault::new(fault).below(name));
        }
        Ok(Json::Object(members))
    }

    fn array(&mut self, removed: &Removed<'_>) -> Read<Json<'a>> {
        self.open()?;
        let mut items = Vec::new();
        let mut index = 0_usize;
        let mut more = !self.scan.take(b']');
        while more {
            let item = if removed.is_nothing() {
                self.value(removed).map(Some)
            } else {
                let step = index.to_string();
                if removed.takes(&step) {
                    self.scan.skip().map(|_| None)
                } else {
                    self.value(&removed.below(&step)).map(Some)
                }
            };
            if let Some(item) = item.map_err(|fault: Fault| fault.below(&index.to_string()))? {
                self.count(1)?;
                items.push(item);
            }
            index += 1;
            more = self.scan.take(b',');
            if !more {
                let (close, expected) = closing(false);
                self.scan.expect(close, expected)?;
            }
        }
        self.depth -= 1;
        Ok(Json::Array(items))
    }

    /// Takes an opening bracket.
    fn open(&mut self) -> Read<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Fault::new(UnreadableFault::TooDeep));
        }
        // The last item's comma was counted although none is written.
        self.count(1)?;
        self.scan.peek();
        self.scan.take(b'{');
        self.scan.take(b'[');
        Ok(())
    }

    /// Ends early what would only be found too large once written, so that memory is bounded by
    /// the limit and not by what a server sends.
    fn count(&mut self, bytes: usize) -> Read<()> {
        self.bytes += bytes;
        if self.bytes > ENTRY_BYTES && !self.scan.is_distinct() {
            Err(Fault::new(UnreadableFault::EntryTooLarge))
        } else {
            Ok(())
        }
    }

    fn check_text(&mut self, text: &Text<'a>) -> Read<()> {
        self.hidden |= text.hidden;
        if text.spelled > STRING_BYTES && !self.scan.is_distinct() {
            Err(Fault::new(UnreadableFault::StringTooLong))
        } else {
            Ok(())
        }
    }

    fn keep_real(&mut self, text: &Text<'a>, is_member_name: bool) {
        if self.in_schema {
            let (written, real) = (text.visible.as_ref().into(), text.token.into());
            self.real.push(RealText { written, real, is_member_name });
        }
    }
}

/// Whether values of an `enum` that are equal once visible were equal before.
fn values_stay_apart(source: &str, value: &Json<'_>) -> bool {
    let Some(visible) = value.items() else { return true };
    let mut scan = Scan::new(source);
    let mut sources = Vec::with_capacity(visible.len());
    scan.take(b'[');
    while sources.len() < visible.len() {
        let Ok(item) = scan.skip() else { return true };
        sources.push(item);
        scan.take(b',');
    }
    let mut spelled: Vec<(String, &str)> =
        visible.iter().map(|value| canonical(value, 0)).zip(sources).collect();
    spelled.sort_unstable();
    spelled.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1).all(|same| {
        let mut distinct = same.iter().map(|(_, source)| distinct_form(source));
        let first = distinct.next();
        distinct.all(|other| Some(other) == first)
    })
}

/// The canonical form in which what was written out differs from what was typed like it. Limits
/// are not counted: those of the entry were.
fn distinct_form(source: &str) -> Option<String> {
    let mut reader = Reader::new(Scan::distinct(source));
    reader.value(&Removed::default()).ok().map(|json| canonical(&json, source.len()))
}
