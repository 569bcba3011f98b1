use proptest::prelude::*;

use super::*;

fn hash(text: &str) -> ListingHash {
    ListingHash::of_canonical(text)
}

fn functions(list: &[(&'static str, &str)]) -> BTreeMap<&'static str, ListingHash> {
    list.iter().map(|(name, text)| (*name, hash(text))).collect()
}

#[test]
fn a_new_version_waits_for_nobody_unless_the_policy_says_so() {
    let (before, new) = (functions(&[("a", "1")]), functions(&[("a", "2"), ("b", "3")]));
    assert!(to_review(Review::Off, Some(&before), &new).is_empty());
}

#[test]
fn what_differs_from_the_version_that_the_edge_had_waits_in_its_earlier_form() {
    let before = functions(&[("same", "1"), ("other", "2"), ("gone", "3")]);
    let new = functions(&[("same", "1"), ("other", "4"), ("added", "5")]);
    let waiting = to_review(Review::Changed, Some(&before), &new);
    assert_eq!(waiting, BTreeMap::from([("other", Some(hash("2"))), ("added", None)]));
}

#[test]
fn the_first_version_of_an_edge_waits_only_if_all_is_reviewed() {
    let new = functions(&[("a", "1")]);
    assert!(to_review(Review::Changed, None, &new).is_empty());
    assert_eq!(to_review(Review::All, None, &new), BTreeMap::from([("a", None)]));
}

#[test]
fn eight_forms_within_the_hour_are_volatile_and_older_ones_do_not_count() {
    let now = Timestamp::from_millis(10 * VOLATILE_WITHIN_MS);
    let at = |ago: i64| now.plus_millis(-ago);
    assert!(!is_volatile((0..7).map(at), now));
    assert!(is_volatile((0..8).map(at), now));
    assert!(!is_volatile((0..7).map(at).chain([at(VOLATILE_WITHIN_MS)]), now));
    assert!(is_volatile((0..7).map(at).chain([at(VOLATILE_WITHIN_MS - 1)]), now));
}

#[test]
fn a_review_is_read_back_as_it_was_written() {
    assert!(Review::ALL.into_iter().all(|review| Review::parse(review.as_str()) == Some(review)));
    assert_eq!(Review::parse("Changed"), None);
}

proptest! {
    /// No function that waits is gone by as the new version lists it, and with `changed` every other is exactly
    /// what the edge had.
    #[test]
    fn what_waits_is_never_called_as_it_lists_itself(
        before in proptest::option::of(proptest::collection::btree_map(0u8..6, "[a-c]", 0..6)),
        new in proptest::collection::btree_map(0u8..6, "[a-c]", 0..6),
    ) {
        let hashes = |map: &BTreeMap<u8, String>| -> BTreeMap<u8, ListingHash> {
            map.iter().map(|(name, text)| (*name, hash(text))).collect()
        };
        let (before, new) = (before.as_ref().map(hashes), hashes(&new));
        for review in [Review::Changed, Review::All] {
            let waiting = to_review(review, before.as_ref(), &new);
            for (function, meanwhile) in &waiting {
                prop_assert_ne!(*meanwhile, new.get(function).copied());
            }
            for (function, hash) in new.iter().filter(|(function, _)| !waiting.contains_key(*function)) {
                prop_assert!(review == Review::Changed);
                prop_assert!(before.as_ref().is_none_or(|before| before.get(function) == Some(hash)));
            }
        }
    }
}
