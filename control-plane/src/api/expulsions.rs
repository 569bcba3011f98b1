//! Nodes that are taken out of the fleet, and the one of several copies that goes on.

use axum::extract::{Path, State};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::Caller;
use super::answer::Answer;
use super::input::{self, Body};
use crate::operation::expel;
use crate::operation::keep_session::keep_session;
use crate::operation::remove_node::remove_node;
use crate::store::NodeRecord;

/// Why a node is evicted or banned.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    #[serde(default)]
    reason: String,
}

/// Which copy goes on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    session: u64,
}

/// `POST /nodes/{node}/evict`.
pub(super) async fn evict(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(node): Path<String>,
    Body(why): Body<Why>,
) -> Answer {
    let node = expel::evict(&state.store, &caller.by, input::plain(&node)?, &why.reason).await?;
    Ok(Json(stands(&node)))
}

/// `POST /nodes/{node}/ban`.
pub(super) async fn ban(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(node): Path<String>,
    Body(why): Body<Why>,
) -> Answer {
    let node = expel::ban(&state.store, &caller.by, input::plain(&node)?, &why.reason).await?;
    Ok(Json(stands(&node)))
}

/// `POST /nodes/{node}/keep`.
pub(super) async fn keep(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(node): Path<String>,
    Body(which): Body<Which>,
) -> Answer {
    let node = keep_session(&state.store, &caller.by, input::plain(&node)?, which.session).await?;
    Ok(Json(stands(&node)))
}

/// `DELETE /nodes/{node}`.
pub(super) async fn remove(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(node): Path<String>,
) -> Answer {
    let node = remove_node(&state.store, &caller.by, input::plain(&node)?).await?;
    Ok(Json(json!({ "id": node.id.as_str(), "name": node.name.as_str() })))
}

fn stands(node: &NodeRecord) -> Value {
    json!({
        "id": node.id.as_str(),
        "name": node.name.as_str(),
        "edge": node.edge.as_str(),
        "standing": node.standing.standing.as_str(),
        "reason": node.standing.reason,
        "by": node.standing.by,
        "at": node.standing.at.map(|at| at.to_string()),
    })
}
