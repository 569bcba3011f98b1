//! Calls that people stop, and let go on.

use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use domain::block::Target;
use domain::id::{EdgeName, ToolId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::Caller;
use super::answer::{Answer, page};
use super::input::{self, Body, parse};
use super::problem::Problem;
use crate::operation::Code;
use crate::operation::block::{Blocked, Which, block, list_blocks, unblock};
use crate::store::StoredBlock;

/// What is meant: exactly one of the three, on one edge or on all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    function: Option<String>,
    tool: Option<String>,
    plugin: Option<String>,
    edge: Option<String>,
    #[serde(default)]
    reason: String,
}

/// Which page, and whether lifted ones are wanted too.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    #[serde(default)]
    cursor: String,
    limit: Option<u64>,
    #[serde(default)]
    lifted: bool,
}

/// `GET /blocks`, by id.
pub(super) async fn list(State(state): State<AppState>, Query(which): Query<Listed>) -> Answer {
    let limit = input::Page::new(which.limit, &which.cursor).limit()?;
    let blocks = list_blocks(&state.store, &which.cursor, which.lifted, limit).await?;
    Ok(page(blocks.iter().map(describe).collect::<Vec<_>>(), limit, "id"))
}

/// `POST /blocks`.
pub(super) async fn set(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(wanted): Body<Wanted>,
) -> Answer {
    let (target, edge) = wanted.read()?;
    Ok(answer(&block(&state.store, &caller.by, &target, edge.as_ref(), &wanted.reason).await?))
}

/// `POST /blocks/lift`: those of a target and scope.
pub(super) async fn lift(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(wanted): Body<Wanted>,
) -> Answer {
    let (target, edge) = wanted.read()?;
    Ok(answer(&unblock(&state.store, &caller.by, &Which::Target(target, edge)).await?))
}

/// `DELETE /blocks/{id}`.
pub(super) async fn lift_one(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    let which = Which::Id(input::plain(&id)?.to_owned());
    Ok(answer(&unblock(&state.store, &caller.by, &which).await?))
}

impl Wanted {
    fn read(&self) -> Result<(Target, Option<EdgeName>), Problem> {
        let target = match (&self.function, &self.tool, &self.plugin) {
            (Some(id), None, None) => parse(id, Target::function)?,
            (None, Some(id), None) => Target::Tool(parse(id, ToolId::parse)?),
            (None, None, Some(name)) => parse(name, Target::plugin)?,
            _ => {
                let detail = "expected exactly one of function, tool and plugin";
                return Err(Problem::of(Code::Invalid, detail.to_owned()));
            }
        };
        Ok((target, self.edge.as_deref().map(input::edge).transpose()?))
    }
}

fn answer(blocked: &Blocked) -> Json<Value> {
    let edges: Vec<Value> = blocked
        .edges
        .iter()
        .map(|(edge, generation)| json!({ "edge": edge.as_str(), "trust_generation": generation }))
        .collect();
    let blocks: Vec<Value> = blocked.blocks.iter().map(describe).collect();
    Json(json!({ "blocks": blocks, "changed": blocked.changed, "edges": edges }))
}

fn describe(stored: &StoredBlock) -> Value {
    let block = &stored.block;
    json!({
        "id": stored.id,
        "edge": stored.edge.as_ref().map(EdgeName::as_str),
        "target": block.target.to_string(),
        "reason": &*block.reason,
        "blocked_at": block.at.to_string(),
        "blocked_by": &*block.by,
        "lifted_at": stored.lifted.as_ref().map(|(at, _)| at.to_string()),
        "lifted_by": stored.lifted.as_ref().map(|(_, by)| by),
    })
}
