//! Whether the node at the other end still lives.

use super::HEARTBEAT_MS;

/// How long the first message may take.
const HELLO_WITHIN_MS: u64 = 10_000;

/// How long a push may be unacknowledged before the node is asked whether it lives (30-nodes, 2).
const UNACKNOWLEDGED_MS: u64 = 3_000;

/// How long it may take to answer: with the above, a half-open link costs at most 8 s.
const ANSWER_WITHIN_MS: u64 = 5_000;

/// How long a push may be unacknowledged by a node that answers but asks for nothing: what it lacks for so long it
/// will not have on this stream, and on another it is told everything anew. One message of bodies is through in
/// that time at half a megabit per second.
const STUCK_MS: u64 = 120_000;

/// Without any push, how long nothing may be heard before it is asked: three heartbeats.
const SILENT_MS: u64 = 3 * HEARTBEAT_MS as u64;

/// What the time says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing to do.
    Fine,
    /// Ask whether it lives.
    Ping,
    /// It does not.
    Gone,
}

#[derive(Debug)]
pub(super) struct Watch {
    opened: u64,
    heard: u64,
    pinged: Option<u64>,
}

impl Watch {
    pub(super) const fn new(now: u64) -> Self {
        Self { opened: now, heard: now, pinged: None }
    }

    pub(super) const fn heard(&mut self, now: u64) {
        self.heard = now;
        self.pinged = None;
    }

    /// `waiting` is since when the oldest push is unacknowledged, or something that belongs to it was asked for.
    pub(super) fn deadline(&self, waiting: Option<u64>, is_new: bool) -> u64 {
        if is_new {
            return self.opened + HELLO_WITHIN_MS;
        }
        let stuck = waiting.map_or(u64::MAX, |since| since + STUCK_MS);
        if let Some(pinged) = self.pinged {
            return stuck.min(pinged + ANSWER_WITHIN_MS);
        }
        let silent = stuck.min(self.heard + SILENT_MS);
        waiting.map_or(silent, |since| silent.min(since.max(self.heard) + UNACKNOWLEDGED_MS))
    }

    pub(super) fn look(&mut self, now: u64, waiting: Option<u64>, is_new: bool) -> Verdict {
        if now < self.deadline(waiting, is_new) {
            return Verdict::Fine;
        }
        if is_new || self.pinged.is_some() || waiting.is_some_and(|since| now >= since + STUCK_MS) {
            return Verdict::Gone;
        }
        self.pinged = Some(now);
        Verdict::Ping
    }
}
