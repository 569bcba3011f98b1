//! Versions that some nodes of an edge try.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain::id::NodeName;
use serde::Deserialize;
use serde_json::json;

use super::AppState;
use super::access::Caller;
use super::answer::Answer;
use super::assignments::{moved, named, off, unconnected};
use super::input::{self, Body};
use crate::operation::assign_candidate::assign_candidate;
use crate::operation::unassign_candidate::unassign_candidate;

/// Which version, on which nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    version: String,
    nodes: Vec<String>,
}

/// `PUT /edges/{edge}/candidates/{plugin}`.
pub(super) async fn set(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path((edge, plugin)): Path<(String, String)>,
    Body(wanted): Body<Wanted>,
) -> Answer {
    let (edge, version) = named(&edge, &plugin, &wanted.version)?;
    let nodes = wanted
        .nodes
        .iter()
        .map(|name| input::parse(name, NodeName::parse))
        .collect::<Result<BTreeSet<_>, _>>()?;
    let tried = assign_candidate(&state.store, &caller.by, &edge, &version, &nodes).await?;
    Ok(Json(json!({
        "edge": edge.as_str(),
        "plugin": version.plugin.as_str(),
        "version": version.version.to_string(),
        "nodes": nodes.iter().map(NodeName::as_str).collect::<Vec<_>>(),
        "source": tried.source,
        "installed": tried.installed.map(|installed| installed.to_string()),
        "changed": tried.changed,
        "moved": moved(&tried.waiting),
        "kind_off": off(&tried.off),
        "connections": unconnected(&tried.unset),
    })))
}

/// `DELETE /edges/{edge}/candidates/{plugin}`.
pub(super) async fn unset(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path((edge, plugin)): Path<(String, String)>,
) -> Answer {
    let (edge, plugin) = (input::edge(&edge)?, input::plugin(&plugin)?);
    unassign_candidate(&state.store, &caller.by, &edge, &plugin).await?;
    Ok(Json(json!({ "edge": edge.as_str(), "plugin": plugin.as_str() })))
}
