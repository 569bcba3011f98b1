//! `x-mcp-header` in an input schema, which HTTP clients must judge (MCP 2026-07-28, transports).

use std::collections::BTreeSet;

use super::json::Json;
use super::reader::read_document;

/// The keyword that asks for an argument in an HTTP header.
const KEYWORD: &str = "x-mcp-header";

/// What is against the protocol about a listing's `x-mcp-header`, as a sentence without its stop.
///
/// For tools that are reached over HTTP: such a function is not shown (code `schema`). The value
/// must be an RFC 9110 token, used once without regard to letter case, on a property of type
/// string, integer or boolean that is reached by `properties` alone.
pub fn header_fault(canonical: &str) -> Option<&'static str> {
    if !canonical.contains(KEYWORD) {
        return None;
    }
    let entry = read_document(canonical).ok()?;
    let schema = entry.get("inputSchema")?;
    let mut used = BTreeSet::new();
    judge_schema(schema, true, false, &mut used).err()
}

/// `reached`: by `properties` alone; `is_property`: this is a property's schema.
fn judge_schema(
    schema: &Json<'_>,
    reached: bool,
    is_property: bool,
    used: &mut BTreeSet<String>,
) -> Result<(), &'static str> {
    let Some(members) = schema.members() else {
        let inner = schema.items().unwrap_or_default();
        return inner.iter().try_for_each(|item| judge_schema(item, false, false, used));
    };
    for (name, value) in members {
        match &**name {
            KEYWORD if !reached || !is_property => {
                return Err("x-mcp-header stands where only a chain of properties may lead");
            }
            KEYWORD => judge_header(schema, value, used)?,
            "properties" => {
                for (_, property) in value.members().unwrap_or_default() {
                    judge_schema(property, reached, true, used)?;
                }
            }
            // Data, in which the keyword means nothing.
            "default" | "const" | "enum" | "examples" => {}
            _ => judge_schema(value, false, false, used)?,
        }
    }
    Ok(())
}

fn judge_header(
    schema: &Json<'_>,
    value: &Json<'_>,
    used: &mut BTreeSet<String>,
) -> Result<(), &'static str> {
    let Some(header) = value.text().filter(|text| is_token(text)) else {
        return Err("x-mcp-header is no HTTP token");
    };
    if !matches!(schema.get("type").and_then(Json::text), Some("string" | "integer" | "boolean")) {
        return Err("x-mcp-header stands on a property that is no string, integer or boolean");
    }
    if used.insert(header.to_ascii_lowercase()) { Ok(()) } else { Err("x-mcp-header names one header twice") }
}

/// RFC 9110, 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
