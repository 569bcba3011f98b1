//! What of a plugin waits for a person, with everything that is needed to decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use domain::change::{Grade, grade};
use domain::digest::ListingHash;
use domain::id::{EdgeName, FunctionId, PluginName, PluginVersion};
use domain::listing::warned_reference;
use domain::name::warned_title;
use domain::origin::PinState;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::answer::{Answer, with, with_nodes};
use super::facts::{Facts, FunctionKey, by_function, change_state, listing};
use super::input;
use super::plugins::no_plugin;
use crate::store::changes::{State as VariantState, Variant};
use crate::store::pins::{StoredPin, endpoint_text};
use crate::store::snapshots::Own;
use crate::store::volatile::Volatile;
use crate::store::{Error, Transaction, edges, listings};

/// Which changes.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    #[serde(default)]
    edge: String,
}

/// `GET /plugins/{plugin}/changes?edge=`.
pub(super) async fn list(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(which): Query<Which>,
) -> Answer {
    let Ok(plugin) = PluginName::parse(&name) else { return Err(no_plugin(&name)) };
    let edge = if which.edge.is_empty() { None } else { Some(input::edge(&which.edge)?) };
    let mut tx = state.store.read().await?;
    let Some(mut facts) = Facts::load(&mut tx, &plugin).await? else { return Err(no_plugin(&name)) };
    if let Some(edge) = &edge {
        if edges::get(&mut tx, edge).await?.is_none() {
            return Err(crate::operation::Error::no_edge(edge).into());
        }
        facts.narrow(edge);
    }
    let mut changes = Vec::new();
    let mut warned: BTreeMap<PluginVersion, BTreeMap<FunctionId, Vec<String>>> = BTreeMap::new();
    for (key, variants) in by_function(&facts.variants) {
        let of_version = warned.entry(key.version.clone()).or_insert_with(|| facts.warned(&key.version));
        let warnings = of_version.get(&FunctionId::new(&key.tool, &key.function)).cloned();
        let about = (&key, warnings.unwrap_or_default());
        changes.extend(change(&mut tx, &facts, about, &variants).await?);
    }
    let mut moved = Vec::new();
    for pin in facts.pins.iter().filter(|pin| pin.pin.state != PinState::Pinned) {
        moved.push(moved_tool(&mut tx, &facts, pin).await?);
    }
    let mut own = Vec::new();
    for one in &facts.own {
        own.push(own_listing(&mut tx, &facts, one).await?);
    }
    Ok(Json(json!({ "plugin": plugin.as_str(), "changes": changes, "moved": moved, "own": own })))
}

/// What an edge goes by for itself, beside what the fleet does.
async fn own_listing(tx: &mut Transaction, facts: &Facts, own: &Own) -> Result<Value, Error> {
    let fleet = FunctionKey {
        version: own.version.clone(),
        tool: own.tool.clone(),
        function: Arc::clone(&own.function),
        edge: None,
    };
    let id = FunctionId::new(&own.tool, &own.function);
    let listed = match own.hash {
        Some(hash) => Some(listing(tx, hash).await?),
        None => None,
    };
    let fleets = match facts.approved(&fleet) {
        Some(hash) => Some(listing(tx, hash).await?),
        None => None,
    };
    Ok(json!({
        "edge": own.edge.as_str(),
        "version": own.version.version.to_string(),
        "tool": own.tool.as_str(),
        "function": &*own.function,
        "id": id.to_string(),
        "own": listed,
        "fleet": fleets,
        "approved_at": own.at.to_string(),
        "approved_by": own.by,
    }))
}

/// One function; `None` if all that is left of it is a rejected form that no node shows.
async fn change(
    tx: &mut Transaction,
    facts: &Facts,
    (key, mut warnings): (&FunctionKey, Vec<String>),
    variants: &[&Variant],
) -> Result<Option<Value>, Error> {
    let approved = facts.approved(key);
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
        let title = row.get("listing").and_then(Value::as_str).and_then(warned_title);
        let reference = row.get("listing").and_then(Value::as_str).and_then(warned_reference);
        for told in title.into_iter().chain(reference) {
            if !warnings.contains(&told) {
                warnings.push(told);
            }
        }
        shown.push(with_nodes(row, &nodes));
    }
    if shown.is_empty() {
        return Ok(None);
    }
    let approved_listing = match approved {
        Some(hash) => Some(listing(tx, hash).await?),
        None => None,
    };
    let id = FunctionId::new(&key.tool, &key.function);
    let volatile = facts.volatile(key);
    Ok(Some(json!({
        "version": key.version.version.to_string(),
        "tool": key.tool.as_str(),
        "function": &*key.function,
        "edge": key.edge.as_ref().map(EdgeName::as_str),
        "id": id.to_string(),
        "model_name": id.model_name(),
        "volatile": volatile.map(volatile_since),
        "state": change_state(approved, variants, volatile.is_some()),
        "approved": approved_listing,
        "variants": shown,
        "grades": words(&grades),
        "warnings": warnings,
    })))
}

/// Since when a function is volatile, and what differs.
pub(super) fn volatile_since(volatile: &Volatile) -> Value {
    json!({ "since": volatile.since.to_string(), "parts": volatile.parts })
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
        let approved = facts.approved(&FunctionKey {
            version: pin.version.clone(),
            tool: pin.tool.clone(),
            function: Arc::clone(&function),
            edge: Some(pin.edge.clone()),
        });
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
