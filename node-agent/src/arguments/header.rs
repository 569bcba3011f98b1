//! Arguments that HTTP clients mirror into headers (MCP 2026-07-28, transports, `x-mcp-header`).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde_json::Value;
use serde_json::value::RawValue;
use tools::HeaderParam;
use tools::envelope;

/// Which arguments a schema annotates; the schema has been judged by [`domain::listing::header_fault`].
pub(super) fn params(schema: &Value) -> Vec<HeaderParam> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

fn collect(schema: &Value, path: &mut Vec<Box<str>>, found: &mut Vec<HeaderParam>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        path.push(name.as_str().into());
        if let Some(header) = property.get("x-mcp-header").and_then(Value::as_str) {
            found.push(HeaderParam { name: header.into(), path: path.clone() });
        }
        collect(property, path, found);
        path.pop();
    }
}

/// What is wrong between the headers of a call and its arguments, as a sentence without its stop.
pub(crate) fn header_mismatch(
    params: &[HeaderParam],
    headers: &HeaderMap,
    arguments: Option<&RawValue>,
) -> Option<String> {
    params.iter().find_map(|param| {
        let name = format!("Mcp-Param-{}", param.name);
        let value = param.path.iter().try_fold(arguments?, |value, name| envelope::members(value)?.get(name));
        let value = value.filter(|value| value.get() != "null");
        match (value, headers.get(&name)) {
            (None, None) => None,
            (None, Some(_)) => Some(format!("header {name} is there, but the argument is not")),
            (Some(_), None) => Some(format!("header {name} is missing")),
            (Some(value), Some(header)) => {
                let Some(header) = header.to_str().ok().and_then(decode_header) else {
                    return Some(format!("header {name} has characters that it may not have"));
                };
                (!is_same(value, &header)).then(|| format!("header {name} differs from the argument"))
            }
        }
    })
}

/// Whole numbers are compared as numbers: `42.0` is `42`.
fn is_same(value: &RawValue, header: &str) -> bool {
    if let Some(text) = envelope::text(value) {
        return text == header;
    }
    if value.get() == header {
        return true;
    }
    match (value.get().parse::<f64>(), header.parse::<f64>()) {
        #[expect(clippy::float_cmp, reason = "the protocol asks whether they are the same number")]
        (Ok(value), Ok(header)) => value == header,
        _ => false,
    }
}

/// A header's value as it was before it was written as `=?base64?…?=`; `None` if that is broken.
pub(crate) fn decode_header(value: &str) -> Option<Cow<'_, str>> {
    let Some(encoded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(Cow::Borrowed(value));
    };
    let bytes = STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
