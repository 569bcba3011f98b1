//! Why an entry is unreadable, as a value and as a sentence.

use std::fmt;

use crate::visible::cut_visible;

use super::{DEPTH, ENTRY_BYTES, STRING_BYTES};

/// An entry that is left out with the code `unreadable`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its name, if one can be read: it counts when the server's names are judged.
    pub name: Option<String>,
    /// The rule that it breaks.
    pub fault: UnreadableFault,
    /// Where, as a JSON pointer into the entry (visible, at most 200 characters, cut in the middle).
    pub pointer: String,
}

/// The rules of a readable entry (20-listings, 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnreadableFault {
    /// The text is no JSON.
    NotJson {
        /// The byte of the entry's text.
        at: usize,
        /// What would have been right there.
        expected: &'static str,
        /// Up to 40 bytes around it, made visible.
        around: String,
    },
    /// The entry is no object but `got`.
    NotAnObject {
        /// The kind of value.
        got: &'static str,
    },
    /// The entry has no member `name`.
    NoName,
    /// Its `name` is not a string but `got`.
    NameNotText {
        /// The kind of value.
        got: &'static str,
    },
    /// An object has this member twice.
    Twice,
    /// Two of an object's member names are equal once visible.
    TwiceOnceVisible,
    /// Two values of an `enum` become equal once visible.
    EnumOnceVisible,
    /// A number that no double can hold, cut to 40 characters.
    Number(String),
    /// Nested more deeply than [`DEPTH`].
    TooDeep,
    /// The canonical form is over [`ENTRY_BYTES`].
    EntryTooLarge,
    /// One string is over [`STRING_BYTES`].
    StringTooLong,
}

impl fmt::Display for UnreadableFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { at, expected, around } => {
                write!(f, "it is no JSON at byte {at}, where {expected} was expected: `{around}`")
            }
            Self::NotAnObject { got } => write!(f, "it is {got}, not an object"),
            Self::NoName => f.write_str("it has no name"),
            Self::NameNotText { got } => write!(f, "its name is {got}, not a string"),
            Self::Twice => f.write_str("an object has this member twice"),
            Self::TwiceOnceVisible => f.write_str("two members' names are equal once visible"),
            Self::EnumOnceVisible => f.write_str("two values of an enum become equal once visible"),
            Self::Number(got) => write!(f, "no double can hold the number {got}"),
            Self::TooDeep => write!(f, "it is nested more than {DEPTH} levels deep"),
            Self::EntryTooLarge => write!(f, "its canonical form is over {ENTRY_BYTES} bytes"),
            Self::StringTooLong => write!(f, "one of its strings is over {STRING_BYTES} bytes"),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        if self.pointer.is_empty() { Ok(()) } else { write!(f, " (at {})", self.pointer) }
    }
}

impl std::error::Error for Unreadable {}

/// A fault on its way out of the reader, which gathers where it is. Boxed, since every step of the
/// reader returns it or a value.
#[derive(Debug)]
pub(super) struct Fault(Box<Inner>);

#[derive(Debug)]
struct Inner {
    fault: UnreadableFault,
    /// Innermost first.
    steps: Vec<String>,
}

impl Fault {
    #[cold]
    pub(super) fn new(fault: UnreadableFault) -> Self {
        Self(Box::new(Inner { fault, steps: Vec::new() }))
    }

    pub(super) const fn what(&self) -> &UnreadableFault {
        &self.0.fault
    }

    /// Adds the step that led to it, as a token of a JSON pointer, cut to 200 characters.
    #[cold]
    pub(super) fn below(mut self, step: &str) -> Self {
        let escaped = cut_visible(step, 200).replace('~', "~0").replace('/', "~1");
        self.0.steps.push(escaped);
        self
    }

    /// The JSON pointer, of at most 200 characters.
    pub(super) fn pointer(&self) -> String {
        let whole: String = self.0.steps.iter().rev().flat_map(|step| ["/", step.as_str()]).collect();
        let length = whole.chars().count();
        if length <= 200 {
            return whole;
        }
        let start = cut_visible(&whole, 99);
        let end: String = whole.chars().skip(length - 98).collect();
        format!("{start}...{end}")
    }
}
