//! The result of one call, read from what a node's MCP endpoint answered.
//!
//! For people: texts are made visible by whoever prints them. Programs get the raw result.

use serde_json::Value;

/// Where a node puts the code of a refusal (20-listings 6).
const REFUSAL: &str = "dev.pintle/refusal";

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Called {
    /// The result as sent.
    pub raw: String,
    /// Its content, one text each; what is no text is named.
    pub texts: Vec<String>,
    /// Whether the result says that it is an error.
    pub is_error: bool,
    /// The refusal's code, if the node did not make the call.
    pub refusal: Option<String>,
}

impl Called {
    /// Reads a `tools/call` result.
    pub(crate) fn read(raw: &str) -> Self {
        let result: Value = serde_json::from_str(raw).unwrap_or(Value::Null);
        let content = result.get("content").and_then(Value::as_array);
        let texts = content.into_iter().flatten().map(text).collect();
        let refusal = result.get("_meta").and_then(|meta| meta.get(REFUSAL)).map(code);
        let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
        Self { raw: raw.to_owned(), texts, is_error, refusal }
    }

    /// All texts in one.
    pub(crate) fn text(&self) -> String {
        self.texts.join("\n")
    }
}

/// A refusal is its code, or an object with it.
fn code(refusal: &Value) -> String {
    let code = refusal.as_str().or_else(|| refusal.get("code").and_then(Value::as_str));
    code.map_or_else(|| refusal.to_string(), str::to_owned)
}

fn text(content: &Value) -> String {
    let member = |name: &str| content.get(name).and_then(Value::as_str);
    match member("type") {
        Some("text") => member("text").unwrap_or_default().to_owned(),
        Some("resource_link") => format!("(link to {})", member("uri").unwrap_or("?")),
        Some(kind) => format!("({kind}, {})", member("mimeType").unwrap_or("of no stated type")),
        None => content.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_from_an_error_of_the_tool() {
        let refused = Called::read(
            r#"{"content":[{"type":"text","text":"ask an approver"}],"isError":true,"_meta":{"dev.pintle/refusal":{"code":"drifted"}}}"#,
        );
        assert_eq!((refused.is_error, refused.refusal.as_deref()), (true, Some("drifted")));
        let failed = Called::read(r#"{"content":[{"type":"text","text":"no such city"}],"isError":true}"#);
        assert_eq!((failed.is_error, failed.refusal), (true, None));
    }

    #[test]
    fn what_is_no_text_is_named() {
        let called = Called::read(r#"{"content":[{"type":"image","mimeType":"image/png","data":"AA=="}]}"#);
        assert_eq!(called.texts, ["(image, image/png)"]);
    }
}
