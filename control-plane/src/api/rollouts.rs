//! Rollouts: started, looked at, steered.

use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use domain::id::{EdgeName, PluginName, PluginVersion};
use domain::rollout::{EdgeView, Part, Progress, Run, Verb};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::Caller;
use super::answer::{Answer, page, with};
use super::input::{self, Body};
use super::problem::Problem;
use crate::operation::Code;
use crate::operation::rollout::{Looked, list_rollouts, look, start_rollout, steer};
use crate::store::rollouts::text::{plan_value, read_plan};
use crate::store::{NodeRecord, Rollout};

/// Nodes that do not run the version and are named, at most.
const FAILED_MAX: usize = 20;

/// Bytes of a reason.
const REASON_MAX: usize = 500;

/// What is to be rolled out, and how.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    plugin: String,
    version: String,
    plan: Value,
    /// Why a version that was rolled back is tried again.
    force: Option<String>,
    /// Only says what would be done.
    #[serde(default)]
    dry_run: bool,
}

/// Why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    reason: String,
}

/// `GET /rollouts`, the newest first.
pub(super) async fn list(State(state): State<AppState>, Query(which): Query<input::Page>) -> Answer {
    let limit = which.limit()?;
    let rollouts = list_rollouts(&state.store, &which.cursor, limit).await?;
    Ok(page(rollouts.iter().map(describe), limit, "id"))
}

/// `POST /rollouts`.
pub(super) async fn start(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(wanted): Body<Wanted>,
) -> Answer {
    let plugin = input::parse(&wanted.plugin, PluginName::parse)?;
    let version = PluginVersion::parse(&format!("{plugin}@{}", wanted.version))
        .map_err(|fault| Problem::of(Code::Invalid, fault.to_string()))?;
    let plan = read_plan(&version, &wanted.plan.to_string())
        .map_err(|fault| Problem::of(Code::Invalid, format!("the plan: {fault}")))?;
    let force = wanted.force.as_deref().map(reason).transpose()?;
    let started = start_rollout(&state.store, &caller.by, &plan, (force, wanted.dry_run)).await?;
    let nodes: Vec<Value> =
        started.nodes.iter().map(|(edge, count)| json!({ "edge": edge, "nodes": count })).collect();
    let about = json!({ "started": !wanted.dry_run, "nodes": nodes, "least_ms": started.least_ms });
    Ok(Json(with(describe(&started.rollout), about)))
}

/// `GET /rollouts/{id}`.
pub(super) async fn show(State(state): State<AppState>, Path(id): Path<String>) -> Answer {
    let fleet = std::sync::Arc::clone(&state.fleet);
    let presence = move |node: &NodeRecord| fleet.presence(&node.id).is_some() || fleet.is_elsewhere(node);
    let looked = look(&state.store, &presence, input::plain(&id)?, state.clock.now()).await?;
    Ok(Json(describe_whole(&looked)))
}

/// `POST /rollouts/{id}/pause`.
pub(super) async fn pause(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    say(&state, &caller, &id, &Verb::Pause).await
}

/// `POST /rollouts/{id}/resume`.
pub(super) async fn resume(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    say(&state, &caller, &id, &Verb::Resume).await
}

/// `POST /rollouts/{id}/advance`: what holds has held long enough.
pub(super) async fn advance(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    say(&state, &caller, &id, &Verb::Advance).await
}

/// `POST /rollouts/{id}/abort`.
pub(super) async fn abort(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(why): Body<Why>,
) -> Answer {
    let verb = Verb::Abort(reason(&why.reason)?.to_owned());
    say(&state, &caller, &id, &verb).await
}

/// `POST /rollouts/{id}/undo`.
pub(super) async fn undo(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(why): Body<Why>,
) -> Answer {
    let verb = Verb::Undo(reason(&why.reason)?.to_owned());
    say(&state, &caller, &id, &verb).await
}

async fn say(state: &AppState, caller: &Caller, id: &str, verb: &Verb) -> Answer {
    let said = steer(&state.store, &caller.by, input::plain(id)?, verb).await?;
    Ok(Json(with(describe(&said.rollout), json!({ "changed": said.changed }))))
}

fn reason(text: &str) -> Result<&str, Problem> {
    let text = text.trim();
    if text.is_empty() || text.len() > REASON_MAX {
        let detail = format!("a reason has 1 to {REASON_MAX} bytes, not {}", text.len());
        return Err(Problem::of(Code::Invalid, detail));
    }
    Ok(text)
}

fn describe(rollout: &Rollout) -> Value {
    json!({
        "id": rollout.id,
        "plugin": rollout.plan.to.plugin.as_str(),
        "version": rollout.plan.to.version.to_string(),
        "phase": rollout.state.phase.as_str(),
        "reason": domain::visible::make_visible_up_to(&rollout.reason, 2_000),
        "wave": rollout.state.wave,
        "plan": plan_value(&rollout.plan),
        "started_at": rollout.started_at.to_string(),
        "started_by": rollout.started_by,
        "moved_at": rollout.moved_at.to_string(),
        "ended_at": rollout.ended_at.map(|at| at.to_string()),
    })
}

fn describe_whole(looked: &Looked) -> Value {
    let rollout = &looked.rollout;
    let edges = rollout.plan.waves.iter().flat_map(|wave| wave.edges.iter().map(move |edge| (wave, edge)));
    let edges: Vec<Value> = edges
        .map(|(wave, edge)| {
            let run = rollout.state.edges.get(edge);
            describe_edge((&wave.name, edge, wave.steps.len()), run, looked.fleet.get(edge))
        })
        .collect();
    with(describe(rollout), json!({ "edges": edges, "waits": looked.waits }))
}

fn describe_edge(
    (wave, edge, steps): (&str, &EdgeName, usize),
    run: Option<&Run>,
    view: Option<&EdgeView>,
) -> Value {
    let (part, since) = match run.map(|run| run.part) {
        None => ("waiting", None),
        Some(Part::Installing) => ("installing", None),
        Some(Part::Holding(since)) => ("holding", Some(since.to_string())),
        Some(Part::Promoted) => ("promoted", None),
        Some(Part::Reverted) => ("reverted", None),
    };
    let view = view.cloned().unwrap_or_default();
    let is_promoted = matches!(run.map(|run| run.part), Some(Part::Promoted));
    let has_it = |id: &&domain::id::NodeId| is_promoted || view.granted.contains(*id);
    let of = |wanted: fn(&Progress) -> bool| {
        let nodes = view.nodes.iter().filter(|(id, _)| has_it(id));
        nodes.filter(|(_, node)| node.away_since.is_none() && wanted(&node.progress)).count()
    };
    let away = view.nodes.iter().filter(|(id, node)| has_it(id) && node.away_since.is_some()).count();
    let failed =
        view.nodes.iter().filter(|(id, _)| has_it(id)).filter_map(|(id, node)| match &node.progress {
            Progress::Failed(reason) => {
                let reason = domain::visible::make_visible_up_to(reason, 500);
                Some(json!({ "node": id.as_str(), "reason": reason }))
            }
            _ => None,
        });
    json!({
        "edge": edge.as_str(),
        "wave": wave,
        "step": run.map(|run| run.step + 1),
        "steps": steps,
        "part": part,
        "since": since,
        "nodes": run.map_or(view.nodes.len(), |run| run.members.len()),
        "granted": view.granted.len(),
        "serving": of(|progress| *progress == Progress::Serving),
        "away": away,
        "failed": failed.take(FAILED_MAX).collect::<Vec<_>>(),
        "waiting": view.waiting,
    })
}
