use proptest::prelude::*;

use super::*;

fn vector_ranges() -> Vec<(u32, u32)> {
    let file: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/vectors/invisible-v1.json")).unwrap();
    let hex = |v: &serde_json::Value| u32::from_str_radix(v.as_str().unwrap(), 16).unwrap();
    file["ranges"].as_array().unwrap().iter().map(|r| (hex(&r[0]), hex(&r[1]))).collect()
}

// R3.37 to R3.42
#[test]
fn the_frozen_set_is_the_published_one() {
    assert_eq!(v1::RANGES.to_vec(), vector_ranges());
    assert!(v1::RANGES.is_sorted_by(|a, b| a.1 < b.0));
}

#[test]
fn every_code_point_is_judged_as_the_published_ranges_say() {
    let ranges = vector_ranges();
    for code_point in 0..=0x11_0000 {
        let expected = ranges.iter().any(|(first, last)| (*first..=*last).contains(&code_point));
        assert_eq!(v1::contains(code_point), expected, "{code_point:X}");
    }
}

// R3.35, R3.41
#[test]
fn hidden_text_is_written_out() {
    let rows = [
        ("", ""),
        ("pay\u{200B}load", "pay\\u{200B}load"),
        ("Hi\u{E0065}", "Hi\\u{E0065}"),
        ("a\u{202E}b", "a\\u{202E}b"),
        ("\u{26A0}\u{FE0F}", "\u{26A0}\\u{FE0F}"),
        ("\u{FEFF}x\u{AD}", "\\u{FEFF}x\\u{AD}"),
        ("\0\u{7}\u{7F}", "\\u{0}\\u{7}\\u{7F}"),
        ("a\tb\nc\r\nd", "a\tb\nc\r\nd"),
        ("a\rb\r", "a\\u{D}b\\u{D}"),
        ("\r\r\n", "\\u{D}\r\n"),
        ("\r\u{200B}\n", "\\u{D}\\u{200B}\n"),
    ];
    for (text, visible) in rows {
        assert_eq!(make_visible(text), visible, "{text:?}");
        assert_eq!(is_visible(text), text == visible, "{text:?}");
    }
}

#[test]
fn visible_text_of_any_script_is_borrowed() {
    for text in ["plain", "Grüße, 世界 🙂", "\u{5E9}\u{5DC}\u{5D5}\u{5DD}", "\\u{200B}", "<!-- x -->"] {
        assert!(matches!(make_visible(text), Cow::Borrowed(same) if same == text), "{text}");
    }
}

#[test]
fn what_people_are_shown_of_calls_is_written_out_as_well() {
    let file: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/cases/C39-approval-display.json")).unwrap();
    let exact = [
        "bidi-in-an-argument",
        "zero-width-in-a-path",
        "terminal-colour",
        "terminal-link",
        "carriage-return-over-print",
        "fake-new-line",
        "html",
        "real-hebrew",
    ];
    let rows = file["rows"].as_array().unwrap();
    for id in exact {
        let row = rows.iter().find(|row| row["id"] == id).unwrap();
        assert_eq!(make_visible(row["text"].as_str().unwrap()), row["shown"].as_str().unwrap(), "{id}");
    }
}

#[test]
fn half_a_surrogate_pair_is_written_out() {
    let mut out = String::new();
    assert!(write_visible(&mut out, 0xD83D, false));
    assert!(!write_visible(&mut out, 0x41, false));
    assert!(!write_visible(&mut out, 0x0D, true));
    assert!(write_visible(&mut out, 0x0D, false));
    assert!(write_visible(&mut out, 0x11_0000, false));
    assert_eq!(out, "\\u{D83D}A\r\\u{D}\\u{110000}");
}

/// Text rich in what has to be written out and in what nearly has to.
fn text() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        '\r',
        '\n',
        '\t',
        '\u{200B}',
        '\u{E0041}',
        '\u{7F}',
        '\u{AD}',
        '\u{FE0F}',
        '\\',
        'u',
        '{',
        '}',
        '0',
    ]);
    let c = prop_oneof![odd, any::<char>(), prop::char::range(' ', '~')];
    prop::collection::vec(c, 0..40).prop_map(|chars| chars.into_iter().collect())
}

proptest! {
    #[test]
    fn making_visible_twice_changes_nothing_more(text in text()) {
        let once = make_visible(&text).into_owned();
        prop_assert_eq!(make_visible(&once), once.as_str());
        prop_assert!(is_visible(&once));
    }

    #[test]
    fn no_invisible_code_point_is_left(text in text()) {
        let visible = make_visible(&text).into_owned();
        let mut chars = visible.chars().peekable();
        while let Some(c) = chars.next() {
            prop_assert!(!v1::contains(c.into()), "{:?}", c);
            prop_assert!(c != '\r' || chars.peek() == Some(&'\n'));
        }
    }

    #[test]
    fn whole_text_and_single_code_points_are_written_alike(text in text()) {
        let mut out = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            write_visible(&mut out, c.into(), chars.peek() == Some(&'\n'));
        }
        prop_assert_eq!(make_visible(&text), out.as_str());
    }

    #[test]
    fn visible_text_is_unchanged(text in "[ -~\t\né世🙂]{0,60}") {
        prop_assert!(matches!(make_visible(&text), Cow::Borrowed(_)));
    }
}

#[test]
fn a_text_that_is_cut_between_cr_and_lf_stays_visible() {
    assert_eq!(make_visible_up_to("ab\r\ncd", 3), "ab");
    assert_eq!(make_visible_up_to("ab\r\ncd", 4), "ab\r\n");
    assert_eq!(make_visible_up_to("\u{200B}", 100), "\\u{200B}");
    for most in 0..12 {
        assert!(is_visible(&make_visible_up_to("a\r\n\r\n\u{85}b\r\n", most)), "{most}");
    }
}
