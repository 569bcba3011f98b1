//! What the demo tool can do, and how it lists that unless the control file says otherwise.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Says hello.
pub(crate) const HELLO: &str = r#"{"name":"hello","title":"Say hello","description":"Says hello to a person.","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"Whom to greet."}},"required":["name"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;

/// Says goodbye.
pub(crate) const GOODBYE: &str = r#"{"name":"goodbye","title":"Say goodbye","description":"Says goodbye to a person.","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"Who leaves."}},"required":["name"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;

/// Tells the date.
pub(crate) const TODAY: &str = r#"{"name":"today","title":"Today's date","description":"Tells today's date in UTC.","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;

/// Carries out one call. What is listed under another name than these says so.
pub(crate) fn call(name: &str, arguments: &Value) -> Value {
    let who = arguments.get("name").and_then(Value::as_str).unwrap_or("world");
    let (text, is_error) = match name {
        "hello" => (format!("Hello, {who}!"), false),
        "goodbye" => (format!("Goodbye, {who}!"), false),
        "today" => (today(), false),
        other => (format!("`{other}` is listed, but this demo has no code for it"), true),
    };
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let date = i64::try_from(seconds).ok().and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
    date.map_or_else(|| "unknown".to_owned(), |date| date.format("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_lists_has_code() {
        for listed in [HELLO, GOODBYE, TODAY] {
            let entry: Value = serde_json::from_str(listed).expect("JSON");
            let name = entry["name"].as_str().expect("a name");
            assert_eq!(call(name, &json!({"name": "Ada"}))["isError"], false, "{name}");
        }
    }

    #[test]
    fn a_listed_name_without_code_is_an_error_result() {
        assert_eq!(call("other", &Value::Null)["isError"], true);
    }
}
