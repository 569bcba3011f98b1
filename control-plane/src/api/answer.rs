//! Writes answers: pages of lists, and names of nodes without drowning anyone.

use std::collections::BTreeSet;

use axum::Json;
use serde_json::{Value, json};

use super::problem::Problem;

/// What every handler answers.
pub(super) type Answer = Result<Json<Value>, Problem>;

/// Names of nodes that stand in an answer; how many there are stands beside them.
pub(super) const NODES_MAX: usize = 100;

/// A page of a list: `next` is the cursor of the next page, which is a member of the last item; null on
/// the last page.
pub(super) fn page(items: impl IntoIterator<Item = Value>, limit: u64, cursor: &str) -> Json<Value> {
    let items: Vec<Value> = items.into_iter().collect();
    let is_full = items.len() as u64 >= limit;
    let last = items.last().and_then(|item| item.get(cursor)).filter(|_| is_full);
    let next = last.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    Json(json!({ "items": items, "next": next }))
}

/// An object with the members of another.
pub(super) fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

/// An object with `nodes` (the first names) and `nodes_total`.
pub(super) fn with_nodes(object: Value, nodes: &BTreeSet<String>) -> Value {
    let names: Vec<&String> = nodes.iter().take(NODES_MAX).collect();
    with(object, json!({ "nodes": names, "nodes_total": nodes.len() }))
}
