//! When to connect again. Pure; randomness is an argument.

use domain::reconcile::jittered_ms;

use super::session::Closed;

/// The first delay after a failure; doubled with each.
const FIRST_MS: u64 = 250;

/// The longest delay, jittered after the cap (30-nodes, 2).
const MOST_MS: u64 = 60_000;

/// Reconnects that a control plane takes in a second: what is spread over that is never refused.
const TAKEN_PER_S: u64 = 2_000;

/// Failures since the last session that was opened, and how large the fleet is.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    failures: u32,
    fleet_size: u32,
}

impl Retry {
    /// A session was answered with Welcome.
    pub(crate) fn opened(&mut self, fleet_size: u32) {
        self.failures = 0;
        self.fleet_size = fleet_size;
    }

    /// No connection, or it was refused.
    pub(crate) fn after_failure(&mut self, random: u32) -> u64 {
        self.failures = self.failures.saturating_add(1);
        jittered_ms(FIRST_MS, MOST_MS, self.failures, random)
    }

    /// The stream ended: spread over the time in which the whole fleet can come back. Never at once,
    /// so that a server that ends every stream is not asked without pause.
    pub(crate) fn after_stream(&mut self, random: u32) -> u64 {
        if self.failures > 0 {
            return self.after_failure(random);
        }
        let span = (u64::from(self.fleet_size) * 1_000 / TAKEN_PER_S).max(FIRST_MS);
        self.failures = 1;
        jittered_ms(span, span, 1, random)
    }

    /// The session was closed: by the server's word, or since it fell silent.
    pub(crate) fn after_close(&mut self, closed: &Closed, random: u32) -> u64 {
        match closed {
            Closed::Goodbye { reconnect_after_ms, .. } if *reconnect_after_ms > 0 => {
                self.failures = 0;
                *reconnect_after_ms
            }
            Closed::Goodbye { .. } | Closed::Broken(_) => self.after_failure(random),
            // Somebody may wait for an approval.
            Closed::Silent => {
                let at_once = self.failures == 0;
                self.failures += 1;
                if at_once { 0 } else { jittered_ms(FIRST_MS, MOST_MS, self.failures, random) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_a_minute_and_can_come_at_once() {
        let mut retry = Retry::default();
        let longest: Vec<u64> = (0..10).map(|_| retry.after_failure(u32::MAX)).collect();
        assert_eq!(longest, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(retry.after_failure(0), 0);
    }

    #[test]
    fn a_fleet_comes_back_at_two_thousand_a_second() {
        let mut retry = Retry::default();
        retry.opened(10_000);
        assert_eq!(retry.after_stream(u32::MAX), 5_000);
        retry.opened(3);
        assert_eq!(retry.after_stream(u32::MAX), 250);
    }

    #[test]
    fn what_the_server_asks_for_is_obeyed() {
        let mut retry = Retry::default();
        let drain =
            Closed::Goodbye { code: "drain".into(), reason: String::new(), reconnect_after_ms: 1_234 };
        assert_eq!(retry.after_close(&drain, 7), 1_234);
    }

    #[test]
    fn after_silence_the_first_reconnect_is_at_once_and_the_next_is_not() {
        let mut retry = Retry::default();
        retry.opened(1);
        assert_eq!(retry.after_close(&Closed::Silent, u32::MAX), 0);
        assert!(retry.after_close(&Closed::Silent, u32::MAX) > 0);
    }
}
