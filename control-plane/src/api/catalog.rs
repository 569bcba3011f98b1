//! The catalog: every function of what each edge goes by, as its snapshot has it, with what nodes of
//! the edge see in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use domain::digest::ListingHash;
use domain::id::{EdgeName, FunctionId, PluginVersion, ToolId};
use domain::listing::warned_reference;
use domain::origin::PinState;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::answer::{Answer, with_nodes};
use super::facts::Facts;
use super::input::{self, Page};
use crate::operation::VOLATILE;
use crate::store::listings;
use crate::store::snapshots::{self, Approved, VersionSnapshot};
use crate::store::{Error, Transaction, assignments, edges};

/// Edges that are looked at when none is named.
const EDGES_MAX: u64 = 1_000;

/// Which rows.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    #[serde(default)]
    edge: String,
    #[serde(default)]
    plugin: String,
    limit: Option<u64>,
    #[serde(default)]
    cursor: String,
}

/// `GET /catalog?edge=&plugin=`, ordered by edge, plugin and function.
pub(super) async fn list(State(state): State<AppState>, Query(which): Query<Which>) -> Answer {
    let limit = Page::new(which.limit, &which.cursor).limit()?;
    let mut tx = state.store.read().await?;
    let edges = if which.edge.is_empty() {
        edges::list(&mut tx, "", EDGES_MAX).await?.into_iter().map(|edge| edge.name).collect()
    } else {
        vec![input::edge(&which.edge)?]
    };
    let mut rows = Vec::new();
    for edge in edges {
        rows.extend(of_edge(&mut tx, &edge).await?);
    }
    rows.retain(|row| which.plugin.is_empty() || row.version.plugin.as_str() == which.plugin);
    let from: usize = which.cursor.parse().unwrap_or(0);
    let take = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut items = Vec::new();
    for row in rows.iter().skip(from).take(take) {
        items.push(row.describe(&mut tx).await?);
    }
    let end = from.saturating_add(items.len());
    let next = (end < rows.len()).then(|| end.to_string());
    Ok(Json(json!({ "items": items, "next": next })))
}

/// One function on one edge.
struct Row {
    edge: EdgeName,
    version: PluginVersion,
    id: FunctionId,
    approved: Option<Approved>,
    state: &'static str,
    code: Option<String>,
    reason: Option<String>,
    seen: BTreeMap<ListingHash, BTreeSet<String>>,
}

impl Row {
    async fn describe(&self, tx: &mut Transaction) -> Result<Value, Error> {
        let approved = self.approved.as_ref();
        let listing = match approved {
            Some(approved) => listings::text(tx, approved.hash).await?,
            None => None,
        };
        let mut seen = Vec::new();
        for (hash, nodes) in &self.seen {
            let row = json!({ "hash": hash.to_string(), "listing": listings::text(tx, *hash).await? });
            seen.push(with_nodes(row, nodes));
        }
        Ok(json!({
            "edge": self.edge.as_str(),
            "plugin": self.version.plugin.as_str(),
            "version": self.version.version.to_string(),
            "tool": self.id.tool.as_str(),
            "function": &*self.id.function,
            "id": self.id.to_string(),
            "model_name": self.id.model_name(),
            "state": self.state,
            "code": self.code,
            "reason": self.reason,
            "hash": approved.map(|approved| approved.hash.to_string()),
            "warnings": listing.as_deref().and_then(warned_reference).into_iter().collect::<Vec<_>>(),
            "listing": listing,
            "rank": approved.map(|approved| approved.rank),
            "approved_at": approved.map(|approved| approved.at.to_string()),
            "approved_by": approved.map(|approved| approved.by.clone()),
            "seen": seen,
        }))
    }
}

async fn of_edge(tx: &mut Transaction, edge: &EdgeName) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for assignment in assignments::of_edge(tx, edge).await? {
        let version = &assignment.version;
        let Some(facts) = Facts::load(tx, &version.plugin).await? else { continue };
        let snapshot = snapshots::of_version(tx, version, Some(edge)).await?;
        for tool in facts.tools.get(version).into_iter().flatten() {
            rows.extend(of_tool(&facts, &snapshot, edge, (version, &tool.tool)));
        }
    }
    leave_out_colliding(&mut rows);
    Ok(rows)
}

fn of_tool(
    facts: &Facts,
    snapshot: &VersionSnapshot,
    edge: &EdgeName,
    (version, tool): (&PluginVersion, &ToolId),
) -> Vec<Row> {
    let mut rows: BTreeMap<Arc<str>, Row> = BTreeMap::new();
    let row = |function: &str, approved: Option<&Approved>| Row {
        edge: edge.clone(),
        version: version.clone(),
        id: FunctionId::new(tool, function),
        approved: approved.cloned(),
        state: if approved.is_some() { "callable" } else { "new" },
        code: None,
        reason: None,
        seen: BTreeMap::new(),
    };
    for ((of, function), approved) in &snapshot.functions {
        if of == tool {
            rows.insert(Arc::clone(function), row(function, Some(approved)));
        }
    }
    for (sighting, list) in facts.shown(version, tool).filter(|(sighting, _)| sighting.edge == *edge) {
        for one in list {
            let row = rows.entry(Arc::clone(&one.function)).or_insert_with(|| row(&one.function, None));
            if let Some(hash) = one.hash {
                row.seen.entry(hash).or_default().insert(sighting.node.to_string());
                let differs = row.approved.as_ref().is_some_and(|approved| approved.hash != hash);
                if differs {
                    row.state = "drifted";
                } else if !one.not_shown.is_empty() && row.state == "callable" {
                    (row.state, row.reason) = ("not_shown", Some(one.not_shown.clone()));
                }
            } else if one.left_out == VOLATILE {
                row.state = "drifted";
                row.reason = Some(one.reason.clone());
            } else if row.state != "drifted" {
                row.state = "left_out";
                (row.code, row.reason) = (Some(one.left_out.clone()), Some(one.reason.clone()));
            }
        }
        let is_missing = |name: &Arc<str>| list.binary_search_by(|one| one.function.cmp(name)).is_err();
        for (_, row) in rows.iter_mut().filter(|(name, row)| row.state == "callable" && is_missing(name)) {
            if sighting.complete {
                row.state = "gone";
            }
        }
    }
    let is_taken = snapshot.taken.contains_key(tool);
    let pin = facts.pins.iter().find(|pin| pin.edge == *edge && pin.version == *version && pin.tool == *tool);
    let is_moved = pin.is_some_and(|pin| pin.pin.state != PinState::Pinned);
    for row in rows.values_mut().filter(|row| row.state != "left_out") {
        if is_moved {
            row.state = "moved";
        } else if !is_taken {
            row.state = "no_snapshot";
        }
    }
    rows.into_values().collect()
}

/// Of functions with one model name on an edge the one that was approved first stays.
fn leave_out_colliding(rows: &mut [Row]) {
    let mut first: BTreeMap<String, (u64, FunctionId)> = BTreeMap::new();
    for row in rows.iter() {
        let Some(approved) = &row.approved else { continue };
        let own = (approved.rank, row.id.clone());
        let kept = first.entry(row.id.model_name()).or_insert_with(|| own.clone());
        if own < *kept {
            *kept = own;
        }
    }
    for row in rows {
        let Some((_, kept)) = first.get(&row.id.model_name()) else { continue };
        if *kept != row.id {
            row.state = "left_out";
            row.code = Some("collides".to_owned());
            row.reason = Some(format!("models would take it for {kept}, which was approved first"));
        }
    }
}
