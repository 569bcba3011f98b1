//! Labels of nodes: short texts by which people group and find them. A join token carries those of the nodes
//! that join with it.

use std::collections::BTreeMap;

/// Most labels of one node.
pub const LABELS_MAX: usize = 16;

/// Most bytes of a key or a value.
const LENGTH_MAX: usize = 63;

/// A text that is no label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Key or value breaks its rule.
    #[error("take `{got}` as a label: KEY=VALUE, each of 1 to 63 of A-Z, a-z, 0-9, -, _, . and /")]
    Form {
        /// What was given, made visible and cut to 100 characters.
        got: String,
    },
    /// Too many.
    #[error("take {got} labels: a node has at most {LABELS_MAX}")]
    Many {
        /// How many there are.
        got: usize,
    },
}

/// A node's labels, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Checks each key and value. Of two with one key the later counts.
    ///
    /// # Errors
    /// The first that breaks its rule, or that there are too many.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, Fault> {
        let mut map = BTreeMap::new();
        for (key, value) in labels {
            let (key, value) = (key.as_ref(), value.as_ref());
            if !is_part(key) || !is_part(value) {
                let got = format!("{key}={value}").chars().take(100).flat_map(char::escape_debug).collect();
                return Err(Fault::Form { got });
            }
            map.insert(key.to_owned(), value.to_owned());
        }
        if map.len() > LABELS_MAX { Err(Fault::Many { got: map.len() }) } else { Ok(Self(map)) }
    }

    /// Key and value of each, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Each as `KEY=VALUE`.
    pub fn to_texts(&self) -> Vec<String> {
        self.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }
}

fn is_part(text: &str) -> bool {
    (1..=LENGTH_MAX).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_outside_its_rule_is_refused_and_shown_visibly() {
        for (key, value) in
            [("", "x"), ("x", ""), ("a b", "x"), ("x", "a=b"), ("x\u{200b}", "y"), ("x", &"y".repeat(64))]
        {
            let error = Labels::new([(key, value)]).unwrap_err().to_string();
            assert!(error.contains("KEY=VALUE") && !error.contains('\u{200b}'), "{error}");
        }
        let many = (0..=LABELS_MAX).map(|number| (format!("k{number}"), "v"));
        assert_eq!(Labels::new(many), Err(Fault::Many { got: 17 }));
    }

    #[test]
    fn labels_are_kept_by_key() {
        let labels = Labels::new([("role", "test"), ("zone", "a/1"), ("role", "prod")]).unwrap();
        assert_eq!(labels.to_texts(), ["role=prod", "zone=a/1"]);
    }
}
