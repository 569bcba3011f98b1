//! Members of `_meta` that do not count: our own, and those that a manifest or an admin ignores.

use crate::visible::{make_visible, make_visible_up_to};

/// The prefix of members of `_meta` that are ours; a server's are removed before hashing.
const OURS: &str = "dev.pintle/";

/// The longest pointer that is taken, in bytes: far more than the names of real members need.
const MAX_BYTES: usize = 1024;

/// A JSON pointer below `/_meta` to a member that is volatile by design (`listing.ignore`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetaPointer(Vec<Box<str>>);

/// A pointer that may not be ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("take `{got}` as a JSON pointer to ignore: {rule}")]
pub struct MetaPointerFault {
    /// What was given, made visible and cut to 100 characters.
    pub got: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

impl MetaPointer {
    /// Reads an RFC 6901 pointer, which must lead to something below `/_meta`.
    ///
    /// # Errors
    /// Names the rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, MetaPointerFault> {
        let fault = |rule| {
            let got = make_visible_up_to(text, 100);
            Err(MetaPointerFault { got, rule })
        };
        if text.len() > MAX_BYTES {
            return fault("at most 1024 bytes");
        }
        let Some(below) = text.strip_prefix("/_meta/") else {
            return fault("it must begin with /_meta/, since only members below _meta may be ignored");
        };
        let escapes_are_whole = below.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if !escapes_are_whole {
            return fault("a ~ must be written ~0, and a / inside a name ~1");
        }
        let step = |step: &str| make_visible(&step.replace("~1", "/").replace("~0", "~")).into();
        Ok(Self(below.split('/').map(step).collect()))
    }
}

impl std::fmt::Display for MetaPointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("/_meta")?;
        self.0.iter().try_for_each(|step| write!(f, "/{}", step.replace('~', "~0").replace('/', "~1")))
    }
}

/// What is removed of the value that the reader has come to.
#[derive(Debug, Clone, Default)]
pub(super) struct Removed<'p> {
    /// The rest of each pointer that leads further down from here.
    tails: Vec<&'p [Box<str>]>,
    /// Whether this is `_meta` itself.
    is_meta: bool,
}

impl<'p> Removed<'p> {
    /// What is removed of `_meta`.
    pub(super) fn of_meta(ignore: &'p [MetaPointer]) -> Self {
        Self { tails: ignore.iter().map(|pointer| pointer.0.as_slice()).collect(), is_meta: true }
    }

    /// Whether nothing below is removed.
    pub(super) fn is_nothing(&self) -> bool {
        self.tails.is_empty() && !self.is_meta
    }

    /// Whether the member (or item, by its index) of this visible name is removed whole.
    pub(super) fn takes(&self, step: &str) -> bool {
        (self.is_meta && step.starts_with(OURS))
            || self.tails.iter().any(|tail| matches!(tail, [only] if **only == *step))
    }

    /// What is removed of the member (or item) of this visible name.
    pub(super) fn below(&self, step: &str) -> Self {
        let tail = |tail: &&'p [Box<str>]| match tail {
            [first, rest @ ..] if **first == *step && !rest.is_empty() => Some(rest),
            _ => None,
        };
        Self { tails: self.tails.iter().filter_map(tail).collect(), is_meta: false }
    }
}
