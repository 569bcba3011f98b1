//! Whether a node may work: its standing with the fleet, and which verb leads from which to which.
//!
//! Called by the operations that people ask for, and by whatever answers a node. That a node has copies is
//! found in [`clone`](crate::clone).

use std::fmt;

/// How a node stands with its fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It works.
    Active,
    /// Copies of it were seen, and a person has to pick one; until then none works.
    Quarantined,
    /// It must join again.
    Evicted,
    /// It never comes back.
    Banned,
}

/// What a person does to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// It must join again.
    Evict,
    /// It never comes back.
    Ban,
    /// Of its copies one is picked.
    Keep,
    /// It is taken off the record.
    Remove,
}

/// Why a verb does not apply to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A ban ends never.
    #[error("it is banned, and a ban has no end")]
    Banned,
    /// Nothing has to be picked.
    #[error("it is {0}, and only of a quarantined node one session is picked")]
    NotQuarantined(Standing),
    /// It would come back by itself.
    #[error("it is {0}, and only an evicted node is removed")]
    NotEvicted(Standing),
    /// Its key could join again.
    #[error("it is banned, and stays on record so that its key never joins again")]
    Kept,
}

/// Where a verb leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It stands so already.
    Same,
    /// It stands so from now on.
    To(Standing),
    /// It is on record no longer.
    Gone,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Active, Self::Quarantined, Self::Evicted, Self::Banned];

    /// Its word in the API, the store and a Goodbye.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Quarantined => "quarantined",
            Self::Evicted => "evicted",
            Self::Banned => "banned",
        }
    }

    /// Reads the word back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|standing| standing.as_str() == text)
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a verb makes of a node.
///
/// # Errors
/// [`Fault`] says why it does not apply.
pub const fn change(from: Standing, verb: Verb) -> Result<Change, Fault> {
    match (verb, from) {
        (Verb::Evict, Standing::Active | Standing::Quarantined) => Ok(Change::To(Standing::Evicted)),
        (Verb::Evict, Standing::Evicted) | (Verb::Ban, Standing::Banned) => Ok(Change::Same),
        (Verb::Evict, Standing::Banned) => Err(Fault::Banned),
        (Verb::Ban, _) => Ok(Change::To(Standing::Banned)),
        (Verb::Keep, Standing::Quarantined) => Ok(Change::To(Standing::Active)),
        (Verb::Keep, other) => Err(Fault::NotQuarantined(other)),
        (Verb::Remove, Standing::Evicted) => Ok(Change::Gone),
        (Verb::Remove, Standing::Banned) => Err(Fault::Kept),
        (Verb::Remove, other) => Err(Fault::NotEvicted(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_leads_where_its_row_says() {
        use Standing::{Active, Banned, Evicted, Quarantined};
        let rows = [
            (
                Verb::Evict,
                [Ok(Change::To(Evicted)), Ok(Change::To(Evicted)), Ok(Change::Same), Err(Fault::Banned)],
            ),
            (
                Verb::Ban,
                [Ok(Change::To(Banned)), Ok(Change::To(Banned)), Ok(Change::To(Banned)), Ok(Change::Same)],
            ),
            (
                Verb::Keep,
                [
                    Err(Fault::NotQuarantined(Active)),
                    Ok(Change::To(Active)),
                    Err(Fault::NotQuarantined(Evicted)),
                    Err(Fault::NotQuarantined(Banned)),
                ],
            ),
            (
                Verb::Remove,
                [
                    Err(Fault::NotEvicted(Active)),
                    Err(Fault::NotEvicted(Quarantined)),
                    Ok(Change::Gone),
                    Err(Fault::Kept),
                ],
            ),
        ];
        for (verb, expected) in rows {
            for (from, expected) in Standing::ALL.into_iter().zip(expected) {
                assert_eq!(change(from, verb), expected, "{verb:?} {from}");
            }
        }
    }

    #[test]
    fn a_ban_has_no_way_out() {
        for verb in [Verb::Evict, Verb::Ban, Verb::Keep, Verb::Remove] {
            assert!(!matches!(change(Standing::Banned, verb), Ok(Change::To(_) | Change::Gone)), "{verb:?}");
        }
    }

    #[test]
    fn a_standing_is_read_back_as_it_was_written() {
        assert!(Standing::ALL.into_iter().all(|one| Standing::parse(one.as_str()) == Some(one)));
        assert_eq!(Standing::parse("Active"), None);
    }
}
