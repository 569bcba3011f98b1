//! When a certificate is to be renewed. Pure; randomness is an argument.

use domain::time::Timestamp;
use proto::identity::BACKDATED_MINUTES;

/// At half of a certificate's life, a tenth of that earlier or later by `random`, so that nodes that joined
/// together do not renew together (30-nodes, 1). Its life begins when it was issued, which is later than the
/// date from which it is in force.
pub(super) fn due((from, until): (Timestamp, Timestamp), random: u32) -> Timestamp {
    let issued = from.plus_millis(BACKDATED_MINUTES * 60_000).min(until);
    let half = until.millis_since(issued) / 2;
    // Thousandths of the half, 900 to 1,100.
    let thousandths = 900 + i64::from(random % 201);
    issued.plus_millis(half.saturating_mul(thousandths) / 1_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_day_long_certificate_is_renewed_around_noon_and_a_short_one_within_its_life() {
        let (from, until) = (at(-600), at(86_400));
        assert_eq!(due((from, until), 100), at(43_200));
        assert_eq!(due((from, until), 0), at(38_880));
        assert_eq!(due((from, until), 200), at(47_520));
        assert_eq!(due((at(-600), at(4)), 100), at(2));
        assert_eq!(due((at(0), at(60)), 7), at(60), "one that was never in force is renewed at once");
    }

    proptest! {
        #[test]
        fn it_is_renewed_before_it_ends(life in 1_i64..100_000_000, random in any::<u32>()) {
            let due = due((at(-600), at(life)), random);
            prop_assert!(at(0) < due && due < at(life));
        }
    }
}
