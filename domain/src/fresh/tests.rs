use proptest::prelude::*;

use super::*;

const HOUR: u64 = 3_600_000;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(ms).unwrap())
}

fn contact(at_ms: u64) -> Contact {
    Contact { at: at(at_ms), fresh_ms: 24 * HOUR }
}

fn mark(high_water: u64, ahead_of_wall_ms: i64) -> Mark {
    Mark { high_water: at(high_water), ahead_of_wall_ms, contact: contact(high_water) }
}

fn policy(strict: bool, lease: Option<u64>) -> Policy {
    Policy { strict, offline_lease_ms: lease, ..Policy::default() }
}

fn goes_by(has: Has, policy: &Policy, now: u64) -> Reliance {
    rely(has, Some(&contact(0)), policy, at(now)).0
}

#[test]
fn without_a_lease_what_is_stored_is_never_gone_by() {
    for strict in [false, true] {
        assert_eq!(goes_by(Has::Stored, &policy(strict, None), 0), Reliance::Waits);
        assert_eq!(goes_by(Has::Nothing, &policy(strict, Some(HOUR)), 0), Reliance::Waits);
    }
    assert_eq!(
        rely(Has::Stored, None, &policy(false, Some(HOUR)), at(0)).0,
        Reliance::Waits,
        "never any contact"
    );
}

#[test]
fn a_lease_counts_from_the_last_contact_and_ends() {
    let policy = policy(false, Some(48 * HOUR));
    let until = at(48 * HOUR);
    assert_eq!(goes_by(Has::Stored, &policy, 48 * HOUR - 1), Reliance::Leases { until });
    assert_eq!(goes_by(Has::Stored, &policy, 48 * HOUR), Reliance::Waits);
    assert_eq!(rely(Has::Stored, Some(&contact(0)), &policy, at(0)).1, Some(until));
}

#[test]
fn a_lease_gains_a_strict_edge_nothing_over_a_node_that_runs() {
    let policy = policy(true, Some(48 * HOUR));
    assert_eq!(goes_by(Has::Stored, &policy, 0), Reliance::Leases { until: at(24 * HOUR) });
    assert_eq!(goes_by(Has::Stored, &policy, 24 * HOUR), Reliance::Waits);
}

#[test]
fn a_node_that_runs_goes_on_past_its_freshness_or_refuses_where_the_edge_is_strict() {
    for strict in [false, true] {
        let policy = policy(strict, None);
        assert_eq!(goes_by(Has::Confirmed, &policy, 24 * HOUR - 1), Reliance::Holds);
        let stale = Reliance::Stale { since: at(24 * HOUR), refuses: strict };
        assert_eq!(goes_by(Has::Confirmed, &policy, 24 * HOUR), stale);
        assert!(stale.has_set());
    }
}

#[test]
fn an_edge_may_make_freshness_shorter_than_the_control_plane_says_and_not_longer() {
    let mut policy = policy(true, None);
    policy.fresh_for_ms = HOUR;
    assert_eq!(goes_by(Has::Confirmed, &policy, HOUR), Reliance::Stale { since: at(HOUR), refuses: true });
    policy.fresh_for_ms = 48 * HOUR;
    assert_eq!(
        goes_by(Has::Confirmed, &policy, 24 * HOUR),
        Reliance::Stale { since: at(24 * HOUR), refuses: true }
    );
}

#[test]
fn a_wall_clock_that_was_turned_back_does_not_take_the_time_behind_the_mark() {
    let mark = mark(50 * HOUR, 0);
    let clock = Clock::start(Some(&mark), at(3 * HOUR), 1_000);
    assert_eq!(clock.now(1_000), at(50 * HOUR));
    assert_eq!(clock.now(3_000), at(50 * HOUR + 2_000));
}

#[test]
fn the_time_that_the_node_was_off_counts() {
    // The wall was an hour behind the server when it was written down.
    let mark = mark(50 * HOUR, i64::try_from(HOUR).unwrap());
    assert_eq!(Clock::start(Some(&mark), at(60 * HOUR), 0).now(0), at(61 * HOUR));
}

#[test]
fn a_server_whose_clock_jumps_ahead_and_back_neither_stops_time_nor_takes_it_back() {
    let mut clock = Clock::start(None, at(HOUR), 0);
    clock.hear(at(9 * HOUR), 0);
    clock.hear(at(HOUR), 10);
    assert_eq!(clock.now(10), at(9 * HOUR + 10));
    assert_eq!(clock.now(20), at(9 * HOUR + 20));
}

proptest! {
    #[test]
    fn time_never_goes_back_over_any_run_of_words_and_restarts(
        steps in prop::collection::vec((0..1_000_000_u64, 0..1_000_000_u64, 0..1_000_000_u64, any::<bool>()), 0..40),
    ) {
        let mut clock = Clock::start(None, at(0), 0);
        let (mut now_ms, mut last) = (0, at(0));
        for (passed, server, wall, restart) in steps {
            now_ms += passed;
            if restart {
                let high_water = clock.now(now_ms);
                let ahead = high_water.millis_since(at(wall));
                let mark = Mark { high_water, ahead_of_wall_ms: ahead, contact: contact(0) };
                // The monotonic clock begins anew, the wall says anything.
                now_ms = 0;
                clock = Clock::start(Some(&mark), at(server), now_ms);
            } else {
                clock.hear(at(server), now_ms);
            }
            let now = clock.now(now_ms);
            prop_assert!(now >= last, "{now} after {last}");
            last = now;
        }
    }

    #[test]
    fn what_is_gone_by_at_a_time_stays_so_until_the_time_that_was_named(
        at_ms in 0..100_000_u64, fresh in 0..100_000_u64, own in 0..100_000_u64, lease in prop::option::of(0..100_000_u64),
        strict: bool, has in prop_oneof![Just(Has::Nothing), Just(Has::Stored), Just(Has::Confirmed)],
        now in 0..300_000_u64, passed in 0..100_000_u64,
    ) {
        let contact = Contact { at: at(at_ms), fresh_ms: fresh };
        let policy = Policy { strict, fresh_for_ms: own, offline_lease_ms: lease, ..Policy::default() };
        let (first, until) = rely(has, Some(&contact), &policy, at(now));
        let later = at(now + passed);
        if until.is_none_or(|until| later < until) {
            prop_assert_eq!(rely(has, Some(&contact), &policy, later).0, first);
        } else {
            prop_assert_ne!(rely(has, Some(&contact), &policy, later).0, first);
        }
    }
}
