//! Entries as a JSON reader sees them, and what of them counts: an independent, slow way to say it.

use std::fmt::Write as _;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::super::random::Dice;

/// A string of JSON: UTF-16 units, so that half a surrogate pair can stand in it.
pub(super) type Units = Vec<u16>;

#[derive(Clone, Debug)]
pub(super) enum Doc {
    Null,
    Bool(bool),
    Number(f64),
    Text(Units),
    Array(Vec<Doc>),
    Object(Vec<(Units, Doc)>),
}

impl Doc {
    /// How many parts it has.
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Array(items) => items.len(),
            Self::Object(members) => members.len(),
            _ => 0,
        }
    }
}

/// An entry of a list.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) name: Units,
    pub(super) members: Vec<(Units, Doc)>,
}

/// What counts of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
    Array(Vec<Plain>),
    /// In the order of the names.
    Object(Vec<(String, Plain)>),
}

pub(super) fn units(text: &str) -> Units {
    text.encode_utf16().collect()
}

static INVISIBLE: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    let hex = |value: &Value| u32::from_str_radix(value.as_str().unwrap(), 16).unwrap();
    super::rows(include_str!("../../../../tests/vectors/invisible-v1.json"), "ranges")
        .iter()
        .map(|range| (hex(&range[0]), hex(&range[1])))
        .collect()
});

fn is_hidden(code_point: u32, next: Option<u32>) -> bool {
    let in_set = INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&code_point));
    in_set || (code_point == 0x0D && next != Some(0x0A))
}

/// A string as people and models read it.
pub(super) fn visible(text: &[u16]) -> String {
    let code_points: Vec<u32> = char::decode_utf16(text.iter().copied())
        .map(|c| c.map_or_else(|half| half.unpaired_surrogate().into(), u32::from))
        .collect();
    let mut out = String::new();
    for (at, code_point) in code_points.iter().enumerate() {
        match char::from_u32(*code_point) {
            Some(c) if !is_hidden(*code_point, code_points.get(at + 1).copied()) => out.push(c),
            _ => write!(out, "\\u{{{code_point:X}}}").unwrap(),
        }
    }
    out
}

/// What is written out in a text put back as the characters it stands for.
pub(super) fn hide(written: &str) -> Units {
    let mut out = Units::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once("\\u{") {
        out.extend(before.encode_utf16());
        let hex = after.split_once('}').map_or("", |(hex, _)| hex);
        let code_point = u32::from_str_radix(hex, 16).ok().filter(|c| format!("{c:X}") == hex);
        match code_point.filter(|c| is_hidden(*c, None)) {
            Some(half @ 0xD800..=0xDFFF) => out.push(u16::try_from(half).unwrap()),
            Some(code_point) => {
                out.extend(char::from_u32(code_point).unwrap().encode_utf16(&mut [0; 2]).iter());
            }
            None => {
                out.extend("\\u{".encode_utf16());
                rest = after;
                continue;
            }
        }
        rest = after.split_once('}').unwrap().1;
    }
    out.extend(rest.encode_utf16());
    out
}

/// The value of a number, of which zero has one.
fn double(number: f64) -> Plain {
    Plain::Number(if number == 0.0 { 0 } else { number.to_bits() })
}

fn as_read(doc: &Doc, text: fn(&[u16]) -> String) -> Plain {
    match doc {
        Doc::Null => Plain::Null,
        Doc::Bool(bool) => Plain::Bool(*bool),
        Doc::Number(number) => double(*number),
        Doc::Text(units) => Plain::Text(text(units)),
        Doc::Array(items) => Plain::Array(items.iter().map(|item| as_read(item, text)).collect()),
        Doc::Object(members) => {
            object(members.iter().map(|(name, value)| (text(name), as_read(value, text))))
        }
    }
}

fn object(members: impl Iterator<Item = (String, Plain)>) -> Plain {
    let mut members: Vec<_> = members.collect();
    members.sort();
    Plain::Object(members)
}

/// What counts of a value outside `_meta`.
pub(super) fn plain(doc: &Doc) -> Plain {
    as_read(doc, visible)
}

/// What a reader of a canonical form reads.
pub(super) fn read(canonical: &str) -> Plain {
    fn of(value: Value) -> Plain {
        match value {
            Value::Null => Plain::Null,
            Value::Bool(bool) => Plain::Bool(bool),
            Value::Number(number) => double(number.as_f64().unwrap()),
            Value::String(text) => Plain::Text(text),
            Value::Array(items) => Plain::Array(items.into_iter().map(of).collect()),
            Value::Object(members) => object(members.into_iter().map(|(name, value)| (name, of(value)))),
        }
    }
    of(serde_json::from_str(canonical).unwrap())
}

impl Document {
    /// Each member named once, in every object.
    pub(super) fn tidied(mut self) -> Self {
        let mut members = Doc::Object(self.members);
        tidy(&mut members);
        let Doc::Object(members) = members else { unreachable!("it stays an object") };
        self.members = members;
        self
    }

    /// What counts of the entry, for the pointers `/_meta/build` and `/_meta/a/0`.
    pub(super) fn plain(&self) -> Plain {
        plain(&Doc::Object(self.counting()))
    }

    /// Whether two names of an object, or two values of an `enum`, read alike.
    pub(super) fn has_twins(&self) -> bool {
        // Names of members that do not count are read all the same.
        let removed = self.members.iter().any(|(name, value)| {
            visible(name) == "_meta"
                && (has_twin_names(value) || part(value, "a").is_some_and(has_twin_names))
        });
        removed || has_twins(&Doc::Object(self.counting()))
    }

    fn counting(&self) -> Vec<(Units, Doc)> {
        let mut members = self.members.clone();
        for (name, value) in &mut members {
            let (true, Doc::Object(meta)) = (visible(name) == "_meta", value) else { continue };
            meta.retain(|(name, _)| visible(name) != "build" && !visible(name).starts_with("dev.pintle/"));
            for (name, value) in meta.iter_mut() {
                match value {
                    _ if visible(name) != "a" => {}
                    Doc::Object(members) => members.retain(|(name, _)| visible(name) != "0"),
                    Doc::Array(items) if !items.is_empty() => drop(items.remove(0)),
                    _ => {}
                }
            }
        }
        members
    }

    /// As a server might write it.
    pub(super) fn spell(&self, dice: &mut Dice<'_>, out: &mut String) {
        let mut members = self.members.clone();
        members.insert(dice.below(members.len() + 1), (units("name"), Doc::Text(self.name.clone())));
        spell(&Doc::Object(members), dice, out);
    }
}

fn part<'d>(doc: &'d Doc, name: &str) -> Option<&'d Doc> {
    let Doc::Object(members) = doc else { return None };
    members.iter().find(|(other, _)| visible(other) == name).map(|(_, value)| value)
}

fn tidy(doc: &mut Doc) {
    match doc {
        Doc::Array(items) => items.iter_mut().for_each(tidy),
        Doc::Object(members) => {
            let mut seen = std::collections::BTreeSet::new();
            members.retain(|(name, _)| seen.insert(visible(name)));
            for (_, value) in members {
                tidy(value);
            }
        }
        _ => {}
    }
}

fn has_twin_names(doc: &Doc) -> bool {
    let Doc::Object(members) = doc else { return false };
    let mut seen = std::collections::BTreeSet::new();
    !members.iter().all(|(name, _)| seen.insert(visible(name)))
}

fn has_twins(doc: &Doc) -> bool {
    let exact = |doc: &Doc| as_read(doc, |units| format!("{units:?}"));
    let twin_values = |name: &[u16], value: &Doc| {
        let (true, Doc::Array(items)) = (visible(name) == "enum", value) else { return false };
        let mut pairs =
            items.iter().enumerate().flat_map(|(at, one)| items[..at].iter().map(move |o| (one, o)));
        pairs.any(|(one, other)| plain(one) == plain(other) && exact(one) != exact(other))
    };
    match doc {
        Doc::Array(items) => items.iter().any(has_twins),
        Doc::Object(members) => {
            has_twin_names(doc)
                || members.iter().any(|(name, value)| twin_values(name, value) || has_twins(value))
        }
        _ => false,
    }
}

fn spell(doc: &Doc, dice: &mut Dice<'_>, out: &mut String) {
    dice.blank(out);
    match doc {
        Doc::Null => out.push_str("null"),
        Doc::Bool(bool) => write!(out, "{bool}").unwrap(),
        Doc::Number(number) => spell_number(*number, dice, out),
        Doc::Text(text) => spell_text(text, dice, out),
        Doc::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                spell(item, dice, out);
            }
            out.push(']');
        }
        Doc::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            let turn = dice.below(members.len().max(1));
            members.rotate_left(turn);
            out.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                dice.blank(out);
                spell_text(name, dice, out);
                dice.blank(out);
                out.push(':');
                spell(value, dice, out);
            }
            dice.blank(out);
            out.push('}');
        }
    }
    dice.blank(out);
}

fn spell_number(number: f64, dice: &mut Dice<'_>, out: &mut String) {
    let spelled = match dice.roll(6) {
        0 => format!("{number:e}"),
        1 => format!("{number:E}").replace('E', "E+").replace("+-", "-"),
        2 => format!("{number:.20e}"),
        3 => format!("{number:?}"),
        4 if number.fract() == 0.0 => format!("{number}.000"),
        _ => format!("{number}"),
    };
    assert_eq!(spelled.parse::<f64>().unwrap().to_bits(), number.to_bits(), "{spelled}");
    out.push_str(&spelled);
}

fn spell_text(text: &[u16], dice: &mut Dice<'_>, out: &mut String) {
    out.push('"');
    let escape = |unit: u16, out: &mut String, upper: bool| {
        if upper { write!(out, "\\u{unit:04X}").unwrap() } else { write!(out, "\\u{unit:04x}").unwrap() }
    };
    for decoded in char::decode_utf16(text.iter().copied()) {
        let upper = dice.roll(2) == 0;
        let c = match decoded {
            Ok(c) => c,
            Err(half) => {
                escape(half.unpaired_surrogate(), out, upper);
                continue;
            }
        };
        let short = "\"\\/\u{8}\u{C}\n\r\t".chars().zip("\"\\/bfnrt".chars()).find(|(of, _)| *of == c);
        match (dice.roll(3), short) {
            (1, Some((_, letter))) => write!(out, "\\{letter}").unwrap(),
            (2, _) if c >= ' ' && c != '"' && c != '\\' => out.push(c),
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escape(*unit, out, upper)),
        }
    }
    out.push('"');
}

pub(super) fn text() -> impl Strategy<Value = Units> {
    let odd = select(vec![
        "\"",
        "\\",
        "/",
        "\r",
        "\n",
        "\r\n",
        "\t",
        "\0",
        "\u{200B}",
        "\u{7F}",
        "\u{E0041}",
        "\u{202E}",
        "é",
        "🙂",
        "\u{FB33}",
        "\u{FE0F}",
        "\\u{200B}",
        "\\u{D}",
        "\\u{D83D}",
        "\\u{",
        "e\u{301}",
        "é",
        "a",
        "b",
    ]);
    let part = prop_oneof![
        6 => odd.prop_map(units),
        1 => select(vec![0xD83D_u16, 0xDE42]).prop_map(|half| vec![half]),
        2 => any::<char>().prop_map(|c| units(&c.to_string())),
    ];
    prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
}

/// A value, five levels deep at most.
pub(super) fn doc() -> impl Strategy<Value = Doc> {
    let whole = any::<i64>().prop_map(|whole| {
        #[expect(clippy::cast_precision_loss, reason = "any double will do")]
        let near = whole as f64;
        near
    });
    let number = prop_oneof![
        select(vec![0.0, -0.0, 1.0, 0.1, 100.0, 1e21, 9_007_199_254_740_993.0, 5e-324, f64::MAX]),
        whole,
        any::<f64>().prop_filter("finite", |number| number.is_finite()),
    ];
    let leaf = prop_oneof![
        Just(Doc::Null),
        any::<bool>().prop_map(Doc::Bool),
        number.prop_map(Doc::Number),
        text().prop_map(Doc::Text),
    ];
    leaf.prop_recursive(5, 24, 4, |inner| {
        let names = prop_oneof![select(vec!["enum", "a", "0", "type"]).prop_map(units), text()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Doc::Array),
            prop::collection::vec((names, inner), 0..4).prop_map(Doc::Object),
        ]
    })
    .prop_map(|mut doc| {
        tidy(&mut doc);
        doc
    })
}
