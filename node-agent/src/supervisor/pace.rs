//! How soon a tool is listed again that says that its list changed: at once, unless it says so all the time. Pure.

/// Between two lists at least, in milliseconds: two hundred notices in a tenth of a second are one change.
const APART_MS: u64 = 250;

/// Lists that a tool may cause in a row: a person who tries out a server gets each change at once.
const IN_A_ROW: u64 = 14;

/// And from then on one in so many milliseconds, by which a server that announces a change whenever it is listed
/// costs nothing; less than calls wait for a list (`gateway.relist_wait`).
const EACH_MS: u64 = 4_000;

/// The lists of one start of a tool.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last_ms: Option<u64>,
    /// When all that was allowed so far is used up.
    used_until_ms: u64,
}

impl Pace {
    /// A list begins.
    pub(super) fn began(&mut self, now_ms: u64) {
        self.last_ms = Some(now_ms);
        self.used_until_ms = self.used_until_ms.max(now_ms) + EACH_MS;
    }

    /// How long to wait with the next one, in milliseconds.
    pub(super) fn wait_ms(&self, now_ms: u64) -> u64 {
        let apart = self.last_ms.map_or(0, |last_ms| last_ms + APART_MS);
        let room = self.used_until_ms.saturating_sub(IN_A_ROW * EACH_MS - EACH_MS);
        apart.max(room).saturating_sub(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of a tool that has a reason to be listed at each of these times, until a time.
    fn lists(reasons_ms: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut pace = Pace::default();
        pace.began(0);
        let mut lists = vec![0];
        for reason_ms in reasons_ms {
            // What is waited for already is not asked for again.
            if lists.last().is_some_and(|last| *last >= reason_ms) && reason_ms > 0 {
                continue;
            }
            let at_ms = reason_ms + pace.wait_ms(reason_ms);
            pace.began(at_ms);
            lists.push(at_ms);
        }
        lists
    }

    #[test]
    fn the_first_change_is_listed_at_once_and_so_is_one_after_a_while() {
        assert_eq!(lists([1_000, 2_000, 60_000].into_iter()), [0, 1_000, 2_000, 60_000]);
    }

    #[test]
    fn a_burst_is_one_list_more_and_the_last_notice_is_never_lost() {
        assert_eq!(lists((1..=200).map(|n| 5_000 + n / 2)), [0, 5_000, 5_250]);
    }

    // C21
    #[test]
    fn a_tool_that_announces_whenever_it_is_listed_is_listed_thirty_times_a_minute_at_most() {
        let mut pace = Pace::default();
        let (mut now_ms, mut lists) = (0, 0);
        while now_ms < 60_000 {
            pace.began(now_ms);
            lists += 1;
            // Its notice comes with its answer.
            now_ms += 1;
            let wait_ms = pace.wait_ms(now_ms);
            assert!(wait_ms <= EACH_MS, "calls wait longer than for one list: {wait_ms}");
            now_ms += wait_ms;
        }
        assert!((15..=30).contains(&lists), "{lists}");
    }
}
