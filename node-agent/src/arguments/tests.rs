use domain::listing::RealText;
use serde_json::value::RawValue;

use super::*;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn schema(input: &str) -> Schema {
    Schema::compile(&format!(r#"{{"inputSchema":{input}}}"#))
}

fn check(input: &str, arguments: &str) -> Result<(), Fault> {
    schema(input).check(Some(&raw(arguments)))
}

const PERSON: &str = r#"{"type":"object","required":["name"],"additionalProperties":false,
    "properties":{"name":{"type":"string","minLength":2},"age":{"type":"integer","minimum":0},"kind":{"enum":["a","b"]},
    "tags":{"type":"array","items":{"type":"string"}}}}"#;

#[test]
fn the_field_and_what_was_expected_are_named() {
    let rows = [
        ("{}", "", "property \"name\" is required"),
        (r#"{"name":7}"#, "/name", "`string` is expected, not 7"),
        (r#"{"name":"x"}"#, "/name", "at least 2 characters are expected, not \"x\""),
        (r#"{"name":"xy","age":-1}"#, "/age", "at least 0 is expected, not -1"),
        (r#"{"name":"xy","age":1.5}"#, "/age", "`integer` is expected, not 1.5"),
        (r#"{"name":"xy","kind":"c"}"#, "/kind", "one of \"a\", \"b\" is expected, not \"c\""),
        (r#"{"name":"xy","tags":["t",{}]}"#, "/tags/1", "`string` is expected, not an object"),
        (r#"{"name":"xy","nick":1}"#, "", "no such property is declared: \"nick\""),
        ("[1]", "", "an object is expected"),
        (r#""text""#, "", "an object is expected"),
    ];
    for (arguments, place, expected) in rows {
        let fault = check(PERSON, arguments).unwrap_err();
        assert_eq!((&*fault.place, &*fault.expected), (place, expected), "{arguments}");
    }
}

#[test]
fn what_fits_is_accepted_absent_and_null_arguments_as_an_empty_object() {
    assert_eq!(check(PERSON, r#"{"name":"Ada","age":36.0,"kind":"a","tags":[]}"#), Ok(()));
    let open = schema(r#"{"type":"object"}"#);
    assert_eq!(open.check(None), Ok(()));
    assert_eq!(open.check(Some(&raw("null"))), Ok(()));
    assert!(schema(PERSON).check(None).is_err());
}

#[test]
fn a_quoted_argument_is_cut() {
    let fault = check(PERSON, &format!(r#"{{"name":"xy","kind":"{}"}}"#, "k".repeat(10_000))).unwrap_err();
    assert!(fault.expected.chars().count() < 200, "{}", fault.expected);
}

// C17
#[test]
fn numbers_that_no_double_holds_do_not_cost_a_call() {
    let number = r#"{"type":"object","properties":{"id":{"type":"number"}}}"#;
    for id in ["18446744073709551616", "1e400", "-1e400", "4.35e-320", "-0", "123456789012345678901234567890"]
    {
        assert_eq!(check(number, &format!(r#"{{"id":{id},"text":"1e400"}}"#)), Ok(()), "{id}");
    }
    let small = r#"{"type":"object","properties":{"id":{"maximum":10}}}"#;
    assert_eq!(check(small, r#"{"id":1e400}"#).unwrap_err().place, "/id");
}

#[test]
fn half_a_surrogate_pair_and_deep_arguments_do_not_cost_a_call() {
    assert_eq!(check(PERSON, r#"{"name":"x\ud83d"}"#), Ok(()));
    let deep = format!(r#"{{"name":"xy","deep":{}{}}}"#, "[".repeat(500), "]".repeat(500));
    assert_eq!(check(r#"{"type":"object"}"#, &deep), Ok(()));
}

#[test]
fn a_broken_schema_accepts_everything() {
    for broken in [
        "null",
        "7",
        r#"{"type":"wrong"}"#,
        r#"{"type":"object","properties":{"a":{"pattern":"("}}}"#,
        r##"{"$ref":"#/$defs/missing"}"##,
        r#"{"$schema":"https://schemas.example/unknown","type":"object","required":7}"#,
    ] {
        assert_eq!(check(broken, r#"{"a":1}"#), Ok(()), "{broken}");
    }
    assert_eq!(Schema::compile("no json").check(Some(&raw("{}"))), Ok(()));
}

#[test]
fn references_within_the_document_are_followed_and_others_accept_anything() {
    let inner = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/word"},"b":{"$ref":"https://schemas.example/x.json"},
        "c":{"$ref":"other.json#/definitions/d"}},"$defs":{"word":{"type":"string"}}}"##;
    assert_eq!(check(inner, r#"{"a":"x","b":1,"c":2}"#), Ok(()));
    assert_eq!(check(inner, r#"{"a":1,"b":1}"#).unwrap_err().place, "/a");
}

#[test]
fn a_reference_in_a_circle_neither_hangs_nor_ends_the_process() {
    let circles = [
        r##"{"type":"object","$ref":"#"}"##,
        r##"{"type":"object","allOf":[{"$ref":"#"}]}"##,
        r##"{"type":"object","anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##,
        r##"{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"not":{"$ref":"#/$defs/a"}}}}"##,
        r##"{"type":"object","$dynamicRef":"#me","$dynamicAnchor":"me"}"##,
        r##"{"type":"object","$ref":"#top","$anchor":"top"}"##,
        r#"{"$id":"https://schemas.example/s","type":"object","$ref":"https://schemas.example/s"}"#,
        r#"{"$id":"https://schemas.example/s","type":"object","allOf":[{"$ref":"s"}]}"#,
        r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","$recursiveRef":"#"}"##,
    ];
    for circle in circles {
        assert_eq!(check(circle, r#"{"x":1}"#), Ok(()), "{circle}");
    }
}

#[test]
fn an_inner_identity_does_not_hide_a_circle() {
    let hidden = r##"{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},
        "$defs":{"a":{"$id":"https://schemas.example/a","allOf":[{"$ref":"#"}]}}}"##;
    assert_eq!(check(hidden, r#"{"x":1}"#), Ok(()));
    let escaped =
        r##"{"type":"object","allOf":[{"$ref":"#/$defs/a%62"}],"$defs":{"ab":{"$ref":"#/%24defs/ab"}}}"##;
    assert_eq!(check(escaped, r#"{"x":1}"#), Ok(()));
}

#[test]
fn the_longest_chains_and_the_deepest_arguments_together_do_not_fill_the_stack() {
    let chain = |length: usize| {
        let defs: Vec<String> = (1..length)
            .map(|n| format!(r##""s{n}":{{"allOf":[{{"$ref":"#/$defs/s{}"}}]}}"##, n + 1))
            .collect();
        format!(
            r##"{{"type":"object","$ref":"#/$defs/s1","$defs":{{{},"s{length}":{{"properties":{{"n":{{"$ref":"#"}}}}}}}}}}"##,
            defs.join(",")
        )
    };
    let deepest = format!("{}7{}", r#"{"n":"#.repeat(64), "}".repeat(64));
    for length in [2, 5, 9, 10, 11, 20_000] {
        let _ = check(&chain(length), &deepest);
    }
}

#[test]
fn a_schema_that_recurs_with_its_arguments_is_followed_all_the_way_down() {
    let tree = r##"{"type":"object","properties":{"next":{"$ref":"#"},"value":{"type":"integer"}}}"##;
    let levels = 60;
    let nest = |leaf: &str| format!("{}{leaf}{}", r#"{"next":"#.repeat(levels), "}".repeat(levels));
    assert_eq!(check(tree, &nest(r#"{"value":1}"#)), Ok(()));
    let fault = check(tree, &nest(r#"{"value":"one"}"#)).unwrap_err();
    assert_eq!(fault.place, format!("{}/value", "/next".repeat(levels)));
}

#[test]
fn a_pattern_that_never_ends_is_no_reason_to_refuse() {
    let slow = r#"{"type":"object","properties":{"a":{"pattern":"^(a|aa)+\\1c$"}}}"#;
    assert_eq!(check(slow, &format!(r#"{{"a":"{}b"}}"#, "a".repeat(200))), Ok(()));
}

#[test]
fn annotated_arguments_are_compared_with_their_headers() {
    let region = schema(
        r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
        "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}"#,
    );
    let judge = |headers: &[(&str, &str)], arguments: &str| {
        let mut map = http::HeaderMap::new();
        for (name, value) in headers {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.insert(name, http::HeaderValue::from_str(value).unwrap());
        }
        header_mismatch(&region.header_params, &map, Some(&raw(arguments)))
    };
    assert_eq!(judge(&[("mcp-param-region", "eu")], r#"{"region":"eu"}"#), None);
    assert_eq!(judge(&[("mcp-param-region", "=?base64?w7Y=?=")], r#"{"region":"ö"}"#), None);
    assert_eq!(judge(&[("mcp-param-n", "42.0")], r#"{"deep":{"n":42}}"#), None);
    assert_eq!(judge(&[], r#"{"region":null}"#), None);
    let missing = judge(&[], r#"{"region":"eu"}"#).unwrap();
    assert_eq!(missing, "header Mcp-Param-Region is missing");
    assert!(judge(&[("mcp-param-region", "us")], r#"{"region":"eu"}"#).unwrap().contains("differs"));
    assert!(judge(&[("mcp-param-region", "us")], "{}").unwrap().contains("is not"));
    assert!(
        judge(&[("mcp-param-region", "=?base64?%?=")], r#"{"region":"eu"}"#).unwrap().contains("characters")
    );
}

#[test]
fn the_real_text_is_put_back_and_nothing_else_changes() {
    let text = |written: &str, real: &str, is_member_name| RealText {
        written: written.into(),
        real: real.into(),
        is_member_name,
    };
    let texts = [text(r"a\u{200B}", "\"a\u{200b}\"", true), text(r"v\u{E000}", r#""v\ue000""#, false)];
    let sent =
        r#"{ "a\\u{200B}" : [1e400, "v\\u{E000}", {"v\\u{E000}":"a\\u{200B}"}], "b":9007199254740993}"#;
    let expected =
        "{\"a\u{200b}\":[1e400,\"v\\ue000\",{\"v\\\\u{E000}\":\"a\\\\u{200B}\"}],\"b\":9007199254740993}";
    assert_eq!(put_back(&raw(sent), &texts), expected);
}
