use super::*;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

#[test]
fn what_is_no_message_is_told_apart() {
    for (line, wanted) in [
        ("[\"ready\"]", "not an object"),
        ("42", "not an object"),
        (r#"{"level":"info","msg":"ready"}"#, "`jsonrpc`"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "no method, result or error"),
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":2}"#, "both"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, "neither a string nor a number"),
        (r#"{"jsonrpc":"2.0","id":1,"result":NaN}"#, "not JSON at byte 33"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"result":1}"#, "duplicate field"),
        (r#"{"jsonrpc":"2.0","id":1,"result":1}{"#, "trailing"),
    ] {
        let error = parse(line.as_bytes()).expect_err(line).to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
    assert_eq!(parse(b"{\"a\":\"\xFC\"}").unwrap_err(), Error::NotUtf8 { at: 6 });
}

#[test]
fn ids_keep_their_type_and_spelling() {
    let id = |line: &str| match parse(line.as_bytes()) {
        Ok(Message::Request { id, .. }) => id,
        other => panic!("{other:?}"),
    };
    let number = id(r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"x"}"#);
    let text = id(r#"{"jsonrpc":"2.0","id":"9007199254740993","method":"x"}"#);
    assert_eq!((number.as_json(), text.as_json()), ("9007199254740993", "\"9007199254740993\""));
    assert_ne!(number, text);
    assert_eq!((number.as_u64(), text.as_u64()), (Some(9_007_199_254_740_993), None));
}

#[test]
fn a_message_nested_four_thousand_deep_is_taken_apart() {
    let nest = "[".repeat(4000) + &"]".repeat(4000);
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{nest}}}}}"#);
    let Ok(Message::Response { outcome: Ok(result), .. }) = parse(line.as_bytes()) else { panic!() };
    assert_eq!(depth(result.get()), 4001);
    assert_eq!(members(result).unwrap().get("structuredContent").unwrap().get(), nest);
}

#[test]
fn brackets_in_strings_nest_nothing() {
    for (json, expected) in [
        ("7", 0),
        (r#""[[[""#, 0),
        (r#"{"a":"[[[\"[[","b":[1,{"\\":"}"}]}"#, 3),
        (r#"[["\\"],"\\\"[",{"[":[]}]"#, 3),
        (r#"["\u005b","é[",""]"#, 1),
        // No JSON, and no reason to stop at.
        (r#"[["cut\"#, 2),
        ("]][", 1),
    ] {
        assert_eq!(depth(json), expected, "{json}");
    }
}

#[test]
fn an_explicit_null_is_a_result() {
    let line = "\u{FEFF}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\r";
    assert!(
        matches!(parse(line.as_bytes()), Ok(Message::Response { outcome: Ok(r), .. }) if r.get() == "null")
    );
}

#[test]
fn members_are_set_without_touching_the_others_bytes() {
    let params = r#"{ "n" : 1e400, "_meta":{"a":1.0,"progressToken":"x"}, "\u006e2":[ 1 , 2 ] }"#;
    assert_eq!(
        with_meta(params, &[("progressToken", Some("7")), ("b", Some("{}")), ("zz", None)]),
        r#"{"n":1e400,"_meta":{"a":1.0,"progressToken":7,"b":{}},"\u006e2":[ 1 , 2 ]}"#
    );
    assert_eq!(
        with_meta(params, &[("a", None)]),
        r#"{"n":1e400,"_meta":{"progressToken":"x"},"\u006e2":[ 1 , 2 ]}"#
    );
    assert_eq!(with_meta("{}", &[("a", None)]), "{}");
    assert_eq!(with_meta("{}", &[("a", Some("1"))]), r#"{"_meta":{"a":1}}"#);
    assert_eq!(without_member(r#"{"a":1,"b":2,"a":3}"#, "a"), r#"{"b":2}"#);
    assert_eq!(with_member(r#"{"a":1,"b":2,"a":3}"#, "a", "4"), r#"{"a":4,"b":2}"#);
    assert_eq!(members(&raw(params)).unwrap().get("n2").unwrap().get(), "[ 1 , 2 ]");
}

/// Case C15.
#[test]
fn half_a_surrogate_pair_becomes_a_replacement_character() {
    for (json, wanted) in [
        (r#""page says \ud83d and \ud83d\udd11""#, r#""page says \ufffd and \ud83d\udd11""#),
        (r#""\ud83d\u0041""#, r#""\ufffd\u0041""#),
        (r#""\\ud83d""#, r#""\\ud83d""#),
        (r#""\uD83D\uDD11""#, r#""\uD83D\uDD11""#),
        (r#""\udd11\ud83d""#, r#""\ufffd\ufffd""#),
        (r#""\\\ud83d\"""#, r#""\\\ufffd\"""#),
    ] {
        assert_eq!(repair_surrogates(json), wanted, "{json}");
        assert!(serde_json::from_str::<String>(wanted).is_ok());
    }
}

/// Case C18.
#[test]
fn the_id_of_an_unreadable_answer_is_found_wherever_it_stands() {
    for (line, answers) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":{"id":9,"x":NaN}}"#, vec![1]),
        (r#"{"jsonrpc":"2.0","result":{"max":Infinity,"s":"\"id\":3,"},"id":2}"#, vec![2]),
        (r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"text":"and th"#, vec![3]),
        (r#"{"jsonrpc":"2.0","id":1,"result":1}{"jsonrpc":"2.0","id":2,"result":1}"#, vec![1, 2]),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":NaN}"#, vec![]),
        (r#"{"jsonrpc":"2.0","id":"1","result":NaN}"#, vec![]),
    ] {
        for piece in [1, 7, 4096] {
            let mut scan = IdScan::default();
            line.as_bytes().chunks(piece).for_each(|piece| scan.feed(piece));
            assert_eq!(scan.finish(), Scanned { answers: answers.clone(), is_message: true }, "{line}");
        }
    }
    let mut scan = IdScan::default();
    scan.feed(b"{tool} starting: up, id: 1");
    assert!(!scan.finish().is_message);
}
