//! Nodes: who is there, what each has, what keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use domain::plugin_set::Part;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Answer, page};
use super::input::{self, Page};
use super::problem::Problem;
use super::{AppState, FleetView, Presence};
use crate::operation::find_node::find_node;
use crate::operation::quarantine::{SeenSession, sessions};
use crate::store::nodes::versions::NodeVersion;
use crate::store::{NodeRecord, Transaction, candidates, nodes};

/// Above this a node's clock is named as a problem.
const CLOCK_OFFSET_MS: u64 = 60_000;

/// `?edge=` beside the page.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    #[serde(default)]
    edge: String,
    limit: Option<u64>,
    #[serde(default)]
    cursor: String,
}

/// `GET /nodes`.
pub(super) async fn list(State(state): State<AppState>, Query(which): Query<Which>) -> Answer {
    let limit = Page::new(which.limit, &which.cursor).limit()?;
    input::plain(&which.edge)?;
    let mut tx = state.store.read().await?;
    let mut items = Vec::new();
    for node in nodes::list(&mut tx, &which.cursor, &which.edge, limit).await? {
        items.push(describe(&mut tx, &*state.fleet, &node).await?);
    }
    Ok(page(items, limit, "name"))
}

/// `GET /nodes/{node}`, by name or id.
pub(super) async fn show(State(state): State<AppState>, Path(wanted): Path<String>) -> Answer {
    let mut tx = state.store.read().await?;
    let node = find_node(&mut tx, input::plain(&wanted)?).await?;
    Ok(Json(describe(&mut tx, &*state.fleet, &node).await?))
}

async fn describe(tx: &mut Transaction, fleet: &dyn FleetView, node: &NodeRecord) -> Result<Value, Problem> {
    let presence = fleet.presence(&node.id);
    let versions = nodes::versions::of(tx, &node.id).await?;
    let mut held = Map::new();
    for part in Part::ALL {
        if let Some(position) = fleet.acknowledged(&node.id, part) {
            let position = json!({ "epoch": position.epoch, "generation": position.generation });
            held.insert(part.as_str().to_owned(), position);
        }
    }
    let running: BTreeSet<Arc<str>> =
        candidates::of_edge(tx, &node.edge).await?.into_iter().map(|one| one.source).collect();
    // Those that count no longer are none to a person.
    let grants: Vec<Value> = candidates::of_node(tx, &node.id)
        .await?
        .plugins
        .into_values()
        .filter(|grant| running.contains(&grant.source))
        .map(|grant| {
            json!({
                "plugin": grant.version.plugin.as_str(),
                "version": grant.version.version.to_string(),
                "source": &*grant.source,
                "use": grant.usage.as_str(),
            })
        })
        .collect();
    let mut problems: Vec<String> = versions.iter().filter_map(problem).collect();
    problems.extend(presence.as_ref().and_then(clock_problem));
    let stands = &node.standing;
    let sessions = sessions(&node.copies);
    Ok(json!({
        "id": node.id.as_str(),
        "name": node.name.as_str(),
        "edge": node.edge.as_str(),
        "connected": presence.is_some() || fleet.is_elsewhere(node),
        "connected_since": presence.as_ref().map(|presence| presence.since.to_string()),
        "address": presence.as_ref().map(|presence| presence.address.clone()),
        "clock_offset_ms": presence.as_ref().map(|presence| presence.clock_offset_ms),
        "agent_version": node.agent_version,
        "joined_at": node.joined_at.to_string(),
        "last_seen": node.last_seen_at.map(|at| at.to_string()),
        "held": held,
        "grants": grants,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "problems": problems,
        "labels": node.labels.iter().collect::<BTreeMap<_, _>>(),
        "standing": stands.standing.as_str(),
        "standing_reason": (!stands.reason.is_empty()).then_some(&stands.reason),
        "standing_by": (!stands.by.is_empty()).then_some(&stands.by),
        "standing_at": stands.at.map(|at| at.to_string()),
        "sessions": sessions.iter().map(session).collect::<Vec<_>>(),
        "certificate": {
            "until": node.certificate.until.map(|at| at.to_string()),
            "authority": (!node.certificate.issuer.is_empty()).then_some(&node.certificate.issuer),
        },
    }))
}

/// One of several copies of a node.
fn session(seen: &SeenSession) -> Value {
    json!({
        "session": seen.counter,
        "boot": (!seen.boot.is_empty()).then_some(&seen.boot),
        "address": (!seen.address.is_empty()).then_some(&seen.address),
        "last_seen": seen.at.to_string(),
    })
}

/// Certificates are dated back by ten minutes, so this is well before one is refused.
fn clock_problem(presence: &Presence) -> Option<String> {
    let offset = presence.clock_offset_ms;
    let direction = if offset > 0 { "ahead of" } else { "behind" };
    (offset.unsigned_abs() > CLOCK_OFFSET_MS)
        .then(|| format!("its clock is {} s {direction} the server's", offset.unsigned_abs() / 1_000))
}

/// One version as its node says that it stands.
pub(super) fn version(version: &NodeVersion) -> Value {
    json!({
        "plugin": version.version.plugin.as_str(),
        "version": version.version.version.to_string(),
        "state": version.state,
        "reason": (!version.reason.is_empty()).then_some(&version.reason),
        "tools": serde_json::from_str::<Value>(&version.tools).unwrap_or(Value::Null),
    })
}

fn problem(version: &NodeVersion) -> Option<String> {
    (version.state == "failed").then(|| format!("{}: {}", version.version, version.reason))
}
