//! Assigning versions to edges.

use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain::id::{EdgeName, PluginVersion};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::Caller;
use super::answer::Answer;
use super::input::{self, Body};
use super::problem::Problem;
use crate::operation::assign::{OffTool, UnsetTool, WaitingTool, assign};
use crate::operation::unassign::unassign;

/// Which version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    version: String,
}

/// `PUT /edges/{edge}/assignments/{plugin}`.
pub(super) async fn set(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path((edge, plugin)): Path<(String, String)>,
    Body(wanted): Body<Wanted>,
) -> Answer {
    let (edge, version) = named(&edge, &plugin, &wanted.version)?;
    let assigned = assign(&state.store, &caller.by, &edge, &version).await?;
    Ok(Json(json!({
        "edge": edge.as_str(),
        "plugin": version.plugin.as_str(),
        "version": version.version.to_string(),
        "earlier": assigned.earlier.map(|earlier| earlier.to_string()),
        "changed": assigned.changed,
        "moved": moved(&assigned.waiting),
        "kind_off": off(&assigned.off),
        "connections": unconnected(&assigned.unset),
    })))
}

/// The tools whose connection is of no use yet, each with what to do.
pub(super) fn unconnected(tools: &[UnsetTool]) -> Vec<Value> {
    tools.iter().map(|one| json!({ "tool": one.tool.as_str(), "reason": one.reason })).collect()
}

/// The tools that wait for a person, each with where it was and is.
pub(super) fn moved(waiting: &[WaitingTool]) -> Vec<Value> {
    waiting.iter().map(|one| json!({ "tool": one.tool.as_str(), "from": one.from, "to": one.to })).collect()
}

/// The tools that the edge's nodes do not run.
pub(super) fn off(tools: &[OffTool]) -> Vec<Value> {
    tools.iter().map(|one| json!({ "tool": one.tool.as_str(), "kind": one.kind.as_str() })).collect()
}

/// The edge and the version that a request names.
pub(super) fn named(edge: &str, plugin: &str, version: &str) -> Result<(EdgeName, PluginVersion), Problem> {
    let version = PluginVersion { plugin: input::plugin(plugin)?, version: input::version(version)? };
    Ok((input::edge(edge)?, version))
}

/// `DELETE /edges/{edge}/assignments/{plugin}`.
pub(super) async fn unset(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path((edge, plugin)): Path<(String, String)>,
) -> Answer {
    let (edge, plugin) = (input::edge(&edge)?, input::plugin(&plugin)?);
    unassign(&state.store, &caller.by, &edge, &plugin).await?;
    Ok(Json(json!({ "edge": edge.as_str(), "plugin": plugin.as_str() })))
}
