use proptest::prelude::*;

use super::*;

const RULES: Rules = Rules { failures: 3, wait_ms: 5_000 };

fn failure(is_shared: bool) -> Failure {
    Failure { reason: "reach it".into(), is_shared }
}

fn fail(breaker: &mut Breaker, pass: Pass, now_ms: u64) {
    breaker.failed(RULES, pass, &failure(false), now_ms, Timestamp::from_millis(7));
}

/// Held back since 1,000 ms.
fn open() -> Breaker {
    let mut breaker = Breaker::default();
    for _ in 0..RULES.failures {
        let pass = breaker.admit(1_000).unwrap();
        fail(&mut breaker, pass, 1_000);
    }
    breaker
}

#[test]
fn calls_are_held_back_after_so_many_failures_in_a_row_and_are_told_why_and_until_when() {
    let mut breaker = open();
    let told = breaker.admit(2_000).unwrap_err();
    assert_eq!((told.since, &*told.reason), (Timestamp::from_millis(7), "reach it"));
    assert_eq!((told.next_ms, told.is_probed), (4_000, false));
    let mut breaker = Breaker::default();
    for _ in 0..10 {
        for _ in 1..RULES.failures {
            let pass = breaker.admit(0).unwrap();
            fail(&mut breaker, pass, 0);
        }
        assert!(!breaker.is_calm());
        breaker.answered();
        assert!(breaker.is_calm(), "an answer in between begins anew");
    }
}

#[test]
fn nothing_is_held_back_where_it_is_off() {
    let mut breaker = Breaker::default();
    for _ in 0..1_000 {
        let pass = breaker.admit(0).unwrap();
        breaker.failed(Rules { failures: 0, ..RULES }, pass, &failure(false), 0, Timestamp::default());
    }
}

#[test]
fn after_the_wait_one_call_is_let_through_and_its_answer_lets_all_through() {
    let mut breaker = open();
    assert!(breaker.admit(5_999).is_err());
    let probe = breaker.admit(6_000).unwrap();
    let told = breaker.admit(6_000).unwrap_err();
    assert!(told.is_probed && told.next_ms == 5_000, "{told:?}");
    assert_eq!(breaker.still(probe, 6_000), Ok(()));
    breaker.answered();
    for _ in 0..10 {
        breaker.admit(6_000).unwrap();
    }
}

#[test]
fn each_call_that_is_let_through_and_fails_doubles_the_wait_up_to_a_minute() {
    let (mut breaker, mut now_ms) = (open(), 6_000);
    for wait_ms in [10_000, 20_000, 40_000, 60_000, 60_000] {
        let probe = breaker.admit(now_ms).unwrap();
        fail(&mut breaker, probe, now_ms);
        assert_eq!(breaker.admit(now_ms).unwrap_err().next_ms, wait_ms);
        now_ms += wait_ms;
    }
    let long = Rules { failures: 1, wait_ms: 100_000 };
    let mut breaker = Breaker::default();
    for now_ms in [0, 100_000, 200_000] {
        let pass = breaker.admit(now_ms).unwrap();
        breaker.failed(long, pass, &failure(false), now_ms, Timestamp::default());
        assert_eq!(breaker.admit(now_ms).unwrap_err().next_ms, 100_000, "as it was set");
    }
}

#[test]
fn a_probe_that_is_cancelled_makes_room_for_the_next_and_one_that_hangs_is_not_waited_for_for_ever() {
    let mut breaker = open();
    let probe = breaker.admit(6_000).unwrap();
    breaker.given_up(probe, 6_500);
    let second = breaker.admit(6_500).unwrap();
    breaker.given_up(probe, 6_600);
    assert!(breaker.admit(6_600).is_err(), "the second one is under way");
    let third = breaker.admit(11_500).unwrap();
    fail(&mut breaker, second, 11_600);
    assert_eq!(breaker.admit(11_600).unwrap_err().next_ms, 4_900, "only the newest counts");
    fail(&mut breaker, third, 11_700);
    assert_eq!(breaker.admit(11_700).unwrap_err().next_ms, 10_000);
}

#[test]
fn calls_that_one_cause_failed_together_count_once_and_each_that_waited_its_time_counts() {
    let mut breaker = Breaker::default();
    for _ in 1..RULES.failures {
        let together: Vec<Pass> = (0..32).map(|_| breaker.admit(0).unwrap()).collect();
        for pass in together {
            breaker.failed(RULES, pass, &failure(true), 0, Timestamp::default());
        }
        assert!(breaker.admit(0).is_ok());
    }
    let mut breaker = Breaker::default();
    let together: Vec<Pass> = (0..32).map(|_| breaker.admit(0).unwrap()).collect();
    for pass in together {
        fail(&mut breaker, pass, 0);
    }
    assert!(breaker.admit(0).is_err());
}

#[test]
fn calls_that_began_before_neither_hold_longer_nor_hold_back_again() {
    let mut breaker = Breaker::default();
    let early: Vec<Pass> = (0..20).map(|_| breaker.admit(0).unwrap()).collect();
    for pass in &early[..10] {
        fail(&mut breaker, *pass, 1_000);
    }
    assert_eq!(breaker.admit(1_000).unwrap_err().next_ms, 5_000);
    assert!(breaker.still(early[19], 1_000).is_err(), "what has not gone yet is held back too");
    breaker.listed();
    for pass in &early[10..] {
        fail(&mut breaker, *pass, 1_100);
    }
    assert!(breaker.is_calm());
}

#[test]
fn a_listing_lets_calls_through_that_are_held_back_and_says_nothing_of_calls_that_fail() {
    let mut breaker = open();
    breaker.listed();
    assert!(breaker.is_calm());
    for _ in 0..RULES.failures {
        let pass = breaker.admit(0).unwrap();
        breaker.listed();
        fail(&mut breaker, pass, 0);
    }
    assert!(breaker.admit(0).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Begin,
    Answer(prop::sample::Index),
    Fail(prop::sample::Index, bool),
    GiveUp(prop::sample::Index),
    Listed,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Begin),
        1 => any::<prop::sample::Index>().prop_map(Step::Answer),
        6 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(which, shared)| Step::Fail(which, shared)),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveUp),
        1 => Just(Step::Listed),
        2 => (0..90_000_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn over_any_run_it_opens_by_enough_failures_only_and_lets_one_through_in_each_wait_and_all_after_an_answer(
        failures in 0..6_u32, wait_ms in 1..90_000_u64, steps in prop::collection::vec(step(), 0..200),
    ) {
        let rules = Rules { failures, wait_ms };
        let most_ms = wait_ms.max(WAIT_MOST_MS);
        let (mut breaker, mut now_ms) = (Breaker::default(), 0_u64);
        let mut under_way: Vec<Pass> = Vec::new();
        // Failures since the last answer, and when calls were held back first and let through last.
        let (mut row, mut held_at, mut let_through_at) = (0_u32, None, None::<u64>);
        for step in steps {
            match step {
                Step::Pass(ms) => now_ms += ms,
                Step::Begin => match breaker.admit(now_ms) {
                    Ok(pass) => {
                        if held_at.is_some() {
                            let_through_at = Some(now_ms);
                            let told = breaker.admit(now_ms);
                            prop_assert!(told.is_err_and(|told| told.is_probed), "exactly one");
                        }
                        under_way.push(pass);
                    }
                    Err(told) => {
                        prop_assert!(failures > 0 && row >= failures, "held back after {} failures", row);
                        prop_assert!(told.next_ms > 0 && told.next_ms <= most_ms);
                        let last = let_through_at.or(held_at).unwrap();
                        prop_assert!(!told.is_probed || now_ms - last < most_ms, "a probe that hangs");
                    }
                },
                Step::Answer(which) if !under_way.is_empty() => {
                    under_way.swap_remove(which.index(under_way.len()));
                    breaker.answered();
                    prop_assert!(breaker.is_calm());
                    (row, held_at, let_through_at) = (0, None, None);
                }
                Step::Fail(which, is_shared) if !under_way.is_empty() => {
                    let pass = under_way.swap_remove(which.index(under_way.len()));
                    let counted = breaker.counted();
                    breaker.failed(rules, pass, &failure(is_shared), now_ms, Timestamp::default());
                    prop_assert!(breaker.counted() >= counted);
                    row += 1;
                    if held_at.is_none() && breaker.clone().admit(now_ms).is_err() {
                        held_at = Some(now_ms);
                    }
                }
                Step::GiveUp(which) if !under_way.is_empty() => {
                    let pass = under_way.swap_remove(which.index(under_way.len()));
                    breaker.given_up(pass, now_ms);
                }
                Step::Listed => {
                    let was_held = held_at.is_some();
                    breaker.listed();
                    if was_held {
                        prop_assert!(breaker.is_calm());
                        (row, held_at, let_through_at) = (0, None, None);
                    }
                }
                _ => {}
            }
        }
        // However it stands, somebody is let through within the longest wait.
        prop_assert!(breaker.admit(now_ms + most_ms).is_ok());
    }
}
