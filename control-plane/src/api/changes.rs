//! What of a plugin waits for a person, with everything that is needed to decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use domain::change::{Grade, grade};
use domain::digest::ListingHash;
use domain::id::{FunctionId, PluginName, PluginVersion, ToolId};
use domain::origin::PinState;
use serde_json::{Value, json};

use super::AppState;
use super::answer::{Answer, with, with_nodes};
use super::facts::{Facts, by_function, change_state, listing};
use super::plugins::no_plugin;
use crate::store::changes::{State as VariantState, Variant};
use crate::store::pins::{StoredPin, endpoint_text};
use crate::store::{Error, Transaction, listings};

/// `GET /plugins/{plugin}/changes`.
pub(super) async fn list(State(state): State<AppState>, Path(name): Path<String>) -> Answer {
    let Ok(plugin) = PluginName::parse(&name) else { return Err(no_plugin(&name)) };
    let mut tx = state.store.read().await?;
    let Some(facts) = Facts::load(&mut tx, &plugin).await? else { return Err(no_plugin(&name)) };
    let mut changes = Vec::new();
    for (key, variants) in by_function(&facts.variants) {
        changes.extend(change(&mut tx, &facts, &key, &variants).await?);
    }
    let mut moved = Vec::new();
    for pin in facts.pins.iter().filter(|pin| pin.pin.state != PinState::Pinned) {
        moved.push(moved_tool(&mut tx, &facts, pin).await?);
    }
    Ok(Json(json!({ "plugin": plugin.as_str(), "changes": changes, "moved": moved })))
}

/// One function; `None` if all that is left of it is a rejected form that no node shows.
async fn change(
    tx: &mut Transaction,
    facts: &Facts,
    (version, tool, function): &(PluginVersion, ToolId, Arc<str>),
    variants: &[&Variant],
) -> Result<Option<Value>, Error> {
    let approved = facts.approved(version, tool, function);
    let approved_text = match approved {
        Some(hash) => listings::text(tx, hash).await?,
        None => None,
    };
    let mut shown = Vec::new();
    let mut grades: BTreeSet<Grade> = BTreeSet::new();
    for variant in variants.iter().rev() {
        let nodes = facts.nodes_of(variant);
        if variant.state != VariantState::Open && nodes.is_empty() {
            continue;
        }
        let (row, its_grades) = describe(tx, variant, approved_text.as_deref()).await?;
        grades.extend(its_grades);
        shown.push(with_nodes(row, &nodes));
    }
    if shown.is_empty() {
        return Ok(None);
    }
    let approved_listing = match approved {
        Some(hash) => Some(listing(tx, hash).await?),
        None => None,
    };
    let id = FunctionId::new(tool, function);
    Ok(Some(json!({
        "version": version.version.to_string(),
        "tool": tool.as_str(),
        "function": &**function,
        "id": id.to_string(),
        "model_name": id.model_name(),
        "state": change_state(approved, variants),
        "approved": approved_listing,
        "variants": shown,
        "grades": words(&grades),
    })))
}

async fn describe(
    tx: &mut Transaction,
    variant: &Variant,
    approved: Option<&str>,
) -> Result<(Value, BTreeSet<Grade>), Error> {
    let text = match variant.seen {
        Some(hash) => listings::text(tx, hash).await?,
        None => None,
    };
    let grades = grade(approved, text.as_deref());
    let row = json!({
        "hash": variant.seen.map(|hash| hash.to_string()),
        "listing": text,
        "state": variant.state.as_str(),
        "first_seen": variant.first_seen_at.to_string(),
        "first_seen_on": variant.first_seen_on.as_str(),
        "grades": words(&grades),
    });
    Ok((row, grades))
}

/// The grade of most concern first.
fn words(grades: &BTreeSet<Grade>) -> Vec<&'static str> {
    grades.iter().rev().map(Grade::code).collect()
}

/// A remote tool that waits on one edge, with what nodes of the edge saw it list there.
async fn moved_tool(tx: &mut Transaction, facts: &Facts, pin: &StoredPin) -> Result<Value, Error> {
    let mut seen: BTreeMap<(Arc<str>, ListingHash), BTreeSet<String>> = BTreeMap::new();
    for (sighting, list) in
        facts.shown(&pin.version, &pin.tool).filter(|(sighting, _)| sighting.edge == pin.edge)
    {
        for one in list {
            let Some(hash) = one.hash else { continue };
            seen.entry((Arc::clone(&one.function), hash)).or_default().insert(sighting.node.to_string());
        }
    }
    let mut functions = Vec::new();
    for ((function, hash), nodes) in seen {
        let id = FunctionId::new(&pin.tool, &function);
        let approved = facts.approved(&pin.version, &pin.tool, &function);
        let more = json!({
            "function": &*function,
            "id": id.to_string(),
            "model_name": id.model_name(),
            "approved": approved.map(|hash| hash.to_string()),
        });
        functions.push(with_nodes(with(listing(tx, hash).await?, more), &nodes));
    }
    let from: Vec<String> = match &pin.pin.state {
        PinState::Moved { from } => from.iter().map(endpoint_text).collect(),
        PinState::Pinned | PinState::NewAt => Vec::new(),
    };
    Ok(json!({
        "version": pin.version.version.to_string(),
        "tool": pin.tool.as_str(),
        "edge": pin.edge.as_str(),
        "from": from,
        "to": endpoint_text(&pin.pin.endpoint),
        "functions": functions,
    }))
}
