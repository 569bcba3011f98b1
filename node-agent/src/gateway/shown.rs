//! A tool's words as an agent's person reads them: hidden text made visible, all else byte for byte.
//!
//! What people are shown of a form they send back, so an answer gets the tool's own spelling again.

use std::borrow::Cow;
use std::sync::Arc;

use domain::listing::RealText;
use domain::visible::make_visible;
use tools::envelope::{quoted, repair_surrogates};

/// The JSON text with hidden text in its strings written out, and what was written for what.
pub(super) fn shown(json: &str) -> (Cow<'_, str>, Vec<RealText>) {
    let json = repair_surrogates(json);
    let mut texts = Vec::new();
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some((from, to)) = next_string(&json, at) {
        at = to;
        let token = json.get(from..to).unwrap_or_default();
        if token.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'\\') {
            continue;
        }
        let Ok(text) = serde_json::from_str::<String>(token) else { continue };
        if let Cow::Owned(visible) = make_visible(&text)
            && visible != text
        {
            out.push_str(json.get(copied..from).unwrap_or_default());
            out.push_str(&quoted(&visible));
            copied = to;
            let rest = json.get(to..).unwrap_or_default();
            let is_member_name = rest.trim_ascii_start().starts_with(':');
            texts.push(RealText { written: visible.into(), real: Arc::from(token), is_member_name });
        }
    }
    if copied == 0 {
        return (json, texts);
    }
    out.push_str(json.get(copied..).unwrap_or_default());
    (Cow::Owned(out), texts)
}

/// Where the next string of valid JSON begins and ends, its quotes included.
fn next_string(json: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = json.as_bytes();
    let start = from + bytes.get(from..)?.iter().position(|byte| *byte == b'"')?;
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some((start, at + 1)),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;
    use crate::arguments::put_back;

    #[test]
    fn hidden_text_is_written_out_and_everything_else_keeps_its_bytes() {
        let sent = "{ \"message\" : \"Say\u{200b} \\u202eyes\", \"n\":1e400, \"ü\":[\"\\n\", \"a\\\\\\\"b\"], \"big\":18446744073709551616}";
        let (text, texts) = shown(sent);
        let expected = "{ \"message\" : \"Say\\\\u{200B} \\\\u{202E}yes\", \"n\":1e400, \"ü\":[\"\\n\", \"a\\\\\\\"b\"], \"big\":18446744073709551616}";
        assert_eq!(text, expected);
        assert_eq!(texts.len(), 1);
        let plain = r#"{"message":"Grüße\n","x":"\\u200b"}"#;
        assert!(matches!(shown(plain), (Cow::Borrowed(same), texts) if same == plain && texts.is_empty()));
    }

    proptest! {
        #[test]
        fn whatever_is_shown_is_visible_json_and_goes_back_whole(
            name in "[a-c\u{200b}\u{202e}\\\\\"\u{e0041}é]{0,6}",
            text in "[a-c\u{200b}\u{feff}\\\\\"\u{e0041}\n:é]{0,9}",
        ) {
            let sent = json!({name: [&text, {"n": 1, "x": &text}]}).to_string();
            let (out, texts) = shown(&sent);
            let value: serde_json::Value = serde_json::from_str(&out).unwrap();
            prop_assert!(value.to_string().chars().all(|c| domain::visible::is_visible(&c.to_string())));
            let out = RawValue::from_string(out.into_owned()).unwrap();
            prop_assert_eq!(put_back(&out, &texts), sent);
        }
    }

    #[test]
    fn half_a_surrogate_pair_spoils_nothing() {
        assert_eq!(shown(r#"{"a":"\ud83d"}"#).0, r#"{"a":"\ufffd"}"#);
    }

    #[test]
    fn an_answer_gets_the_tools_own_spelling_again() {
        let schema = "{\"properties\":{\"na\u{200b}me\":{\"enum\":[\"x\\u200b\"]}}}";
        let (text, texts) = shown(schema);
        assert!(text.contains(r"na\\u{200B}me"), "{text}");
        let answer = r#"{"action":"accept","content":{"na\\u{200B}me":"x\\u{200B}","n":1e400}}"#;
        let answer = RawValue::from_string(answer.to_owned()).unwrap();
        let expected = "{\"action\":\"accept\",\"content\":{\"na\u{200b}me\":\"x\\u200b\",\"n\":1e400}}";
        assert_eq!(put_back(&answer, &texts), expected);
    }
}
