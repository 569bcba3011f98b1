//! The rules of a readable entry, one by one.

use super::*;

fn in_schema(member: &str) -> String {
    format!(r#"{{"name":"f","inputSchema":{{"type":"object",{member}}}}}"#)
}

#[test]
fn an_entry_that_breaks_a_rule_is_refused_with_the_rule_and_the_place() {
    use UnreadableFault as F;
    let rows = [
        ("null".to_owned(), F::NotAnObject { got: "null" }, "", None),
        (r#"["name"]"#.to_owned(), F::NotAnObject { got: "an array" }, "", None),
        ("{}".to_owned(), F::NoName, "", None),
        (r#"{"name":42}"#.to_owned(), F::NameNotText { got: "a number" }, "/name", None),
        (r#"{"name":"f","x":1,"x":1}"#.to_owned(), F::Twice, "/x", Some("f")),
        (r#"{"name":"f","name":"f"}"#.to_owned(), F::Twice, "/name", None),
        (in_schema(r#""a/b":{"y":1,"z":2,"\u0079":3}"#), F::Twice, "/inputSchema/a~1b/y", Some("f")),
        (
            in_schema("\"a\\u200b\":1,\"a\u{200B}\":2"),
            F::TwiceOnceVisible,
            "/inputSchema/a\\u{200B}",
            Some("f"),
        ),
        (
            in_schema("\"a\\\\u{200B}\":1,\"a\u{200B}\":2"),
            F::TwiceOnceVisible,
            "/inputSchema/a\\u{200B}",
            Some("f"),
        ),
        (
            in_schema("\"enum\":[\"a\\\\u{200B}\",\"a\u{200B}\"]"),
            F::EnumOnceVisible,
            "/inputSchema/enum",
            Some("f"),
        ),
        (
            in_schema(r#""enum":["\\u{D800}",{"a":1},"\ud800"]"#),
            F::EnumOnceVisible,
            "/inputSchema/enum",
            Some("f"),
        ),
        (in_schema(r#""maximum":1e400"#), F::Number("1e400".to_owned()), "/inputSchema/maximum", Some("f")),
        (
            in_schema(r#""maximum":[1,-2e999]"#),
            F::Number("-2e999".to_owned()),
            "/inputSchema/maximum/1",
            Some("f"),
        ),
        (r#"{"x":1e999,"name":"late"}"#.to_owned(), F::Number("1e999".to_owned()), "/x", Some("late")),
    ];
    for (raw, fault, pointer, name) in rows {
        let got = refused(&raw);
        assert_eq!((&got.fault, got.pointer.as_str(), got.name.as_deref()), (&fault, pointer, name), "{raw}");
    }
}

#[test]
fn values_of_an_enum_that_were_equal_before_are_readable() {
    for member in [r#""enum":["a","a"]"#, "\"enum\":[\"a\u{200B}\",\"a\\u200b\",1]", r#""enum":"\u200b""#] {
        entry(&in_schema(member));
    }
}

#[test]
fn text_that_is_no_json_is_told_with_its_place() {
    for raw in [
        "",
        "{",
        "{\"name\"",
        "{\"name\":\"f\",}",
        "{\"name\":\"f\"}}",
        "{\"name\":\"f\"} x",
        "{name:\"f\"}",
        "{\"name\":\"f\",\"x\":NaN}",
        "{\"name\":\"f\",\"x\":-Infinity}",
        "{\"name\":\"f\",\"x\":01}",
        "{\"name\":\"f\",\"x\":1.}",
        "{\"name\":\"f\",\"x\":.5}",
        "{\"name\":\"f\",\"x\":+1}",
        "{\"name\":\"f\",\"x\":1e}",
        "{\"name\":\"f\",\"x\":[1,]}",
        "{\"name\":\"f\",\"x\":[1 2]}",
        "{\"name\":\"f\",\"x\":\"\t\"}",
        "{\"name\":\"f\",\"x\":\"\\x\"}",
        "{\"name\":\"f\",\"x\":\"\\u12g4\"}",
        "{\"name\":\"f\",\"x\":\"\\u+123\"}",
        "{\"name\":\"f\",\"x\":tru}",
        "{\"name\":\"f\" \"x\":1}",
        "{\"name\":\"f\",\"x\":\"\\\"}",
        "\u{FEFF}{\"name\":\"f\"}",
        "{\"name\":\"f\",\"x\":\"\\ud83d\\u12\"}",
    ] {
        let fault = refused(raw).fault;
        assert!(matches!(fault, UnreadableFault::NotJson { .. }), "{raw}: {fault:?}");
        assert!(serde_json::from_str::<Value>(raw).is_err(), "{raw}");
    }
    let sentence = refused("{\"name\":\"f\",\"x\":NaN}").to_string();
    assert!(sentence.contains("at byte 16") && sentence.contains("NaN"), "{sentence}");
}

#[test]
fn limits_are_counted_on_the_canonical_form() {
    let strings = |length: usize| in_schema(&format!(r#""x":"{}""#, "a".repeat(length)));
    entry(&strings(STRING_BYTES));
    assert_eq!(refused(&strings(STRING_BYTES + 1)).fault, UnreadableFault::StringTooLong);
    // An escaped line feed is two bytes of the canonical form, however it was spelled.
    let feeds = |count: usize| in_schema(&format!(r#""x":"{}""#, "\\u000a".repeat(count)));
    entry(&feeds(STRING_BYTES / 2));
    assert_eq!(refused(&feeds(STRING_BYTES / 2 + 1)).fault, UnreadableFault::StringTooLong);
    let name = in_schema(&format!(r#""{}":1"#, "é".repeat(STRING_BYTES / 2 + 1)));
    assert_eq!(refused(&name).fault, UnreadableFault::StringTooLong);

    // White space and the name do not count.
    let of_size = |bytes: usize| {
        let string = "a".repeat(200_000);
        let last = bytes - (r#"{"x":["","","","","",""]}"#.len() + 5 * string.len());
        let items = vec![format!("\"{string}\""); 5].join(" ,  ");
        format!(r#"{{"name":"{string}", "x":[{items},"{}"]}}"#, "b".repeat(last))
    };
    assert_eq!(entry(&of_size(ENTRY_BYTES)).canonical.len(), ENTRY_BYTES);
    assert_eq!(refused(&of_size(ENTRY_BYTES + 1)).fault, UnreadableFault::EntryTooLarge);
    // Numbers are written longer or shorter than they were sent.
    let numbers = |count: usize| in_schema(&format!(r#""x":[{}]"#, vec!["1e20"; count].join(",")));
    assert_eq!(refused(&numbers(48_000)).fault, UnreadableFault::EntryTooLarge);
    let zeros = in_schema(&format!(r#""x":[{}]"#, vec!["0.00000000e9"; 200_000].join(",")));
    assert_eq!(
        entry(&zeros).canonical.len(),
        400_000 + r#"{"inputSchema":{"type":"object","x":[]}}"#.len() - 1
    );

    let nested = |depth: usize| format!(r#"{{"name":"f","x":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
    entry(&nested(DEPTH - 1));
    assert_eq!(refused(&nested(DEPTH)).fault, UnreadableFault::TooDeep);
}

#[test]
fn ignored_members_of_meta_do_not_count() {
    let ignore =
        [MetaPointer::parse("/_meta/build").unwrap(), MetaPointer::parse("/_meta/a/1/x~1y").unwrap()];
    let canonical = |raw: &str| judge_entry(raw, &ignore).unwrap().canonical.to_string();
    let rows = [
        (r#"{"name":"f","_meta":{"build":1,"b":2}}"#, r#"{"_meta":{"b":2}}"#),
        (r#"{"name":"f","_meta":{"\u0062uild":{"deep":[[]]}}}"#, r#"{"_meta":{}}"#),
        (
            r#"{"name":"f","_meta":{"a":[{"x/y":1},{"x/y":2,"z":3}]}}"#,
            r#"{"_meta":{"a":[{"x/y":1},{"z":3}]}}"#,
        ),
        (r#"{"name":"f","_meta":{"a":{"dev.pintle/x":1}}}"#, r#"{"_meta":{"a":{"dev.pintle/x":1}}}"#),
        (r#"{"name":"f","build":1,"x":{"_meta":{"build":1}}}"#, r#"{"build":1,"x":{"_meta":{"build":1}}}"#),
        (r#"{"name":"f","_meta":"build"}"#, r#"{"_meta":"build"}"#),
        ("{\"name\":\"f\",\"_meta\":{\"dev.pintle/\u{200B}\":1}}", r#"{"_meta":{}}"#),
    ];
    for (raw, expected) in rows {
        assert_eq!(canonical(raw), expected);
    }
    let deep = format!(r#"{{"name":"f","_meta":{{"build":{}{}}}}}"#, "[".repeat(90_000), "]".repeat(90_000));
    assert_eq!(canonical(&deep), r#"{"_meta":{}}"#);
    let twice = r#"{"name":"f","_meta":{"build":1,"build":2}}"#;
    assert_eq!(judge_entry(twice, &ignore).unwrap_err().fault, UnreadableFault::Twice);
}

#[test]
fn only_what_is_below_meta_may_be_ignored() {
    for bad in ["", "/_meta", "_meta/x", "/description", "/_metax/y", "/_meta/a~2", "/_meta/a~"] {
        assert!(MetaPointer::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(MetaPointer::parse("/_meta/a~1b/~0").unwrap().to_string(), "/_meta/a~1b/~0");
}

#[test]
fn what_a_model_sends_back_is_kept_as_the_server_spelled_it() {
    let raw = r#"{"name":"f","description":"d\u200b","inputSchema":{"type":"object",
        "properties":{"to\u200bken":{"enum":["a\ud83d","b"]}},"const":{"k":"c\u0000"}}}"#;
    let entry = entry(raw);
    let real: Vec<_> = entry.real_texts.iter().map(|r| (&*r.written, &*r.real, r.is_member_name)).collect();
    let expected = [
        ("a\\u{D83D}", r#""a\ud83d""#, false),
        ("to\\u{200B}ken", r#""to\u200bken""#, true),
        ("c\\u{0}", r#""c\u0000""#, false),
    ];
    assert_eq!(real, expected);
    assert!(entry.hidden);
}

#[test]
fn a_name_is_read_once_visible() {
    let entry = entry("{\"name\":\"\u{FEFF}hello\"}");
    assert_eq!((&*entry.name, entry.hidden), ("\\u{FEFF}hello", true));
}

#[test]
fn a_pointer_is_cut_in_its_middle() {
    let mut raw = r#"{"name":"f","start":"#.to_owned();
    for _ in 0..40 {
        raw.push_str(r#"{"some/longer/name":"#);
    }
    raw.push_str(r#"{"end":1e999}"#);
    raw.push_str(&"}".repeat(41));
    let pointer = refused(&raw).pointer;
    assert!(pointer.starts_with("/start/some~1") && pointer.ends_with("/end"), "{pointer}");
    assert_eq!(pointer.chars().count(), 200);
}

#[test]
fn headers_against_the_protocol_are_found() {
    let property = |p: &str| format!(r#"{{"inputSchema":{{"properties":{{"a":{p}}}}}}}"#);
    let good = property(r#"{"type":"string","x-mcp-header":"Region"}"#);
    assert_eq!(header_fault(&good), None);
    assert_eq!(header_fault(&property(r#"{"default":{"x-mcp-header":""}}"#)), None);
    assert_eq!(header_fault(&property(r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#)), None);
    for bad in [
        r#"{"type":"string","x-mcp-header":""}"#,
        r#"{"type":"string","x-mcp-header":"a b"}"#,
        r#"{"type":"number","x-mcp-header":"A"}"#,
        r#"{"items":{"type":"string","x-mcp-header":"A"}}"#,
        r#"{"anyOf":[{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}]}"#,
        r#"{"properties":{"b":{"type":"string","x-mcp-header":"A"},"c":{"type":"string","x-mcp-header":"a"}}}"#,
    ] {
        assert!(header_fault(&property(bad)).is_some(), "{bad}");
    }
}
