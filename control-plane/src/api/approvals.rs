//! Approving and rejecting exactly what was shown.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use domain::audit::FunctionDifference;
use domain::digest::ListingHash;
use domain::id::{EdgeName, FunctionId, PluginName, PluginVersion, ToolId};
use domain::visible::make_visible;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::{Caller, deny};
use super::answer::Answer;
use super::facts::listing;
use super::input::{self, Body, parse};
use super::problem::Problem;
use crate::auth::Scope;
use crate::operation::Code;
use crate::operation::approve::{Approval, Decided, OriginMove, approve as approve_changes};
use crate::operation::clear_own::clear_own;
use crate::operation::reject::reject as reject_changes;
use crate::operation::undo_approval::undo_approval;
use crate::store::approvals;
use crate::store::pins::{endpoint_text, parse_endpoint};

/// One function, with the hashes that were shown; null: none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShownFunction {
    version: String,
    tool: String,
    function: String,
    /// The edge whose own listing `approved` is.
    edge: Option<String>,
    approved: Option<String>,
    seen: Option<String>,
}

/// One moved tool, with the origins that were shown.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShownMove {
    version: String,
    tool: String,
    edge: Option<String>,
    #[serde(default)]
    from: Vec<String>,
    to: String,
}

/// What is approved.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApproveBody {
    #[serde(default)]
    functions: Vec<ShownFunction>,
    #[serde(default)]
    origins: Vec<ShownMove>,
    /// The edge that alone is to go by it.
    edge: Option<String>,
    attended: bool,
}

/// What an edge is to go by no longer for itself: `approved` is its own, `seen` the fleet's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClearBody {
    edge: String,
    functions: Vec<ShownFunction>,
    attended: bool,
}

/// Which approval is taken back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoBody {
    approval: u64,
    attended: bool,
}

/// What is rejected.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RejectBody {
    functions: Vec<ShownFunction>,
}

/// `POST /plugins/{plugin}/approve`. What was not as it was shown is in `stale`, and nothing was done
/// for it.
pub(super) async fn approve(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(plugin): Path<String>,
    Body(body): Body<ApproveBody>,
) -> Result<Response, Problem> {
    let plugin = input::plugin(&plugin)?;
    may_be_unattended(&state, &caller, body.attended).await?;
    let approval = Approval {
        functions: body.functions.iter().map(|one| difference(&plugin, one)).collect::<Result<_, _>>()?,
        origins: body.origins.iter().map(|one| moved(&plugin, one)).collect::<Result<_, _>>()?,
        edge: body.edge.as_deref().map(input::edge).transpose()?,
        attended: body.attended,
        plugin,
    };
    let decided = approve_changes(&state.store, &caller.by, &approval).await?;
    Ok(answer("approved", &decided))
}

/// `POST /plugins/{plugin}/reject`.
pub(super) async fn reject(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(plugin): Path<String>,
    Body(body): Body<RejectBody>,
) -> Result<Response, Problem> {
    let plugin = input::plugin(&plugin)?;
    let functions: Vec<FunctionDifference> =
        body.functions.iter().map(|one| difference(&plugin, one)).collect::<Result<_, _>>()?;
    let decided = reject_changes(&state.store, &caller.by, &plugin, &functions).await?;
    Ok(answer("rejected", &decided))
}

/// `POST /plugins/{plugin}/clear`.
pub(super) async fn clear(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(plugin): Path<String>,
    Body(body): Body<ClearBody>,
) -> Result<Response, Problem> {
    let (plugin, edge) = (input::plugin(&plugin)?, input::edge(&body.edge)?);
    may_be_unattended(&state, &caller, body.attended).await?;
    let functions: Vec<FunctionDifference> =
        body.functions.iter().map(|one| difference(&plugin, one)).collect::<Result<_, _>>()?;
    let decided = clear_own(&state.store, &caller.by, &plugin, &edge, (&functions, body.attended)).await?;
    Ok(answer("cleared", &decided))
}

/// `GET /plugins/{plugin}/approval`: the newest one that can be undone; null if there is none.
pub(super) async fn newest(State(state): State<AppState>, Path(plugin): Path<String>) -> Answer {
    let plugin = input::plugin(&plugin)?;
    let mut tx = state.store.read().await?;
    let Some(act) = approvals::latest(&mut tx, &plugin).await? else {
        return Ok(Json(json!({ "plugin": plugin.as_str(), "approval": null })));
    };
    let mut functions = Vec::new();
    for one in &act.replaced {
        let (mut earlier, mut now) = (None, None);
        if let Some(hash) = one.earlier {
            earlier = Some(listing(&mut tx, hash).await?);
        }
        if let Some(hash) = one.now {
            now = Some(listing(&mut tx, hash).await?);
        }
        functions.push(json!({
            "version": one.version.version.to_string(),
            "tool": one.tool.as_str(),
            "function": &*one.function,
            "id": FunctionId::new(&one.tool, &one.function).to_string(),
            "edge": one.edge.as_ref().map(EdgeName::as_str),
            "earlier": earlier,
            "now": now,
        }));
    }
    let approval = json!({
        "id": act.id,
        "approved_at": act.at.to_string(),
        "approved_by": act.by,
        "functions": functions,
    });
    Ok(Json(json!({ "plugin": plugin.as_str(), "approval": approval })))
}

/// `POST /plugins/{plugin}/undo`.
pub(super) async fn undo(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(plugin): Path<String>,
    Body(body): Body<UndoBody>,
) -> Result<Response, Problem> {
    let plugin = input::plugin(&plugin)?;
    may_be_unattended(&state, &caller, body.attended).await?;
    let decided = undo_approval(&state.store, &caller.by, &plugin, body.approval, body.attended).await?;
    Ok(answer("undone", &decided))
}

/// Without a person at a terminal it takes a scope.
async fn may_be_unattended(state: &AppState, caller: &Caller, attended: bool) -> Result<(), Problem> {
    if attended || caller.principal.has(Scope::ApproveUnattended) {
        return Ok(());
    }
    let missing = format!(
        "approving without a person at a terminal needs a token with the scope {}",
        Scope::ApproveUnattended.as_str()
    );
    deny(state, caller, "approve changes unattended", &missing).await?;
    Err(Problem::of(Code::Denied, missing))
}

fn difference(plugin: &PluginName, shown: &ShownFunction) -> Result<FunctionDifference, Problem> {
    let hash =
        |text: &Option<String>| text.as_deref().map(|text| parse(text, ListingHash::parse)).transpose();
    Ok(FunctionDifference {
        version: PluginVersion { plugin: plugin.clone(), version: input::version(&shown.version)? },
        tool: parse(&shown.tool, ToolId::parse)?,
        function: make_visible(&shown.function).into(),
        edge: shown.edge.as_deref().map(input::edge).transpose()?,
        approved: hash(&shown.approved)?,
        seen: hash(&shown.seen)?,
    })
}

fn moved(plugin: &PluginName, shown: &ShownMove) -> Result<OriginMove, Problem> {
    Ok(OriginMove {
        version: PluginVersion { plugin: plugin.clone(), version: input::version(&shown.version)? },
        tool: parse(&shown.tool, ToolId::parse)?,
        edge: shown.edge.as_deref().map(input::edge).transpose()?,
        from: shown.from.iter().map(|text| parse(text, parse_endpoint)).collect::<Result<_, _>>()?,
        to: parse(&shown.to, parse_endpoint)?,
    })
}

fn answer(done: &str, decided: &Decided) -> Response {
    let functions: Vec<Value> = decided
        .functions
        .iter()
        .map(|one| {
            json!({
                "version": one.version.version.to_string(),
                "tool": one.tool.as_str(),
                "function": &*one.function,
                "edge": one.edge.as_ref().map(EdgeName::as_str),
                "approved": one.approved.map(|hash| hash.to_string()),
                "seen": one.seen.map(|hash| hash.to_string()),
            })
        })
        .collect();
    let origins: Vec<Value> = decided
        .origins
        .iter()
        .map(|one| {
            json!({
                "version": one.version.version.to_string(),
                "tool": one.tool.as_str(),
                "edge": one.edge.as_ref().map(|edge| edge.as_str().to_owned()),
                "from": one.from.iter().map(endpoint_text).collect::<Vec<_>>(),
                "to": endpoint_text(&one.to),
            })
        })
        .collect();
    let stale: Vec<Value> = decided
        .stale
        .iter()
        .map(|one| {
            json!({
                "code": Code::ApprovalStale.as_str(),
                "version": one.version.version.to_string(),
                "tool": one.tool.as_str(),
                "function": one.function.as_deref(),
                "approved": one.approved.map(|hash| hash.to_string()),
                "reason": one.reason,
            })
        })
        .collect();
    let edges: Vec<Value> = decided
        .edges
        .iter()
        .map(|(edge, generation)| json!({ "edge": edge.as_str(), "trust_generation": generation }))
        .collect();
    let own: Vec<Value> = decided
        .own
        .iter()
        .map(|own| {
            json!({
                "edge": own.edge.as_str(),
                "version": own.version.version.to_string(),
                "tool": own.tool.as_str(),
                "function": &*own.function,
                "hash": own.hash.map(|hash| hash.to_string()),
            })
        })
        .collect();
    let body = json!({ done: functions, "origins": origins, "stale": stale, "own": own, "edges": edges });
    (StatusCode::OK, Json(body)).into_response()
}
