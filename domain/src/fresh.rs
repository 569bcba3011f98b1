//! How long a node may rely on its plugin set without hearing from the control plane (30-nodes, 2, "Out
//! of reach"): the clock it tells that by, and what follows from it.
//!
//! Called by the node's link; the policy that decides is the edge's.

#[cfg(test)]
mod tests;

use crate::plugin_set::Policy;
use crate::time::Timestamp;

/// The control plane's time, as a node knows it: the last that it was told, and the node's monotonic
/// clock from there on. It never goes back, whatever a server or the wall says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    base: Timestamp,
    at_ms: u64,
}

impl Clock {
    /// The clock of a node that starts. `mark` is what an earlier run stored: the time is never behind
    /// it. What passed since then is told by the wall's clock; one that was turned back tells less, and
    /// one that runs ahead ends leases early.
    pub fn start(mark: Option<&Mark>, wall: Timestamp, now_ms: u64) -> Self {
        let base = mark.map_or(wall, |mark| wall.plus_millis(mark.ahead_of_wall_ms).max(mark.high_water));
        Self { base, at_ms: now_ms }
    }

    /// The time at `now_ms` of the node's monotonic clock.
    pub fn now(&self, now_ms: u64) -> Timestamp {
        self.base.plus_millis(i64::try_from(now_ms.saturating_sub(self.at_ms)).unwrap_or(i64::MAX))
    }

    /// The control plane said its time. An earlier one than is known changes nothing.
    pub fn hear(&mut self, server: Timestamp, now_ms: u64) {
        *self = Self { base: self.now(now_ms).max(server), at_ms: now_ms };
    }
}

/// The last word of the control plane that reached the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// When, by [`Clock`].
    pub at: Timestamp,
    /// How long the control plane lets it count as fresh.
    pub fresh_ms: u64,
}

impl Contact {
    fn fresh_until(&self, policy: &Policy) -> Timestamp {
        after(self.at, self.fresh_ms.min(policy.fresh_for_ms))
    }
}

/// What a node stores of the time, for its next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The largest time that [`Clock`] told.
    pub high_water: Timestamp,
    /// How far that was ahead of the wall's clock, milliseconds.
    pub ahead_of_wall_ms: i64,
    /// The last contact.
    pub contact: Contact,
}

/// What a node has of its plugin set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// Not every part.
    Nothing,
    /// Every part, as an earlier boot stored it.
    Stored,
    /// Every part was confirmed, or received and made durable, in this boot.
    Confirmed,
}

/// What a node goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliance {
    /// Nothing: it calls nothing until it holds the set of this boot.
    Waits,
    /// The set that it stored, under the edge's offline lease.
    Leases {
        /// The end of the lease.
        until: Timestamp,
    },
    /// The set of this boot.
    Holds,
    /// The same, but nothing was heard for too long.
    Stale {
        /// Since when.
        since: Timestamp,
        /// Whether calls are refused for that.
        refuses: bool,
    },
}

impl Reliance {
    /// Whether the reconciler goes by the set: a stale one runs on, so that its calls need nothing but
    /// contact.
    pub const fn has_set(self) -> bool {
        !matches!(self, Self::Waits)
    }
}

/// Decides what a node goes by at `now` of its [`Clock`], and when that may change by time alone.
///
/// A strict edge's stored set is never gone by past its freshness, so that a restart gains nothing.
pub fn rely(
    has: Has,
    contact: Option<&Contact>,
    policy: &Policy,
    now: Timestamp,
) -> (Reliance, Option<Timestamp>) {
    match (has, contact) {
        (Has::Nothing, _) | (Has::Stored, None) => (Reliance::Waits, None),
        // Confirmed by a control plane that says no times.
        (Has::Confirmed, None) => (Reliance::Holds, None),
        (Has::Confirmed, Some(contact)) => {
            let since = contact.fresh_until(policy);
            if now < since {
                return (Reliance::Holds, Some(since));
            }
            (Reliance::Stale { since, refuses: policy.strict }, None)
        }
        (Has::Stored, Some(contact)) => {
            let Some(lease) = policy.offline_lease_ms else { return (Reliance::Waits, None) };
            let end = after(contact.at, lease);
            let until = if policy.strict { end.min(contact.fresh_until(policy)) } else { end };
            if now < until { (Reliance::Leases { until }, Some(until)) } else { (Reliance::Waits, None) }
        }
    }
}

fn after(at: Timestamp, span_ms: u64) -> Timestamp {
    at.plus_millis(i64::try_from(span_ms).unwrap_or(i64::MAX))
}
