//! Writes answers: pages of lists, and names of nodes without drowning anyone.

use std::collections::BTreeSet;

use axum::Json;
use serde_json::{Value, json};

use super::problem::Problem;

/// What every handler answers.
pub(super) type Answer = Result<Json<Value>, Problem>;

/// Names of nodes that stand in an answer; how many there are stands beside them.
pub(super) const NODES_MAX: usize = 100;

/// A page of a list: `next` is the cursor of the next page, null on the last.
pub(super) fn page(items: Vec<Value>, limit: u64, cursor: impl FnOnce(&Value) -> Value) -> Json<Value> {
    let is_full = items.len() as u64 >= limit;
    let next = if is_full { items.last().map(cursor) } else { None };
    Json(json!({ "items": items, "next": next }))
}

/// Adds `nodes` (the first names) and `nodes_total` to an object.
pub(super) fn with_nodes(mut object: Value, nodes: &BTreeSet<String>) -> Value {
    if let Value::Object(members) = &mut object {
        members.insert("nodes".to_owned(), nodes.iter().take(NODES_MAX).cloned().collect());
        members.insert("nodes_total".to_owned(), nodes.len().into());
    }
    object
}
