//! What the nodes of an edge may do.

use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain::plugin_set::{Kind, Policy};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::Caller;
use super::answer::Answer;
use super::input::{self, Body};
use super::problem::Problem;
use crate::operation::Code;
use crate::operation::set_policy::{PolicyChange, set_policy};

/// What is to be set; what is absent stays.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    strict: Option<bool>,
    fresh_for_ms: Option<u64>,
    offline_lease_ms: Option<u64>,
    forbidden_kinds: Option<Vec<String>>,
    tool_memory_bytes: Option<u64>,
    tool_files: Option<u64>,
    tool_processes: Option<u64>,
}

/// `PUT /edges/{edge}/policy`.
pub(super) async fn set(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(edge): Path<String>,
    Body(wanted): Body<Wanted>,
) -> Answer {
    let edge = input::edge(&edge)?;
    let kinds = wanted.forbidden_kinds.map(|words| words.iter().map(|word| kind(word)).collect());
    let change = PolicyChange {
        strict: wanted.strict,
        fresh_for_ms: wanted.fresh_for_ms,
        offline_lease_ms: wanted.offline_lease_ms,
        forbidden_kinds: kinds.transpose()?,
        tool_memory_bytes: wanted.tool_memory_bytes,
        tool_files: wanted.tool_files,
        tool_processes: wanted.tool_processes,
    };
    let (policy, changed) = set_policy(&state.store, &caller.by, &edge, &change).await?;
    Ok(Json(json!({ "edge": edge.as_str(), "changed": changed, "policy": describe(&policy) })))
}

/// A policy as the API tells it.
pub(super) fn describe(policy: &Policy) -> Value {
    let kinds: Vec<&str> = policy.forbidden_kinds.iter().map(|kind| kind.as_str()).collect();
    json!({
        "strict": policy.strict,
        "fresh_for_ms": policy.fresh_for_ms,
        "offline_lease_ms": policy.offline_lease_ms.unwrap_or_default(),
        "forbidden_kinds": kinds,
        "tool_memory_bytes": policy.tool_limits.memory,
        "tool_files": policy.tool_limits.files,
        "tool_processes": policy.tool_limits.processes,
    })
}

fn kind(word: &str) -> Result<Kind, Problem> {
    Kind::parse(word).ok_or_else(|| {
        let shown: String = word.chars().take(100).collect();
        let words: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        Problem::of(Code::Invalid, format!("there is no kind `{shown}`; there are {}", words.join(", ")))
    })
}
