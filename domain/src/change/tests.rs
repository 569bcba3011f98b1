use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::id::{FunctionId, ToolId};
use crate::listing::judge_entry;

fn canonical(entry: &str) -> String {
    judge_entry(entry, &[]).unwrap().canonical.to_string()
}

/// The canonical form of an entry with these members.
fn of(members: &str) -> String {
    canonical(&format!("{{\"name\":\"f\"{}{members}}}", if members.is_empty() { "" } else { "," }))
}

fn codes(grades: &BTreeSet<Grade>) -> String {
    grades.iter().map(Grade::code).collect::<Vec<_>>().join(" ")
}

fn check(rows: &[(&str, &str, &str)]) {
    for (before, after, expected) in rows {
        let grades = grade(Some(&of(before)), Some(&of(after)));
        assert_eq!(codes(&grades), *expected, "{before} -> {after}");
    }
}

/// Rows of input schemas.
fn check_schemas(rows: &[(&str, &str, &str)]) {
    for (before, after, expected) in rows {
        let schema = |text: &str| format!(r#""inputSchema":{text}"#);
        check(&[(&schema(before), &schema(after), expected)]);
    }
}

#[test]
fn what_means_the_same_is_notation() {
    check(&[
        ("", r#""description":null"#, "notation"),
        (r#""outputSchema":null,"title":null"#, "", "notation"),
        ("", r#""_meta":null"#, "notation"),
        ("", r#""annotations":{"readOnlyHint":false,"destructiveHint":true}"#, "notation"),
        (r#""annotations":{"idempotentHint":null}"#, r#""annotations":{"openWorldHint":true}"#, "notation"),
        (r#""annotations":{}"#, "", "notation"),
        (r#""annotations":{"title":null}"#, r#""annotations":{}"#, "notation"),
    ]);
    check_schemas(&[(r#"{"required":["a","b"]}"#, r#"{"required":["b","a"]}"#, "notation")]);
}

#[test]
fn what_only_looks_like_notation_is_not() {
    check(&[
        ("", r#""description":"""#, "text"),
        ("", r#""future":null"#, "text"),
        ("", r#""annotations":{"readOnlyHint":"false"}"#, "text"),
        ("", r#""annotations":{"costHint":null}"#, "text"),
        ("", r#""_meta":{}"#, "meta_only"),
        (r#""description":null,"_meta":{"a":1}"#, r#""_meta":{"a":2}"#, "notation meta_only"),
    ]);
    check_schemas(&[
        (r#"{"required":["a"]}"#, r#"{"required":["a","a"]}"#, "text"),
        ("{}", r#"{"required":[]}"#, "text"),
        (r#"{"enum":["a","b"]}"#, r#"{"enum":["b","a"]}"#, "text"),
        (r#"{"default":{"required":["a","b"]}}"#, r#"{"default":{"required":["b","a"]}}"#, "text"),
        (
            r#"{"properties":{"required":{"enum":["a","b"]}}}"#,
            r#"{"properties":{"required":{"enum":["b","a"]}}}"#,
            "text",
        ),
        ("{}", "null", "narrowed widened"),
    ]);
    assert!(is_notation_only(&BTreeSet::from([Grade::Notation])));
    assert!(!is_notation_only(&BTreeSet::from([Grade::Notation, Grade::MetaOnly])));
    assert!(!is_notation_only(&BTreeSet::new()));
}

#[test]
fn hints_are_graded_by_what_they_promise() {
    let hint = |name: &str, value: bool| format!(r#""annotations":{{"{name}":{value}}}"#);
    for (name, lax) in [
        ("readOnlyHint", true),
        ("idempotentHint", true),
        ("destructiveHint", false),
        ("openWorldHint", false),
    ] {
        check(&[
            (&hint(name, !lax), &hint(name, lax), "hint_laxer"),
            (&hint(name, lax), &hint(name, !lax), "hint_stricter"),
            ("", &hint(name, lax), "hint_laxer"),
            (&hint(name, lax), "", "hint_stricter"),
        ]);
    }
}

#[test]
fn text_is_whatever_is_read() {
    check(&[
        (r#""description":"a""#, r#""description":"b""#, "text"),
        ("", r#""title":"t""#, "text"),
        (r#""annotations":{"title":"a"}"#, r#""annotations":{"title":"b"}"#, "text"),
        ("", r#""icons":[]"#, "text"),
        ("", r#""execution":{"taskSupport":"required"}"#, "text"),
        (r#""future":1"#, r#""future":2"#, "text"),
        (r#""annotations":{}"#, r#""annotations":7"#, "text"),
    ]);
    check_schemas(&[
        (
            r#"{"properties":{"a":{"description":"x"}}}"#,
            r#"{"properties":{"a":{"description":"y"}}}"#,
            "text",
        ),
        (r#"{"x-mcp-header":"A"}"#, r#"{"x-mcp-header":"B"}"#, "text"),
    ]);
}

#[test]
fn schemas_are_graded_by_what_fits_them() {
    check_schemas(&[
        (r#"{"maximum":5}"#, r#"{"maximum":4}"#, "narrowed"),
        (r#"{"maximum":5}"#, r#"{"maximum":6}"#, "widened"),
        (r#"{"minLength":5}"#, r#"{"minLength":6}"#, "narrowed"),
        (r#"{"minLength":5}"#, r#"{"minLength":4}"#, "widened"),
        ("{}", r#"{"maxItems":4}"#, "narrowed"),
        (r#"{"exclusiveMaximum":true}"#, r#"{"exclusiveMaximum":false}"#, "widened"),
        (r#"{"pattern":"a"}"#, r#"{"pattern":"b"}"#, "narrowed widened"),
        (r#"{"format":"uri"}"#, "{}", "widened"),
        (r#"{"type":"string"}"#, r#"{"type":["string","null"]}"#, "widened"),
        (r#"{"type":"integer"}"#, r#"{"type":"number"}"#, "widened"),
        (r#"{"type":"string"}"#, r#"{"type":"object"}"#, "narrowed widened"),
        (r#"{"type":"string"}"#, "{}", "widened"),
        (r#"{"enum":["a"]}"#, r#"{"enum":["a","b"]}"#, "widened"),
        (r#"{"enum":["a","b"]}"#, r#"{"enum":["a"]}"#, "narrowed"),
        (r#"{"enum":["a"]}"#, r#"{"enum":["b"]}"#, "narrowed widened"),
        (r#"{"const":1}"#, r#"{"const":2}"#, "narrowed widened"),
        (r#"{"properties":{}}"#, r#"{"properties":{"bcc":{}}}"#, "widened"),
        (r#"{"properties":{"bcc":{}}}"#, "{}", "narrowed"),
        (r#"{"properties":{"a":true}}"#, r#"{"properties":{"a":false}}"#, "narrowed"),
        (r#"{"additionalProperties":false}"#, "{}", "widened"),
        ("{}", r#"{"additionalProperties":{"type":"string"}}"#, "narrowed"),
        (r#"{"anyOf":[{"type":"string"}]}"#, r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, "widened"),
        (r#"{"allOf":[{}]}"#, r#"{"allOf":[{},{"type":"null"}]}"#, "narrowed"),
        (r#"{"items":{"type":"string"}}"#, r#"{"items":{}}"#, "widened"),
        (r#"{"items":[{"type":"string"}]}"#, r#"{"items":{}}"#, "narrowed widened"),
        (r##"{"$ref":"#/a"}"##, r##"{"$ref":"#/b"}"##, "narrowed widened"),
        (r#"{"not":{"type":"string"}}"#, r#"{"not":{}}"#, "narrowed widened"),
        (r#"{"$defs":{"a":{"maximum":1}}}"#, r#"{"$defs":{"a":{"maximum":2}}}"#, "widened"),
        ("true", "false", "narrowed"),
        ("true", "{}", "text"),
        (r#""schema""#, "{}", "narrowed widened"),
    ]);
    check(&[
        (r#""outputSchema":{"required":[]}"#, r#""outputSchema":{"required":["a"]}"#, "narrowed"),
        (r#""outputSchema":{"type":"object"}"#, "", "widened"),
    ]);
}

#[test]
fn what_becomes_required_is_told() {
    check_schemas(&[
        ("{}", r#"{"required":["a"]}"#, "new_required"),
        (r#"{"required":["a"]}"#, r#"{"required":["b"]}"#, "widened new_required"),
        (r#"{"required":["a","b"]}"#, r#"{"required":["a"]}"#, "widened"),
        (
            r#"{"properties":{"a":{"required":false}}}"#,
            r#"{"properties":{"a":{"required":true}}}"#,
            "new_required",
        ),
        (r#"{"properties":{"a":{"required":true}}}"#, r#"{"properties":{"a":{}}}"#, "widened"),
        (
            r#"{"properties":{"a":{"properties":{"b":{}}}}}"#,
            r#"{"properties":{"a":{"properties":{"b":{}},"required":["b"]}}}"#,
            "new_required",
        ),
        (r#"{"required":[1]}"#, r#"{"required":["a"]}"#, "narrowed widened"),
    ]);
}

// R3.46
#[test]
fn text_that_people_do_not_see_is_told() {
    check(&[
        (r#""description":"a""#, "\"description\":\"a\u{E0041}\"", "text hidden_text"),
        ("\"description\":\"a\u{FE0F} b\"", "\"description\":\"a\u{FE0F} c\"", "text"),
        ("\"description\":\"a\u{FE0F}\"", "\"description\":\"\u{FE0F}\u{FE0F}\"", "text hidden_text"),
        ("\"description\":\"a\u{200B}\"", r#""description":"a""#, "text"),
        ("", "\"_meta\":{\"a\u{200B}\":1}", "meta_only hidden_text"),
        ("", "\"future\":[[\"\u{200B}\"]]", "text hidden_text"),
        (r#""description":"a""#, r#""description":"a\\u{41}\\u{zz}""#, "text"),
        ("", r#""description":"\r.""#, "text hidden_text"),
    ]);
    check_schemas(&[
        (r#"{"enum":["a"]}"#, "{\"enum\":[\"a\",\"b\u{200B}\"]}", "widened hidden_text"),
        (r#"{"properties":{}}"#, "{\"properties\":{\"a\u{200B}\":{}}}", "widened hidden_text"),
    ]);
    assert_eq!(codes(&grade(None, Some(&of("\"description\":\"\u{200B}\"")))), "new hidden_text");
}

#[test]
fn what_comes_and_goes_is_new_or_gone() {
    assert_eq!(codes(&grade(None, Some("{}"))), "new");
    assert_eq!(codes(&grade(Some("{}"), None)), "gone");
    assert!(grade(Some("{}"), Some("{}")).is_empty());
    assert!(grade(None, None).is_empty());
}

#[test]
fn a_new_function_with_the_schema_of_one_that_is_gone_may_be_a_renamed_one() {
    let tool = ToolId::parse("mail").unwrap();
    let id = |name: &str| FunctionId::new(&tool, name);
    let (send, other, read, v2, odd) = (id("send"), id("archive"), id("read"), id("send_v2"), id("odd"));
    let object = of(r#""description":"a","inputSchema":{"type":"object"}"#);
    let string = of(r#""inputSchema":{"type":"string"}"#);
    let new = [(&v2, object.as_str()), (&odd, "{}")];
    let gone = [(&other, object.as_str()), (&send, object.as_str()), (&read, string.as_str())];
    let graded = grade_new(&new, &gone);
    assert_eq!(graded[&v2], BTreeSet::from([Grade::Renamed { from: "mail.send".into() }]));
    assert_eq!(codes(&graded[&odd]), "new");
    let elsewhere = FunctionId::new(&ToolId::parse("post").unwrap(), "send");
    let graded = grade_new(&new, &[(&elsewhere, object.as_str())]);
    assert_eq!(codes(&graded[&v2]), "new");
}

#[test]
fn the_grade_of_most_concern_sorts_a_change() {
    let grades = BTreeSet::from([Grade::Text, Grade::HiddenText, Grade::Notation]);
    assert_eq!(worst(&grades), Some(&Grade::HiddenText));
    assert_eq!(worst(&BTreeSet::new()), None);
}

#[test]
fn differences_are_told_member_by_member() {
    let before =
        of(r#""description":"a","inputSchema":{"properties":{"a/b":{"type":"string"}},"required":["x"]}"#);
    let after = of(
        r#""inputSchema":{"properties":{"a/b":{"type":["string"]},"c":{}},"required":["x","y"]},"title":"t""#,
    );
    let told: Vec<_> =
        differences(&before, &after).into_iter().map(|d| (d.pointer, d.before, d.after, d.is_text)).collect();
    let text = |t: &str| Some(t.to_owned());
    let expected = [
        ("/description".to_owned(), text("a"), None, true),
        ("/inputSchema/properties/a~1b/type".to_owned(), text(r#""string""#), text(r#"["string"]"#), false),
        ("/inputSchema/properties/c".to_owned(), None, text("{}"), false),
        ("/inputSchema/required".to_owned(), text(r#"["x"]"#), text(r#"["x","y"]"#), false),
        ("/title".to_owned(), None, text("t"), true),
    ];
    assert_eq!(told, expected);
    let items = differences(r#"{"a":[{"b":1},{"b":2}]}"#, r#"{"a":[{"b":1},{"b":3},[]]}"#);
    assert_eq!(items.iter().map(|d| d.pointer.as_str()).collect::<Vec<_>>(), ["/a/1/b", "/a/2"]);
    assert!(differences("{}", "{}").is_empty());
}

#[test]
fn many_differences_are_told_as_fewer_larger_ones() {
    let many = |value: u32| {
        let members: Vec<String> = (0..=MAX_DIFFERENCES).map(|i| format!("\"m{i}\":{value}")).collect();
        members.join(",")
    };
    let inner = |value| of(&format!("\"x\":{{{}}},\"y\":{value}", many(value)));
    let told = differences(&inner(1), &inner(2));
    assert_eq!(told.iter().map(|d| d.pointer.as_str()).collect::<Vec<_>>(), ["/x", "/y"]);
    let told = differences(&of(&many(1)), &of(&many(2)));
    assert_eq!(told.iter().map(|d| d.pointer.as_str()).collect::<Vec<_>>(), [""]);
}

#[test]
fn the_published_cases_are_hinted_at() {
    let file: Value = serde_json::from_str(include_str!("../../tests/cases/C03-volatile-text.json")).unwrap();
    for sequence in file["sequences"].as_array().unwrap().iter().filter(|s| s["listings"].is_array()) {
        let listings: Vec<String> =
            sequence["listings"].as_array().unwrap().iter().map(|l| canonical(&l.to_string())).collect();
        let expected = if sequence["id"] == "volatile-meta" { "meta_only" } else { "text" };
        for seen in listings.iter().filter(|seen| **seen != listings[0]) {
            assert!(differs_in_digits_only(&listings[0], seen));
            assert_eq!(codes(&grade(Some(&listings[0]), Some(seen))), expected);
        }
    }
    let file: Value = serde_json::from_str(include_str!("../../tests/cases/C02-array-order.json")).unwrap();
    for pair in file["pairs"].as_array().unwrap() {
        let form = |side: &str| canonical(pair[side].as_str().unwrap());
        let grades = grade(Some(&form("a")), Some(&form("b")));
        assert!(!grades.is_empty(), "{pair}");
        let is_notation = pair["id"] == "required-in-another-order";
        assert_eq!(is_notation_only(&grades), is_notation, "{pair}");
    }
}

/// A listing without what may be spelled in several ways.
fn meaning(canonical: &str) -> Value {
    let mut entry: Value = serde_json::from_str(canonical).unwrap();
    let known = ["title", "description", "outputSchema", "annotations", "icons", "execution", "_meta"];
    entry.as_object_mut().unwrap().retain(|name, value| {
        let says_nothing = name == "annotations" && value.as_object().is_some_and(serde_json::Map::is_empty);
        !(known.contains(&name.as_str()) && (value.is_null() || says_nothing))
    });
    for schema in ["inputSchema", "outputSchema"] {
        if let Some(required) = entry.get_mut(schema).and_then(|s| s.get_mut("required")?.as_array_mut()) {
            required.sort_by_key(Value::to_string);
        }
    }
    entry
}

/// Small listings that differ in all kinds of ways.
fn listing() -> impl Strategy<Value = String> {
    let value = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "1",
        "\"a\"",
        "[]",
        "{}",
        "[\"a\",\"b\"]",
        "[\"b\",\"a\"]",
    ]);
    let keyword = prop::sample::select(vec![
        "type",
        "required",
        "enum",
        "properties",
        "items",
        "maximum",
        "minimum",
        "anyOf",
        "$ref",
        "default",
        "not",
    ]);
    let inner = prop::collection::btree_map(keyword, value.clone(), 0..4)
        .prop_map(|m| m.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect::<Vec<_>>().join(","));
    let name = prop::sample::select(vec![
        "description",
        "title",
        "annotations",
        "_meta",
        "icons",
        "execution",
        "x",
        "outputSchema",
    ]);
    let members = prop::collection::btree_map(name, value, 0..4)
        .prop_map(|m| m.iter().map(|(k, v)| format!(",\"{k}\":{v}")).collect::<Vec<_>>().concat());
    (inner, members).prop_map(|(inner, members)| of(&format!("\"inputSchema\":{{{inner}}}{members}")))
}

proptest! {
    #[test]
    fn a_change_has_a_grade_and_a_place_exactly_if_there_is_one(a in listing(), b in listing()) {
        let grades = grade(Some(&a), Some(&b));
        prop_assert_eq!(grades.is_empty(), a == b);
        prop_assert_eq!(differences(&a, &b).is_empty(), a == b);
    }

    #[test]
    fn notation_alone_never_covers_a_change_of_meaning(
        (a, b) in (listing(), listing(), any::<bool>()).prop_map(|(a, b, near)| {
            let turned = a.replace("\"required\":[\"a\",\"b\"]", "\"required\":[\"b\",\"a\"]");
            if near { (a, turned) } else { (a, b) }
        })
    ) {
        if is_notation_only(&grade(Some(&a), Some(&b))) {
            prop_assert_eq!(meaning(&a), meaning(&b));
        }
    }
}
