//! What a listing that a node reported means to the fleet: the first complete one of a tool becomes
//! its snapshot, every other is compared with it.
//!
//! The control plane calls [`judge`] in the transaction that records a report (20-listings, 4 and 5).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::digest::ListingHash;

/// What one listing of one tool showed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Whether the list was read to its end.
    pub complete: bool,
    /// Functions that can be called, by name.
    pub functions: BTreeMap<Arc<str>, ListingHash>,
    /// Names that the server listed but that are left out.
    pub left_out: BTreeSet<Arc<str>>,
}

/// What the fleet goes by for the tool, before the report.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Whether a snapshot was taken; an empty one counts.
    pub taken: bool,
    /// Approved hash by function.
    pub functions: BTreeMap<Arc<str>, ListingHash>,
}

/// What a report means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is the tool's snapshot from now on.
    Take(BTreeMap<Arc<str>, ListingHash>),
    /// No snapshot was taken yet, and an incomplete list makes none.
    Wait,
    /// How each function compares with the snapshot.
    Compare(BTreeMap<Arc<str>, Seen>),
}

/// How one function compares with its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// As approved.
    Same,
    /// It says something else than was approved.
    Changed {
        /// The approved hash.
        approved: ListingHash,
        /// The hash seen.
        seen: ListingHash,
    },
    /// It is not in the snapshot.
    New {
        /// The hash seen.
        seen: ListingHash,
    },
    /// A complete list did not have it.
    Gone {
        /// The approved hash.
        approved: ListingHash,
    },
}

impl Seen {
    /// The approved hash that was compared with, if there was one.
    pub const fn approved(self) -> Option<ListingHash> {
        match self {
            Self::Changed { approved, .. } | Self::Gone { approved } => Some(approved),
            Self::Same | Self::New { .. } => None,
        }
    }

    /// The hash seen, if it differs.
    pub const fn seen(self) -> Option<ListingHash> {
        match self {
            Self::Changed { seen, .. } | Self::New { seen } => Some(seen),
            Self::Same | Self::Gone { .. } => None,
        }
    }
}

/// Judges a report.
///
/// A name that is left out is neither changed nor gone: it is listed, and why it is not called is
/// said elsewhere.
pub fn judge(recorded: &Recorded, report: &Report) -> Judgement {
    if !recorded.taken {
        return if report.complete { Judgement::Take(report.functions.clone()) } else { Judgement::Wait };
    }
    let mut seen = BTreeMap::new();
    for (name, hash) in &report.functions {
        let verdict = match recorded.functions.get(name) {
            Some(approved) if approved == hash => Seen::Same,
            Some(approved) => Seen::Changed { approved: *approved, seen: *hash },
            None => Seen::New { seen: *hash },
        };
        seen.insert(Arc::clone(name), verdict);
    }
    if report.complete {
        for (name, approved) in &recorded.functions {
            if !report.functions.contains_key(name) && !report.left_out.contains(name) {
                seen.insert(Arc::clone(name), Seen::Gone { approved: *approved });
            }
        }
    }
    Judgement::Compare(seen)
}
