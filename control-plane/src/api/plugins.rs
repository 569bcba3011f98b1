//! Plugins: versions, where they run, and everything that is odd about them.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::{Path, Query, State};
use domain::id::{EdgeName, FunctionId, PluginName, PluginVersion, ToolId};
use domain::origin::PinState;
use serde_json::{Value, json};

use super::AppState;
use super::answer::{Answer, page, with, with_nodes};
use super::changes::volatile_since;
use super::facts::{Facts, by_function, change_state};
use super::input::Page;
use super::nodes::version as node_version;
use super::problem::Problem;
use crate::operation::{Code, VOLATILE};
use crate::store::changes::State as VariantState;
use crate::store::pins::endpoint_text;
use crate::store::plugins::StoredVersion;
use crate::store::{Error, Transaction, nodes, plugins};

/// Functions with odd names that are told of a plugin.
const WARNED_MAX: usize = 100;

/// `GET /plugins`.
pub(super) async fn list(State(state): State<AppState>, Query(query): Query<Page>) -> Answer {
    let limit = query.limit()?;
    let mut tx = state.store.read().await?;
    let mut items = Vec::new();
    for name in plugins::names(&mut tx, &query.cursor, limit).await? {
        items.extend(describe(&mut tx, &name).await?);
    }
    Ok(page(items, limit, "name"))
}

/// `GET /plugins/{plugin}`.
pub(super) async fn show(State(state): State<AppState>, Path(name): Path<String>) -> Answer {
    let mut tx = state.store.read().await?;
    let found = match PluginName::parse(&name) {
        Ok(name) => describe(&mut tx, &name).await?,
        Err(_) => None,
    };
    found.map(Json).ok_or_else(|| no_plugin(&name))
}

/// There is no such plugin.
pub(super) fn no_plugin(name: &str) -> Problem {
    let shown: String = name.chars().take(100).collect();
    Problem::of(Code::NotFound, format!("no version of a plugin {shown} was ever pushed"))
}

async fn describe(tx: &mut Transaction, name: &PluginName) -> Result<Option<Value>, Error> {
    let Some(facts) = Facts::load(tx, name).await? else { return Ok(None) };
    let nodes = nodes::versions::of_plugin(tx, name.as_str()).await?;
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|(version, node, edge)| with(node_version(version), json!({ "node": node, "edge": edge })))
        .collect();
    let assignments: Vec<Value> = facts
        .assignments
        .iter()
        .map(|one| {
            json!({
                "edge": one.edge.as_str(),
                "version": one.version.version.to_string(),
                "assigned_at": one.assigned_at.to_string(),
                "assigned_by": one.assigned_by,
            })
        })
        .collect();
    Ok(Some(json!({
        "name": name.as_str(),
        "description": facts.versions.first().map(|newest| newest.description.clone()),
        "versions": facts.versions.iter().map(|stored| version(&facts, stored)).collect::<Vec<_>>(),
        "assignments": assignments,
        "changed": changed(&facts),
        "left_out": left_out(&facts),
        "not_shown": not_shown(&facts),
        "warned": warned(&facts),
        "moved": moved(&facts),
        "incomplete": incomplete(&facts),
        "nodes": nodes,
    })))
}

fn version(facts: &Facts, stored: &StoredVersion) -> Value {
    let edges: Vec<&str> = facts
        .assignments
        .iter()
        .filter(|one| one.version == stored.version)
        .map(|one| one.edge.as_str())
        .collect();
    let snapshot = facts.snapshots.get(&stored.version);
    let tools: Vec<Value> = facts
        .tools
        .get(&stored.version)
        .into_iter()
        .flatten()
        .map(|tool| {
            let taken = snapshot.and_then(|snapshot| {
                let taken = snapshot.taken.get(&tool.tool)?;
                let functions = snapshot.functions.keys().filter(|(of, _)| *of == tool.tool).count();
                Some(json!({ "at": taken.at.to_string(), "from": taken.from, "functions": functions }))
            });
            json!({
                "tool": tool.tool.as_str(),
                "kind": tool.kind.as_str(),
                "url": tool.url,
                "connection": tool.connection,
                "snapshot": taken,
            })
        })
        .collect();
    json!({
        "version": stored.version.version.to_string(),
        "description": stored.description,
        "content_digest": stored.content_digest.to_string(),
        "archive_sha256": stored.archive_sha256.to_string(),
        "archive_length": stored.archive_length,
        "pushed_at": stored.pushed_at.to_string(),
        "pushed_by": stored.pushed_by,
        "edges": edges,
        "tools": tools,
    })
}

fn function_row(version: &PluginVersion, id: &FunctionId) -> Value {
    json!({
        "version": version.version.to_string(),
        "tool": id.tool.as_str(),
        "name": &*id.function,
        "function": id.to_string(),
        "model_name": id.model_name(),
    })
}

/// Functions that nodes do not call until a person decided.
fn changed(facts: &Facts) -> Vec<Value> {
    let mut rows = Vec::new();
    for (key, variants) in by_function(&facts.variants) {
        let nodes: BTreeSet<String> = variants.iter().flat_map(|variant| facts.nodes_of(variant)).collect();
        let is_open = variants.iter().any(|variant| variant.state == VariantState::Open);
        // A rejected form that no node shows any longer is nothing to tell.
        if !is_open && nodes.is_empty() {
            continue;
        }
        let volatile = facts.volatile(&key);
        let state = change_state(facts.approved(&key), &variants, volatile.is_some());
        let row = function_row(&key.version, &FunctionId::new(&key.tool, &key.function));
        let more = json!({
            "edge": key.edge.as_ref().map(EdgeName::as_str),
            "state": state,
            "rejected": !is_open,
            "volatile": volatile.map(volatile_since),
        });
        rows.push(with_nodes(with(row, more), &nodes));
    }
    rows
}

fn left_out(facts: &Facts) -> Vec<Value> {
    // What is volatile stands among the changes.
    let gathered = facts.gather(|one| {
        let is_left_out = !one.left_out.is_empty() && one.left_out != VOLATILE;
        is_left_out.then(|| (one.left_out.clone(), one.reason.clone()))
    });
    rows_with_reasons(gathered)
}

fn not_shown(facts: &Facts) -> Vec<Value> {
    let gathered = facts
        .gather(|one| (!one.not_shown.is_empty()).then(|| ("not_shown".to_owned(), one.not_shown.clone())));
    rows_with_reasons(gathered)
}

/// Functions with odd names, of versions that an edge goes by.
fn warned(facts: &Facts) -> Vec<Value> {
    let versions: BTreeSet<&PluginVersion> = facts.assignments.iter().map(|one| &one.version).collect();
    let rows = versions.into_iter().flat_map(|version| {
        let row = |(id, what): (FunctionId, Vec<String>)| {
            with(function_row(version, &id), json!({ "warnings": what }))
        };
        facts.warned(version).into_iter().map(row)
    });
    rows.take(WARNED_MAX).collect()
}

fn rows_with_reasons(
    gathered: BTreeMap<(PluginVersion, FunctionId, String, String), BTreeSet<String>>,
) -> Vec<Value> {
    gathered
        .into_iter()
        .map(|((version, id, code, reason), nodes)| {
            let row = with(function_row(&version, &id), json!({ "code": code, "reason": reason }));
            with_nodes(row, &nodes)
        })
        .collect()
}

/// Remote tools that wait for a person, each with the edges where they do.
fn moved(facts: &Facts) -> Vec<Value> {
    let mut moves: BTreeMap<(PluginVersion, ToolId, Vec<String>, String), Vec<String>> = BTreeMap::new();
    for stored in &facts.pins {
        let from: Vec<String> = match &stored.pin.state {
            PinState::Pinned => continue,
            PinState::Moved { from } => from.iter().map(endpoint_text).collect(),
            PinState::NewAt => Vec::new(),
        };
        let key = (stored.version.clone(), stored.tool.clone(), from, endpoint_text(&stored.pin.endpoint));
        moves.entry(key).or_default().push(stored.edge.to_string());
    }
    moves
        .into_iter()
        .map(|((version, tool, from, to), edges)| {
            json!({
                "version": version.version.to_string(),
                "tool": tool.as_str(),
                "from": from,
                "to": to,
                "edges": edges,
            })
        })
        .collect()
}

/// Tools whose list could not be read to its end, or that are odd otherwise.
fn incomplete(facts: &Facts) -> Vec<Value> {
    let mut gathered: BTreeMap<(PluginVersion, ToolId, String), BTreeSet<String>> = BTreeMap::new();
    for sighting in facts.sightings.iter().filter(|sighting| !sighting.complete) {
        let key = (sighting.version.clone(), sighting.tool.clone(), sighting.incomplete_reason.clone());
        gathered.entry(key).or_default().insert(sighting.node.to_string());
    }
    gathered
        .into_iter()
        .map(|((version, tool, reason), nodes)| {
            let row = json!({
                "version": version.version.to_string(),
                "tool": tool.as_str(),
                "reason": reason,
            });
            with_nodes(row, &nodes)
        })
        .collect()
}
