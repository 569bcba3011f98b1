//! Random documents in random spellings: the hash sees only what they say.

use proptest::prelude::*;

use super::*;
use crate::visible::make_visible;

fn document() -> impl Strategy<Value = Value> {
    let odd = prop::sample::select(vec![
        '"', '\\', '/', '\n', '\r', '\t', '\u{200B}', '\u{7F}', 'é', '🙂', '\u{FB33}',
    ]);
    let c = prop_oneof![odd, prop::char::range('a', 'f'), any::<char>()];
    let text = prop::collection::vec(c, 0..6).prop_map(|chars| chars.into_iter().collect::<String>());
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(text.clone(), inner, 0..6).prop_map(|members| {
                // Names that are equal once visible are another test's.
                let mut seen = std::collections::BTreeSet::new();
                let members = members.into_iter().filter(|(k, _)| seen.insert(make_visible(k).into_owned()));
                Value::Object(members.collect())
            }),
        ]
    })
}

/// Spends random bits, the same ones again and again.
pub(super) struct Dice<'d>(std::iter::Cycle<std::slice::Iter<'d, u8>>);

impl<'d> Dice<'d> {
    pub(super) fn new(bits: &'d [u8]) -> Self {
        Self(bits.iter().cycle())
    }

    pub(super) fn roll(&mut self, sides: u8) -> u8 {
        self.0.next().unwrap() % sides
    }

    /// A place below `count`, or 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        usize::from(self.roll(u8::MAX)) % count.max(1)
    }

    pub(super) fn blank(&mut self, out: &mut String) {
        out.push_str(["", "", " ", "\n\t", "\r\n"][usize::from(self.roll(5))]);
    }
}

fn spell_text(text: &str, dice: &mut Dice<'_>, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        let must = c < ' ' || matches!(c, '"' | '\\');
        match dice.roll(4) {
            0 => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let hex = if dice.roll(2) == 0 { format!("{unit:04x}") } else { format!("{unit:04X}") };
                    write!(out, "\\u{hex}").unwrap();
                }
            }
            _ if must => out.push_str(serde_json::to_string(&c).unwrap().trim_matches('"').trim_end()),
            1 if c == '/' => out.push_str("\\/"),
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn spell(value: &Value, dice: &mut Dice<'_>, out: &mut String) {
    dice.blank(out);
    match value {
        Value::String(text) if text.contains('"') => out.push_str(&serde_json::to_string(text).unwrap()),
        Value::String(text) => spell_text(text, dice, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                spell(item, dice, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            let turn = usize::from(dice.roll(8)) % members.len().max(1);
            members.rotate_left(turn);
            if dice.roll(2) == 0 {
                members.reverse();
            }
            out.push('{');
            for (index, (name, item)) in members.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                dice.blank(out);
                out.push_str(&serde_json::to_string(name).unwrap());
                dice.blank(out);
                out.push(':');
                spell(item, dice, out);
            }
            dice.blank(out);
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
    dice.blank(out);
}

/// An independent, slow way to the canonical form: visible strings in a `Value`, then the library.
fn slow_canonical(value: &Value) -> String {
    fn visible(value: &Value) -> Value {
        match value {
            Value::String(text) => make_visible(text).into(),
            Value::Array(items) => items.iter().map(visible).collect(),
            Value::Object(members) => {
                members.iter().map(|(k, v)| (make_visible(k).into_owned(), visible(v))).collect()
            }
            other => other.clone(),
        }
    }
    serde_json_canonicalizer::to_string(&visible(value)).unwrap()
}

proptest! {
    #[test]
    fn the_hash_depends_on_no_spelling(
        document in document(),
        bits in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let mut raw = r#"{"name":"f","x":"#.to_owned();
        spell(&document, &mut Dice::new(&bits), &mut raw);
        raw.push('}');
        let expected = format!(r#"{{"x":{}}}"#, slow_canonical(&document));
        let entry = judge_entry(&raw, &[]).unwrap();
        prop_assert_eq!(&*entry.canonical, expected.as_str(), "{}", raw);
        prop_assert_eq!(entry.hidden, raw_hides(&document));
        // What was canonical stays so, and is served unchanged.
        let again = judge_entry(&format!(r#"{{"name":"f",{}"#, &expected[1..]), &[]).unwrap();
        prop_assert_eq!(again.hash, entry.hash);
        prop_assert_eq!(shown_form(&expected), expected);
    }

    #[test]
    fn any_text_is_judged_as_the_library_judges_it(text in r#"[\[\]{}:,"\\a0-2.eEntrue \-]{0,24}"#) {
        let ours = reader::read_document(&text);
        let theirs = serde_json::from_str::<Value>(&text);
        // Ours refuses members named twice and takes half surrogate pairs; no text here has any.
        let twice = ours.as_ref().err().is_some_and(|f| matches!(f.what(), UnreadableFault::Twice));
        prop_assert!(twice || ours.is_ok() == theirs.is_ok(), "{:?} {:?}", ours.is_ok(), theirs);
        let mut scan = scan::Scan::new(&text);
        let skipped = scan.skip().is_ok() && scan.end().is_ok();
        prop_assert!(twice || skipped == ours.is_ok());
    }
}

fn raw_hides(value: &Value) -> bool {
    match value {
        Value::String(text) => !crate::visible::is_visible(text),
        Value::Array(items) => items.iter().any(raw_hides),
        Value::Object(members) => members.iter().any(|(k, v)| !crate::visible::is_visible(k) || raw_hides(v)),
        _ => false,
    }
}
