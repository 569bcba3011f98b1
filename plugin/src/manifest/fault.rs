//! What is wrong with a manifest: one fault per place, all of them collected.
//!
//! Every reader in this folder writes its faults through [`Faults`]; what is done about them is the
//! caller's business.

use std::fmt;

/// Faults kept of one manifest: more would scroll the first ones, which are the cause, off a screen.
const MOST_FAULTS: usize = 50;

/// Names further away than this many edits are no likely misspelling.
const NEAR: usize = 3;

/// One thing that is wrong in a manifest, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFault {
    /// The manifest's file name in the bundle, such as `pintle.yaml`.
    pub file: &'static str,
    /// The line in that file, counted from 1, where the reader knows it.
    pub line: Option<usize>,
    /// The member, such as `tools.team.command[0]`; empty for the whole file.
    pub path: String,
    /// What is wrong, as a fragment.
    pub what: String,
    /// What to do about it, as a fragment.
    pub remedy: String,
}

/// `read pintle.yaml:4: tools.team: WHAT; REMEDY`.
impl fmt::Display for ManifestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read {}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for ManifestFault {}

/// Collects the faults of one file, the first [`MOST_FAULTS`] of them.
pub(super) struct Faults {
    file: &'static str,
    list: Vec<ManifestFault>,
}

impl Faults {
    pub(super) const fn new(file: &'static str) -> Self {
        Self { file, list: Vec::new() }
    }

    /// Notes one fault; `at` is the member's path.
    pub(super) fn add(&mut self, line: usize, at: &str, what: impl Into<String>, remedy: impl Into<String>) {
        if self.list.len() < MOST_FAULTS {
            let line = (line > 0).then_some(line);
            let path = shown(at);
            self.list.push(ManifestFault {
                file: self.file,
                line,
                path,
                what: what.into(),
                remedy: remedy.into(),
            });
        }
    }

    /// Everything that was noted, in the order of the lines.
    pub(super) fn into_list(mut self) -> Vec<ManifestFault> {
        self.list.sort_by_key(|fault| fault.line);
        self.list
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Text from a manifest as it may stand in a message: escaped and cut to 100 characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(100).flat_map(char::escape_debug).collect()
}

/// The sentence that names the likeliest of `known`, or all of them.
pub(crate) fn did_you_mean<'a>(got: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&got.to_lowercase(), &name.to_lowercase()), *name))
        .filter(|(distance, name)| *distance <= NEAR && *distance < name.chars().count())
        .min();
    match nearest {
        Some((_, name)) => format!("did you mean `{}`?", shown(name)),
        None if known.is_empty() => "there is none to choose from".to_owned(),
        None => {
            let names: Vec<String> = known.iter().take(20).map(|name| format!("`{}`", shown(name))).collect();
            format!("known are {}", names.join(", "))
        }
    }
}
