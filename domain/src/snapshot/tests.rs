use proptest::prelude::*;

use super::*;

fn hash(text: &str) -> ListingHash {
    ListingHash::of_canonical(text)
}

fn functions(list: &[(&str, &str)]) -> BTreeMap<Arc<str>, ListingHash> {
    list.iter().map(|(name, text)| ((*name).into(), hash(text))).collect()
}

fn recorded(list: &[(&str, &str)]) -> Recorded {
    Recorded { taken: true, functions: functions(list) }
}

// R3.1
#[test]
fn the_first_complete_listing_is_the_snapshot_and_an_empty_one_counts() {
    let report = Report { complete: true, functions: functions(&[("a", "1")]), ..Report::default() };
    assert_eq!(judge(&Recorded::default(), &report), Judgement::Take(functions(&[("a", "1")])));
    let empty = Report { complete: true, ..Report::default() };
    assert_eq!(judge(&Recorded::default(), &empty), Judgement::Take(BTreeMap::new()));
    let later = judge(&recorded(&[]), &report);
    assert_eq!(later, Judgement::Compare([("a".into(), Seen::New { seen: hash("1") })].into()));
}

#[test]
fn an_incomplete_listing_takes_no_snapshot_and_takes_nothing_for_gone() {
    let report = Report { complete: false, functions: functions(&[("a", "2")]), ..Report::default() };
    assert_eq!(judge(&Recorded::default(), &report), Judgement::Wait);
    let Judgement::Compare(seen) = judge(&recorded(&[("a", "1"), ("b", "1")]), &report) else {
        panic!("compared")
    };
    assert_eq!(seen.len(), 1);
    assert_eq!(seen["a"], Seen::Changed { approved: hash("1"), seen: hash("2") });
}

#[test]
fn a_function_that_a_complete_listing_lacks_is_gone_unless_it_is_left_out() {
    let report = Report { complete: true, left_out: ["b".into()].into(), ..Report::default() };
    let Judgement::Compare(seen) = judge(&recorded(&[("a", "1"), ("b", "1")]), &report) else {
        panic!("compared")
    };
    assert_eq!(seen, [("a".into(), Seen::Gone { approved: hash("1") })].into());
}

proptest! {
    #[test]
    fn a_listing_compared_with_the_snapshot_it_became_shows_no_change(names in prop::collection::btree_map("[a-c]{1,2}", "[a-b]", 0..6)) {
        let report = Report {
            complete: true,
            functions: names.iter().map(|(name, text)| (name.as_str().into(), hash(text))).collect(),
            ..Report::default()
        };
        let Judgement::Take(functions) = judge(&Recorded::default(), &report) else { panic!("taken") };
        let Judgement::Compare(seen) = judge(&Recorded { taken: true, functions }, &report) else { panic!("compared") };
        prop_assert!(seen.values().all(|seen| *seen == Seen::Same));
    }
}
