//! How many connections a second are let in: decided before the handshake, which is most of what a
//! connection costs. Pure; time is an argument.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Handshakes a second and core: about half of what a core does, so that the streams there are go on.
const PER_CORE: u32 = 1_000;

/// Those that come at once without waiting, in seconds of the rate.
const BURST: Duration = Duration::from_secs(1);

/// The longest wait: with the handshake it stays far below what a node waits for an answer, so that no
/// work is done for one that has given up. Who would wait longer is turned away at once and comes back
/// with a delay of its own.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A bucket of tokens, kept as the time at which the next one is due (GCRA).
#[derive(Debug)]
pub(super) struct Admission {
    interval: Duration,
    /// As time since the server started.
    due: Mutex<Duration>,
}

impl Admission {
    /// For a machine of so many cores.
    pub(super) const fn new(cores: u32) -> Self {
        let per_second = PER_CORE.saturating_mul(if cores == 0 { 1 } else { cores });
        Self {
            interval: Duration::from_nanos(1_000_000_000 / per_second as u64),
            due: Mutex::new(Duration::ZERO),
        }
    }

    /// How long this connection waits; `None`: it is turned away. `now` is time since the server started.
    pub(super) fn admit(&self, now: Duration) -> Option<Duration> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*due).max(now) + self.interval;
        let wait = next.saturating_sub(now + BURST);
        if wait > WAIT_MAX {
            return None;
        }
        *due = next;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_holds_and_what_would_wait_too_long_is_turned_away() {
        let admission = Admission::new(1);
        let at = |seconds: u64| Duration::from_secs(seconds);
        let waits: Vec<Option<Duration>> = (0..10_000).map(|_| admission.admit(at(10))).collect();
        assert!(waits[..1_000].iter().all(|wait| *wait == Some(Duration::ZERO)));
        assert_eq!(waits[1_999], Some(Duration::from_secs(1)));
        let admitted = waits.iter().filter(|wait| wait.is_some()).count();
        assert_eq!(admitted, 6_000, "a burst, and what five seconds take");
        assert!(waits[6_000..].iter().all(Option::is_none));
        // Those that were turned away took nobody's turn.
        assert_eq!(admission.admit(at(11)).unwrap(), Duration::from_millis(4_001));
        assert_eq!(admission.admit(at(20)), Some(Duration::ZERO));
    }

    #[test]
    fn a_machine_that_does_not_say_how_many_cores_it_has_has_one() {
        assert_eq!(Admission::new(0).interval, Admission::new(1).interval);
        assert!(Admission::new(8).interval < Admission::new(1).interval);
    }
}
