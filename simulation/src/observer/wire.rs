//! Heads as they are on the wire, read without the product's own reading of them.

use std::fmt;

use prost::Message as _;
use proto::v1;

/// Epoch and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.generation)
    }
}

/// Which content of which part of whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) part: i32,
    pub(super) position: Position,
    pub(super) digest: Vec<u8>,
    scope: String,
}

impl Key {
    /// Of a signed head.
    pub(super) fn of(head: &v1::SignedHead) -> Option<Self> {
        let statement = v1::HeadStatement::decode(head.statement.as_slice()).ok()?;
        Some(Self {
            part: statement.part,
            position: Position { epoch: statement.epoch, generation: statement.generation },
            digest: statement.digest,
            scope: statement.scope,
        })
    }
}
