//! Bugs that can be planted, to see that they are found. They are in the simulation's hands, not in the
//! agent or the server: no shipped program has them.

use std::fmt;
use std::str::FromStr;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plant {
    /// The node acknowledges a part before its ledger has it.
    EarlyAck,
    /// The node takes a generation that is older than the one it holds.
    OlderGeneration,
    /// After a restart the node goes on with the version that it had, while the assigned one is not
    /// installed.
    OldAfterRestart,
    /// The fan-out remembers how far it has read, by the time of changes, and skips one that committed
    /// late.
    SkippedHead,
    /// After a crash the node goes by what the tool listed before.
    NoRelist,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::EarlyAck, Self::OlderGeneration, Self::OldAfterRestart, Self::SkippedHead, Self::NoRelist];

    /// Its word on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EarlyAck => "early-ack",
            Self::OlderGeneration => "older-generation",
            Self::OldAfterRestart => "old-after-restart",
            Self::SkippedHead => "skipped-head",
            Self::NoRelist => "no-relist",
        }
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|plant| plant.as_str() == word).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|plant| plant.as_str()).collect();
            format!("there is no bug `{word}` to plant; there are {}", known.join(", "))
        })
    }
}
