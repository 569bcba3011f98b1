//! Lists: functions as no server writes them, listed directly and through the node, compared by what they say.
//!
//! A node lists the canonical form of what it took a snapshot of: hidden text written out, numbers as their
//! doubles, members in another order. So values are compared, not bytes.

use anyhow::{Context as _, Result};
use domain::visible::make_visible;
use serde_json::{Map, Number, Value, json};

use super::agent::Agent;
use super::json::Writer;
use super::{CAPABILITIES, Era, PROTOCOL};
use crate::random::Random;

/// Functions of the tool that lists them.
const FUNCTIONS: usize = 200;

/// The functions of a seed, as they are listed.
pub(super) fn functions(seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut writer = Writer { random: &mut random, lines: true };
    (0..FUNCTIONS).map(|number| function(&mut writer, number)).collect()
}

fn function(writer: &mut Writer<'_>, number: usize) -> String {
    let mut schema = vec![("type", r#""object""#.to_owned())];
    if writer.chance(2) {
        let property = writer.object_with(&[("type", r#""string""#.to_owned())]);
        schema.push(("properties", format!("{{\"a\":{property}}}")));
    }
    let schema = writer.object_with(&schema);
    let mut known = vec![("name", format!("\"f{number}\"")), ("inputSchema", schema)];
    if writer.chance(2) {
        known.push(("description", writer.string()));
    }
    if writer.chance(4) {
        known.push(("title", writer.string()));
    }
    if writer.chance(4) {
        known.push(("annotations", writer.object_with(&[("readOnlyHint", "true".to_owned())])));
    }
    if writer.chance(4) {
        known.push(("_meta", writer.object_with(&[])));
    }
    let text = writer.object_with(&known);
    // No double can hold it: such an entry is left out by design, and tested elsewhere.
    text.replace("1e400", "1e40")
}

/// One page: from the cursor on, as many as its number says.
pub(super) fn page(functions: &[String], cursor: Option<&str>) -> String {
    let from: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or_default();
    let to = (from + 7 + from % 13).min(functions.len());
    let tools = functions.get(from..to).unwrap_or_default().join(",");
    let next = if to < functions.len() { format!(",\"nextCursor\":\"{to}\"") } else { String::new() };
    format!(r#"{{"resultType":"complete","tools":[{tools}]{next}}}"#)
}

/// What is different in the lists of both ways; `prefix` stands before the names of one.
pub(super) async fn difference(direct: &Agent, node: &Agent, prefix: &str) -> Result<Option<String>> {
    let (direct, node) = tokio::try_join!(all(direct), all(node))?;
    let node = node.into_iter().filter_map(|mut tool| {
        let name = tool.get("name")?.as_str()?.strip_prefix(prefix)?.to_owned();
        let tool_ = tool.as_object_mut()?;
        tool_.insert("name".to_owned(), name.into());
        if let Some(Value::Object(meta)) = tool_.get_mut("_meta") {
            meta.retain(|name, _| !name.starts_with("dev.pintle/"));
        }
        Some(tool)
    });
    let mut node: Vec<Value> = node.map(said).collect();
    let mut direct: Vec<Value> = direct.into_iter().map(said).collect();
    for tool in node.iter_mut().chain(&mut direct) {
        // Ours was in it.
        if let Value::Object(tool) = tool
            && tool.get("_meta") == Some(&json!({}))
        {
            tool.remove("_meta");
        }
    }
    // The node's order is its own.
    let key = |tool: &Value| tool.get("name").map(ToString::to_string);
    node.sort_by_key(key);
    direct.sort_by_key(key);
    if direct.len() != node.len() {
        return Ok(Some(format!(
            "{} functions are listed directly, {} through the node",
            direct.len(),
            node.len()
        )));
    }
    let different = direct.iter().zip(&node).find(|(direct, node)| direct != node);
    Ok(different.map(|(direct, node)| {
        format!("a function is listed\n  directly {direct}\n  through the node {node}")
    }))
}

/// All pages.
async fn all(agent: &Agent) -> Result<Vec<Value>> {
    let mut tools = Vec::new();
    let mut params = json!({});
    if agent.era == Era::Modern {
        let capabilities: Value = serde_json::from_str(CAPABILITIES)?;
        params = json!({"_meta": {
            format!("{PROTOCOL}protocolVersion"): agent.version,
            format!("{PROTOCOL}clientCapabilities"): capabilities,
        }});
    }
    loop {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
        let (_, text) = agent.send(agent.headers("tools/list"), body.to_string()).await?;
        let answer: Value = serde_json::from_str(&text).with_context(|| format!("failed to read {text}"))?;
        let result = answer.get("result").with_context(|| format!("failed to list: {text}"))?;
        tools.extend(result.get("tools").and_then(Value::as_array).cloned().unwrap_or_default());
        match result.get("nextCursor") {
            Some(cursor) => {
                let cursor = cursor.clone();
                if let Value::Object(params) = &mut params {
                    params.insert("cursor".to_owned(), cursor);
                }
            }
            None => return Ok(tools),
        }
    }
}

/// What a value says: visible text, numbers as doubles.
fn said(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(make_visible(&text).into_owned()),
        Value::Number(number) => {
            let double = number.as_f64().and_then(Number::from_f64);
            double.map_or(Value::Null, Value::Number)
        }
        Value::Array(items) => items.into_iter().map(said).collect(),
        Value::Object(members) => {
            let members =
                members.into_iter().map(|(name, value)| (make_visible(&name).into_owned(), said(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => other,
    }
}
