//! What only nodes hold since the database was restored: listed, adopted again, dropped.

use axum::extract::{Query, State};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::{Caller, deny};
use super::answer::{Answer, page};
use super::input::{Body, Page};
use super::problem::Problem;
use crate::auth::Scope;
use crate::operation::Code;
use crate::operation::decide_orphans::{Decision, decide_orphans, open_orphans};
use crate::store::Orphan;

/// Most that one request names: as many as wait at most.
const IDS_MAX: usize = 100_000;

/// Which, and whether a person looked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chosen {
    ids: Vec<String>,
    attended: bool,
}

/// `GET /orphans`, by id.
pub(super) async fn list(State(state): State<AppState>, Query(which): Query<Page>) -> Answer {
    let limit = which.limit()?;
    Ok(page(by_id(&open_orphans(&state.store).await?, &which.cursor, limit), limit, "id"))
}

fn by_id(orphans: &[Orphan], after: &str, limit: u64) -> Vec<Value> {
    let mut ids: Vec<(String, &Orphan)> = orphans.iter().map(|orphan| (orphan.id(), orphan)).collect();
    ids.retain(|(id, _)| id.as_str() > after);
    ids.sort_unstable();
    ids.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    ids.into_iter().map(|(_, orphan)| describe(orphan)).collect()
}

/// `POST /orphans/adopt`.
pub(super) async fn adopt(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(chosen): Body<Chosen>,
) -> Answer {
    decide(&state, &caller, chosen, true).await
}

/// `POST /orphans/drop`.
pub(super) async fn drop(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(chosen): Body<Chosen>,
) -> Answer {
    decide(&state, &caller, chosen, false).await
}

async fn decide(state: &AppState, caller: &Caller, chosen: Chosen, adopt: bool) -> Answer {
    if chosen.ids.is_empty() || chosen.ids.len() > IDS_MAX {
        let detail = format!("{} ids are named, expected 1 to {IDS_MAX}", chosen.ids.len());
        return Err(Problem::of(Code::Invalid, detail));
    }
    if adopt && !chosen.attended && !caller.principal.has(Scope::ApproveUnattended) {
        let missing = format!(
            "adopting without a person at a terminal needs a token with the scope {}",
            Scope::ApproveUnattended.as_str()
        );
        deny(state, caller, "approve changes unattended", &missing).await?;
        return Err(Problem::of(Code::Denied, missing));
    }
    let decision = Decision { ids: chosen.ids.into_iter().collect(), adopt, attended: chosen.attended };
    let decided = decide_orphans(&state.store, &caller.by, &decision).await?;
    let key = if adopt { "adopted" } else { "dropped" };
    Ok(Json(json!({ key: decided.iter().map(describe).collect::<Vec<_>>() })))
}

fn describe(orphan: &Orphan) -> Value {
    let kind = match (&orphan.tool, &orphan.function) {
        (None, _) => "version",
        (Some(_), None) => "origin",
        (Some(_), Some(_)) => "function",
    };
    json!({
        "id": orphan.id(),
        "kind": kind,
        "edge": orphan.edge.as_str(),
        "plugin": orphan.version.plugin.as_str(),
        "version": orphan.version.version.to_string(),
        "tool": orphan.tool.as_ref().map(domain::id::ToolId::as_str),
        "function": orphan.function.as_deref(),
        "held": (!orphan.held.is_empty()).then_some(&orphan.held),
        "node": orphan.node.as_str(),
        "found_at": orphan.found_at.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::id::{EdgeName, NodeName, PluginVersion, ToolId};
    use domain::time::Timestamp;

    use super::*;

    #[test]
    fn pages_of_orphans_hold_each_of_them_once() {
        let orphan = |function: u32| Orphan {
            edge: EdgeName::parse("eu-1").unwrap(),
            version: PluginVersion::parse("team@1.0.0").unwrap(),
            tool: Some(ToolId::parse("team").unwrap()),
            function: Some(Arc::from(format!("f{function}"))),
            held: String::new(),
            node: NodeName::parse("node-1").unwrap(),
            found_at: Timestamp::default(),
        };
        let orphans: Vec<Orphan> = (0..25).map(orphan).collect();
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let items = by_id(&orphans, &cursor, 10);
            let Json(answer) = page(items, 10, "id");
            seen.extend(answer["items"].as_array().unwrap().iter().map(|one| one["function"].to_string()));
            let Some(next) = answer["next"].as_str() else { break };
            next.clone_into(&mut cursor);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), orphans.len());
    }
}
