//! When calls of a tool are held back because it fails, and when the next one is let through.
//!
//! A tool that fails a number of calls in a row is left alone for a while, so that agents hear why at once instead
//! of waiting for a deadline each. Then one call goes to it; its answer lets all through again, its failure
//! doubles the wait. Called by a node's gateway, which says what counts as a failure.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::time::Timestamp;

/// The wait does not grow past this, unless it was set longer: a tool that is back is noticed within a minute.
pub const WAIT_MOST_MS: u64 = 60_000;

/// What is set of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Calls in a row that fail before the next is held back; 0 holds none back.
    pub failures: u32,
    /// The first wait, milliseconds; doubled by each call that is let through and fails.
    pub wait_ms: u64,
}

/// A call that was let through, as the breaker knows it again when it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// What had been counted when it began.
    seen: u64,
    /// Which of the calls that are let through one at a time it is; 0 for none of them.
    probe: u64,
}

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, to fit behind "failed to".
    pub reason: Arc<str>,
    /// Whether one cause may fail many calls at once, such as a process that ends: of those that were under way
    /// together one counts.
    pub is_shared: bool,
}

/// Why a call is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Since when calls are held back.
    pub since: Timestamp,
    /// The last failure, to fit behind "failed to".
    pub reason: Arc<str>,
    /// Until the next call is let through, milliseconds, at the longest.
    pub next_ms: u64,
    /// Whether one is under way to see whether the tool answers.
    pub is_probed: bool,
}

/// The failures of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// Failures counted since it was made, and times that calls were let through again: tells calls that failed
    /// together, and those that began before.
    counted: u64,
    /// What was counted when calls were let through again last.
    let_through_at: u64,
    /// Counted since the last answer.
    in_a_row: u32,
    probes: u64,
    held: Option<Held>,
}

/// Calls are held back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    since: Timestamp,
    reason: Arc<str>,
    wait_ms: u64,
    /// When the next call is let through.
    next_at_ms: u64,
    /// The one that is under way.
    probe: Option<u64>,
}

impl Breaker {
    /// Whether neither a failure was counted since the last answer nor calls are held back: who sees this need not
    /// ask for more than [`Breaker::pass`], nor tell of an answer.
    pub const fn is_calm(&self) -> bool {
        self.in_a_row == 0 && self.held.is_none()
    }

    /// What was counted so far; never less than before.
    pub const fn counted(&self) -> u64 {
        self.counted
    }

    /// The pass of a call that begins while [`Breaker::is_calm`], when so much was [counted](Breaker::counted).
    pub const fn pass(counted: u64) -> Pass {
        Pass { seen: counted, probe: 0 }
    }

    /// Lets a call through, or says why not. `now_ms` is a monotonic clock's, here and below.
    ///
    /// # Errors
    /// Calls are held back. Once the wait is over one call is let through, and another only when that one has
    /// ended, or when a wait has passed again.
    pub fn admit(&mut self, now_ms: u64) -> Result<Pass, Open> {
        let Some(held) = &mut self.held else { return Ok(Self::pass(self.counted)) };
        if now_ms < held.next_at_ms {
            return Err(held.open(now_ms));
        }
        self.probes += 1;
        held.probe = Some(self.probes);
        held.next_at_ms = now_ms.saturating_add(held.wait_ms);
        Ok(Pass { seen: self.counted, probe: self.probes })
    }

    /// Whether a call that was let through before and has not gone to its tool yet may still go.
    ///
    /// # Errors
    /// Calls are held back since, and it is not the one that is let through.
    pub fn still(&self, pass: Pass, now_ms: u64) -> Result<(), Open> {
        match &self.held {
            Some(held) if held.probe.is_none_or(|probe| probe != pass.probe) => Err(held.open(now_ms)),
            _ => Ok(()),
        }
    }

    /// The tool answered a call, whatever it answered: all are let through.
    pub fn answered(&mut self) {
        self.in_a_row = 0;
        if self.held.take().is_some() {
            self.counted += 1;
            self.let_through_at = self.counted;
        }
    }

    /// The tool was listed completely: calls that are held back are let through. Of calls that fail it says
    /// nothing otherwise, since a server may list itself and do nothing else.
    pub fn listed(&mut self) {
        if self.held.is_some() {
            self.answered();
        }
    }

    /// A call failed. `wall` is when, for people.
    pub fn failed(&mut self, rules: Rules, pass: Pass, failure: &Failure, now_ms: u64, wall: Timestamp) {
        if let Some(held) = &mut self.held {
            // What began before says nothing new, and only the newest doubles the wait.
            if held.probe == Some(pass.probe) {
                held.wait_ms = held.wait_ms.saturating_mul(2).min(rules.wait_ms.max(WAIT_MOST_MS));
                held.next_at_ms = now_ms.saturating_add(held.wait_ms);
                held.reason = Arc::clone(&failure.reason);
                held.probe = None;
            }
            return;
        }
        let began_before = pass.seen < self.let_through_at;
        if began_before || (failure.is_shared && pass.seen != self.counted) {
            return;
        }
        self.counted += 1;
        self.in_a_row = self.in_a_row.saturating_add(1);
        if rules.failures > 0 && self.in_a_row >= rules.failures {
            self.held = Some(Held {
                since: wall,
                reason: Arc::clone(&failure.reason),
                wait_ms: rules.wait_ms,
                next_at_ms: now_ms.saturating_add(rules.wait_ms),
                probe: None,
            });
        }
    }

    /// A call ended without a word about its tool: it was cancelled, or refused on our side. If it was the one
    /// that was let through, the next is.
    pub fn given_up(&mut self, pass: Pass, now_ms: u64) {
        if let Some(held) = &mut self.held
            && held.probe == Some(pass.probe)
        {
            held.probe = None;
            held.next_at_ms = now_ms;
        }
    }
}

impl Held {
    fn open(&self, now_ms: u64) -> Open {
        Open {
            since: self.since,
            reason: Arc::clone(&self.reason),
            next_ms: self.next_at_ms.saturating_sub(now_ms),
            is_probed: self.probe.is_some(),
        }
    }
}
