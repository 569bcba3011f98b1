//! What only nodes hold since the database was restored: listed, adopted again, dropped.

use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::{Caller, deny};
use super::answer::Answer;
use super::input::Body;
use super::problem::Problem;
use crate::auth::Scope;
use crate::operation::Code;
use crate::operation::decide_orphans::{Decision, decide_orphans, open_orphans};
use crate::store::Orphan;

/// Most that one request names: as many as wait at most.
const IDS_MAX: usize = 100_000;

/// Which, and whether a person looked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chosen {
    ids: Vec<String>,
    attended: bool,
}

/// `GET /orphans`.
pub(super) async fn list(State(state): State<AppState>) -> Answer {
    let items: Vec<Value> = open_orphans(&state.store).await?.iter().map(describe).collect();
    Ok(Json(json!({ "items": items, "next": null })))
}

/// `POST /orphans/adopt`.
pub(super) async fn adopt(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(chosen): Body<Chosen>,
) -> Answer {
    decide(&state, &caller, chosen, true).await
}

/// `POST /orphans/drop`.
pub(super) async fn drop(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(chosen): Body<Chosen>,
) -> Answer {
    decide(&state, &caller, chosen, false).await
}

async fn decide(state: &AppState, caller: &Caller, chosen: Chosen, adopt: bool) -> Answer {
    if chosen.ids.is_empty() || chosen.ids.len() > IDS_MAX {
        let detail = format!("{} ids are named, expected 1 to {IDS_MAX}", chosen.ids.len());
        return Err(Problem::of(Code::Invalid, detail));
    }
    if adopt && !chosen.attended && !caller.principal.has(Scope::ApproveUnattended) {
        let missing = format!(
            "adopting without a person at a terminal needs a token with the scope {}",
            Scope::ApproveUnattended.as_str()
        );
        deny(state, caller, "approve changes unattended", &missing).await?;
        return Err(Problem::of(Code::Denied, missing));
    }
    let decision = Decision { ids: chosen.ids.into_iter().collect(), adopt, attended: chosen.attended };
    let decided = decide_orphans(&state.store, &caller.by, &decision).await?;
    let key = if adopt { "adopted" } else { "dropped" };
    Ok(Json(json!({ key: decided.iter().map(describe).collect::<Vec<_>>() })))
}

fn describe(orphan: &Orphan) -> Value {
    let kind = match (&orphan.tool, &orphan.function) {
        (None, _) => "version",
        (Some(_), None) => "origin",
        (Some(_), Some(_)) => "function",
    };
    json!({
        "id": orphan.id(),
        "kind": kind,
        "edge": orphan.edge.as_str(),
        "plugin": orphan.version.plugin.as_str(),
        "version": orphan.version.version.to_string(),
        "tool": orphan.tool.as_ref().map(domain::id::ToolId::as_str),
        "function": orphan.function.as_deref(),
        "held": (!orphan.held.is_empty()).then_some(&orphan.held),
        "node": orphan.node.as_str(),
        "found_at": orphan.found_at.to_string(),
    })
}
