//! JSON as no serializer writes it: numbers, escapes, white space and member names that are valid and rare.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::random::Random;

/// How deep random values go; far below what results may (64).
const DEPTH: usize = 6;

/// Texts that a reader of lines, of events, of JSON or of markup could trip over.
const PIECES: [&str; 24] = [
    "a",
    "Z9",
    " ",
    r#"\""#,
    r"\\",
    r"\n",
    r"\r\n",
    r"\u0041",
    r"\/",
    r"\ud83d\ude00",
    "😀",
    "é",
    "\u{200b}",
    r"\u200b",
    "\u{2028}",
    "\u{feff}",
    "\u{7f}",
    r"\u0000",
    "data: ",
    "event:",
    r#"{\"id\":1}"#,
    "</script>",
    "日本",
    "__proto__",
];
const NUMBERS: [&str; 14] = [
    "0",
    "-0",
    "1",
    "1.0",
    "1e5",
    "1E+2",
    "0.1000",
    "-1.5e-7",
    "9007199254740993",
    "18446744073709551616",
    "123456789012345678901234567890",
    "1e400",
    "-2.5E-400",
    "3.141592653589793238462643383279",
];

/// Writes random JSON.
pub(super) struct Writer<'r> {
    pub(super) random: &'r mut Random,
    /// Whether a line feed may stand between two tokens; not where a message is a line.
    pub(super) lines: bool,
}

impl Writer<'_> {
    pub(super) fn chance(&mut self, one_in: usize) -> bool {
        self.random.below(one_in) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.random.below(of.len())).copied()
    }

    /// White space between two tokens; mostly none.
    pub(super) fn space(&mut self) -> &'static str {
        let breaks = if self.lines { "\n  " } else { "  " };
        if self.chance(4) { self.pick(&[" ", "\t", breaks]).unwrap_or_default() } else { "" }
    }

    /// The inside of a string, without quotes.
    fn text(&mut self) -> String {
        let pieces = match self.random.below(40) {
            0 => 2_000,
            1..5 => 40,
            _ => 5,
        };
        let count = self.random.below(pieces);
        (0..count).filter_map(|_| self.pick(&PIECES)).collect()
    }

    pub(super) fn string(&mut self) -> String {
        format!("\"{}\"", self.text())
    }

    pub(super) fn number(&mut self) -> String {
        self.pick(&NUMBERS).unwrap_or("0").to_owned()
    }

    pub(super) fn value(&mut self) -> String {
        self.value_at(DEPTH)
    }

    fn value_at(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 5 } else { 8 }) {
            0 => "null".to_owned(),
            1 => "true".to_owned(),
            2 => self.number(),
            3 | 4 => self.string(),
            5 | 6 => {
                let count = self.random.below(5);
                let items: Vec<String> = (0..count).map(|_| self.value_at(depth - 1)).collect();
                self.list(&items)
            }
            _ => {
                let members = self.members_at(depth - 1);
                self.object(&members)
            }
        }
    }

    pub(super) fn list(&mut self, items: &[String]) -> String {
        let items: Vec<String> =
            items.iter().map(|item| format!("{}{item}{}", self.space(), self.space())).collect();
        format!("[{}]", items.join(","))
    }

    /// Names with values; no name twice.
    pub(super) fn members(&mut self) -> Vec<(String, String)> {
        self.members_at(DEPTH - 1)
    }

    fn members_at(&mut self, depth: usize) -> Vec<(String, String)> {
        let count = self.random.below(5);
        (0..count)
            .map(|number| {
                let name = if number == 0 && self.chance(8) {
                    String::new()
                } else {
                    format!("{}{number}", self.text())
                };
                (format!("\"{name}\""), self.value_at(depth))
            })
            .collect()
    }

    /// An object of members whose names are JSON strings already.
    pub(super) fn object(&mut self, members: &[(String, String)]) -> String {
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| {
                let spaces = [self.space(), self.space(), self.space(), self.space()];
                let [before, behind, within, end] = spaces;
                format!("{before}{name}{behind}:{within}{value}{end}")
            })
            .collect();
        format!("{{{}}}", members.join(","))
    }

    /// An object of these members and random ones, in any order.
    pub(super) fn object_with(&mut self, known: &[(&str, String)]) -> String {
        let mut members = if self.chance(2) { self.members() } else { Vec::new() };
        members.extend(known.iter().map(|(name, value)| (format!("\"{name}\""), value.clone())));
        self.random.shuffle(&mut members);
        self.object(&members)
    }
}

/// The members of an object's text in their order: the name as it reads, the value as it is spelled.
pub(super) fn members(text: &str) -> Option<Vec<(String, String)>> {
    struct Members(Vec<(String, String)>);
    struct Visit;
    impl<'de> Visitor<'de> for Visit {
        type Value = Members;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
            let mut members = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                members.push((name, value.get().to_owned()));
            }
            Ok(Members(members))
        }
    }
    impl<'de> Deserialize<'de> for Members {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(Visit)
        }
    }
    serde_json::from_str::<Members>(text).ok().map(|members| members.0)
}

/// One member's value as it is spelled.
pub(super) fn member(text: &str, name: &str) -> Option<String> {
    members(text)?.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// A string's value.
pub(super) fn string(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_json_and_a_seed_repeats_it() {
        for seed in 0..500 {
            let write = |lines| {
                let mut random = Random::new(seed);
                Writer { random: &mut random, lines }.value()
            };
            let text = write(seed % 2 == 0);
            assert!(serde_json::from_str::<&RawValue>(&text).is_ok(), "{text}");
            assert_eq!(write(seed % 2 == 0), text);
            assert!(seed % 2 == 0 || !text.contains('\n'), "{text}");
        }
    }
}
