//! Edges, and how far each part of their plugin set has come.

use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use domain::id::EdgeName;
use domain::plugin_set::{Part, Position, Scope};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::access::Caller;
use super::answer::{Answer, NODES_MAX, page};
use super::input::{self, Body, Page};
use super::policy;
use super::problem::Problem;
use super::{AppState, FleetView};
use crate::operation::Code;
use crate::operation::create_edge::create_edge;
use crate::store::edges::Edge;
use crate::store::{NodeRecord, Transaction, assignments, candidates, edges, heads, nodes, policies};

/// Nodes of an edge that are looked at: the largest fleet on one edge.
const NODES_LOOKED_AT: u64 = 100_000;

/// `GET /edges`.
pub(super) async fn list(State(state): State<AppState>, Query(query): Query<Page>) -> Answer {
    let limit = query.limit()?;
    let mut tx = state.store.read().await?;
    let mut items = Vec::new();
    for edge in edges::list(&mut tx, &query.cursor, limit).await? {
        items.push(describe(&mut tx, &*state.fleet, &edge).await?);
    }
    Ok(page(items, limit, "name"))
}

/// What an edge is made of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewEdge {
    name: String,
}

/// `POST /edges`.
pub(super) async fn create(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<NewEdge>,
) -> Answer {
    let name = input::edge(&new.name)?;
    let created = create_edge(&state.store, &caller.by, &name).await?;
    Ok(Json(json!({ "name": name.as_str(), "created": created })))
}

/// `GET /edges/{edge}`.
pub(super) async fn show(State(state): State<AppState>, Path(name): Path<String>) -> Answer {
    let mut tx = state.store.read().await?;
    let edge = find(&mut tx, &name).await?;
    Ok(Json(describe(&mut tx, &*state.fleet, &edge).await?))
}

/// `GET /edges/{edge}/parts`.
pub(super) async fn parts(State(state): State<AppState>, Path(name): Path<String>) -> Answer {
    let mut tx = state.store.read().await?;
    let edge = find(&mut tx, &name).await?;
    let nodes = nodes::list(&mut tx, "", edge.name.as_str(), NODES_LOOKED_AT).await?;
    let mut parts = Map::new();
    for part in Part::OF_EDGE {
        let head = heads::get(&mut tx, &Scope::Edge(edge.name.clone()), part).await?.unwrap_or_default();
        parts.insert(part.as_str().to_owned(), progress(&*state.fleet, &nodes, part, head));
    }
    Ok(Json(Value::Object(parts)))
}

/// Who holds the newest of a part, and who does not yet.
fn progress(fleet: &dyn FleetView, nodes: &[NodeRecord], part: Part, head: Position) -> Value {
    let connected: Vec<&NodeRecord> =
        nodes.iter().filter(|node| fleet.presence(&node.id).is_some()).collect();
    let waiting: Vec<&str> = connected
        .iter()
        .filter(|node| fleet.acknowledged(&node.id, part).is_none_or(|held| held < head))
        .map(|node| node.name.as_str())
        .collect();
    json!({
        "epoch": head.epoch,
        "generation": head.generation,
        "acknowledged": connected.len() - waiting.len(),
        "connected": connected.len(),
        "elsewhere": nodes.iter().filter(|node| is_elsewhere(fleet, node)).count(),
        "nodes": nodes.len(),
        "waiting": waiting.iter().take(NODES_MAX).collect::<Vec<_>>(),
    })
}

fn is_elsewhere(fleet: &dyn FleetView, node: &NodeRecord) -> bool {
    fleet.presence(&node.id).is_none() && fleet.is_elsewhere(node)
}

async fn describe(tx: &mut Transaction, fleet: &dyn FleetView, edge: &Edge) -> Result<Value, Problem> {
    let nodes = nodes::list(tx, "", edge.name.as_str(), NODES_LOOKED_AT).await?;
    let assignments: Vec<Value> = assignments::of_edge(tx, &edge.name)
        .await?
        .into_iter()
        .map(|one| {
            json!({
                "plugin": one.version.plugin.as_str(),
                "version": one.version.version.to_string(),
                "assigned_at": one.assigned_at.to_string(),
                "assigned_by": one.assigned_by,
            })
        })
        .collect();
    let mut tried = Vec::new();
    for one in candidates::of_edge(tx, &edge.name).await? {
        let nodes = candidates::nodes_of(tx, &one.source).await?;
        tried.push(json!({
            "plugin": one.version.plugin.as_str(),
            "version": one.version.version.to_string(),
            "nodes": nodes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            "source": &*one.source,
            "set_at": one.set_at.to_string(),
            "set_by": one.set_by,
        }));
    }
    Ok(json!({
        "name": edge.name.as_str(),
        "created_at": edge.created_at.to_string(),
        "created_by": edge.created_by,
        "nodes_total": edge.nodes,
        "nodes_connected": nodes
            .iter()
            .filter(|node| fleet.presence(&node.id).is_some() || fleet.is_elsewhere(node))
            .count(),
        "plugins_total": edge.plugins,
        "policy": policy::describe(&policies::get(tx, &edge.name).await?),
        "assignments": assignments,
        "candidates": tried,
    }))
}

async fn find(tx: &mut Transaction, name: &str) -> Result<Edge, Problem> {
    let none = || Problem::of(Code::NotFound, format!("there is no edge {}", shown(name)));
    let Ok(name) = EdgeName::parse(name) else { return Err(none()) };
    edges::get(tx, &name).await?.ok_or_else(none)
}

fn shown(name: &str) -> String {
    name.chars().take(100).collect()
}
