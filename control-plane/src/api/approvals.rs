//! Approving and rejecting exactly what was shown.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use domain::audit::FunctionDifference;
use domain::digest::ListingHash;
use domain::id::{PluginName, PluginVersion, ToolId};
use domain::visible::make_visible;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::{Caller, deny};
use super::input::{self, Body, parse};
use super::problem::Problem;
use crate::auth::Scope;
use crate::operation::Code;
use crate::operation::approve::{Approval, Decided, OriginMove, approve as approve_changes};
use crate::operation::reject::reject as reject_changes;
use crate::store::pins::{endpoint_text, parse_endpoint};

/// One function, with the hashes that were shown; null: none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShownFunction {
    version: String,
    tool: String,
    function: String,
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
    if !body.attended && !caller.principal.has(Scope::ApproveUnattended) {
        let missing = format!(
            "approving without a person at a terminal needs a token with the scope {}",
            Scope::ApproveUnattended.as_str()
        );
        deny(&state, &caller, "approve changes unattended", &missing).await?;
        return Err(Problem::of(Code::Denied, missing));
    }
    let approval = Approval {
        functions: body.functions.iter().map(|one| difference(&plugin, one)).collect::<Result<_, _>>()?,
        origins: body.origins.iter().map(|one| moved(&plugin, one)).collect::<Result<_, _>>()?,
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

fn difference(plugin: &PluginName, shown: &ShownFunction) -> Result<FunctionDifference, Problem> {
    let hash =
        |text: &Option<String>| text.as_deref().map(|text| parse(text, ListingHash::parse)).transpose();
    Ok(FunctionDifference {
        version: PluginVersion { plugin: plugin.clone(), version: input::version(&shown.version)? },
        tool: parse(&shown.tool, ToolId::parse)?,
        function: make_visible(&shown.function).into(),
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
    let body = json!({ done: functions, "origins": origins, "stale": stale, "edges": edges });
    (StatusCode::OK, Json(body)).into_response()
}
