//! What of a new version, or of a listing that never holds still, people look at before it is called.
//!
//! Pure; the control plane asks in the transaction that takes a snapshot or assigns a version, and in the
//! one that records what a node listed. Rules: 20-listings, 4 and 5.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::digest::ListingHash;
use crate::time::Timestamp;

/// Distinct forms of one function within [`VOLATILE_WITHIN_MS`] that make it volatile.
pub const VOLATILE_FORMS: usize = 8;

/// An hour.
pub const VOLATILE_WITHIN_MS: i64 = 3_600_000;

/// What the whole fleet holds to when listings change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetPolicy {
    /// Which functions of a new version wait.
    pub review_new_versions: Review,
    /// Whether a change of notation, the same meaning written otherwise, is approved by this rule.
    pub approve_notation: bool,
    /// Whether nobody approves for a version that they pushed or assigned.
    pub four_eyes: bool,
}

/// Which functions of a new version wait for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Review {
    /// None: it has a snapshot of its own, in force at once.
    #[default]
    Off,
    /// Those that differ from the version that the edge had, or are not in it. On an edge that never had the
    /// plugin: none.
    Changed,
    /// All of them.
    All,
}

impl Review {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Off, Self::Changed, Self::All];

    /// Its word in the API and the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Changed => "changed",
            Self::All => "all",
        }
    }

    /// Reads the word back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|review| review.as_str() == text)
    }
}

/// What an edge goes by, in place of a new version's snapshot, for those functions that wait: what it had of
/// them, or nothing.
///
/// `before`: what the edge goes by for the version that it had; `None` if it had none.
pub fn to_review<K: Ord + Clone>(
    review: Review,
    before: Option<&BTreeMap<K, ListingHash>>,
    new: &BTreeMap<K, ListingHash>,
) -> BTreeMap<K, Option<ListingHash>> {
    let waits = |function: &K, hash: &ListingHash| match (review, before) {
        (Review::Off, _) | (Review::Changed, None) => None,
        (Review::Changed, Some(before)) => {
            let earlier = before.get(function).copied();
            (earlier != Some(*hash)).then_some(earlier)
        }
        // What is unchanged waits too, so the edge goes by nothing.
        (Review::All, before) => {
            Some(before.and_then(|before| before.get(function).copied()).filter(|earlier| earlier != hash))
        }
    };
    new.iter().filter_map(|(function, hash)| Some((function.clone(), waits(function, hash)?))).collect()
}

/// Whether a function is volatile: so many of its forms were first seen within the hour.
pub fn is_volatile(first_seen: impl IntoIterator<Item = Timestamp>, now: Timestamp) -> bool {
    first_seen.into_iter().filter(|at| is_recent(*at, now)).count() >= VOLATILE_FORMS
}

/// Whether it is less than an hour ago.
pub const fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.millis_since(at) < VOLATILE_WITHIN_MS
}
