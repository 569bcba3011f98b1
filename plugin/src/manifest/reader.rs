//! Steps that every reader of a manifest takes: members of a map, text, lists, words, flags.
//!
//! Each notes what is wrong and goes on, so that one reading names everything.

use super::fault::{Faults, did_you_mean, shown};
use super::yaml::{Member, Node, Value};

/// A member's value with the path that messages name it by.
#[derive(Clone)]
pub(super) struct At<'a> {
    pub(super) node: &'a Node,
    pub(super) path: String,
}

impl<'a> At<'a> {
    pub(super) const fn line(&self) -> usize {
        self.node.line
    }

    fn below(&self, member: &'a Member) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        At { node: &member.value, path: format!("{}{dot}{}", self.path, member.key) }
    }

    /// Notes that something else was expected here.
    pub(super) fn expected(&self, what: &str, faults: &mut Faults) {
        let got = format!("{} where {what} is expected", self.node.value.kind());
        faults.add(self.line(), &self.path, got, format!("write {what}"));
    }

    /// The members of a map whose keys are free, with the line of each key. Nothing is an empty map.
    pub(super) fn members(&self, faults: &mut Faults) -> Vec<(&'a str, usize, At<'a>)> {
        match &self.node.value {
            Value::Map(members) => members.iter().map(|m| (m.key.as_str(), m.line, self.below(m))).collect(),
            Value::Null => Vec::new(),
            _ => {
                self.expected("a map", faults);
                Vec::new()
            }
        }
    }

    /// The members of a map whose keys are `known`; others are noted.
    pub(super) fn fields(&self, known: &[&str], faults: &mut Faults) -> Fields<'a> {
        let mut found = Vec::new();
        for (key, line, at) in self.members(faults) {
            if known.contains(&key) {
                found.push((key, at));
            } else {
                let what = "this key is not known here";
                faults.add(line, &at.path, what, did_you_mean(key, known.iter().copied()));
            }
        }
        Fields { found }
    }

    /// All members of a map, whatever their keys, with nothing noted.
    pub(super) fn fields_quietly(&self) -> Fields<'a> {
        let members = self.members(&mut Faults::new(""));
        Fields { found: members.into_iter().map(|(key, _, at)| (key, at)).collect() }
    }

    /// Text. Numbers and booleans are taken as they are written.
    pub(super) fn text(&self, faults: &mut Faults) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) if text.contains('\0') => {
                faults.add(self.line(), &self.path, "a NUL character", "leave it away");
                None
            }
            Value::Text(text) => Some(text),
            _ => {
                self.expected("text", faults);
                None
            }
        }
    }

    /// A list of values.
    pub(super) fn list(&self, faults: &mut Faults) -> Vec<At<'a>> {
        let Value::List(items) = &self.node.value else {
            self.expected("a list", faults);
            return Vec::new();
        };
        let at = |(index, node)| At { node, path: format!("{}[{index}]", self.path) };
        items.iter().enumerate().map(at).collect()
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, faults: &mut Faults) -> bool {
        match self.node.value {
            Value::Text(ref text) if text == "true" => true,
            Value::Text(ref text) if text == "false" => false,
            _ => {
                self.expected("true or false", faults);
                false
            }
        }
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)], faults: &mut Faults) -> Option<T> {
        let text = self.text(faults)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let remedy = did_you_mean(text, words.iter().map(|(word, _)| *word));
            faults.add(self.line(), &self.path, format!("`{}` is no word for this", shown(text)), remedy);
        }
        found
    }
}

/// The known members that a map has.
pub(super) struct Fields<'a> {
    found: Vec<(&'a str, At<'a>)>,
}

impl<'a> Fields<'a> {
    /// The member `key`, unless it is absent or nothing.
    pub(super) fn get(&self, key: &str) -> Option<&At<'a>> {
        let (_, at) = self.found.iter().find(|(name, _)| *name == key)?;
        (!matches!(at.node.value, Value::Null)).then_some(at)
    }
}
