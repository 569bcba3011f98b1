//! Join tokens, and the one string that holds all that a node needs.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::label::Labels;
use serde::Deserialize;
use serde_json::json;

use super::AppState;
use super::access::Caller;
use super::answer::{Answer, page};
use super::input::{self, Body, Page};
use crate::operation::issue_join_token::{issue_labelled, revoke_join_token};
use crate::store::{meta, tokens};

/// Life of a token unless the request says otherwise: an hour.
const TTL_MS: u64 = 3_600_000;

/// What a join token is made of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewJoinToken {
    edge: String,
    uses: Option<u64>,
    ttl_ms: Option<u64>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// `POST /join-tokens`.
pub(super) async fn create(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<NewJoinToken>,
) -> Answer {
    let edge = input::edge(&new.edge)?;
    let (uses, ttl_ms) = (new.uses.unwrap_or(1), new.ttl_ms.unwrap_or(TTL_MS));
    let labels = input::parse("", |_| Labels::new(&new.labels))?;
    let issued = issue_labelled(&state.store, &caller.by, &edge, (uses, ttl_ms), labels).await?;
    let mut tx = state.store.read().await?;
    let fleet = meta::get(&mut tx, meta::FLEET_ID).await?;
    let document = json!({
        "v": 1,
        "address": state.door.node_address,
        "token": issued.id,
        "secret": issued.secret,
        "ca": state.door.authority_sha256,
        "fleet": fleet,
    });
    let join = format!("pintle1.{}", URL_SAFE_NO_PAD.encode(document.to_string()));
    Ok(Json(json!({
        "id": issued.id,
        "join": join,
        "edge": edge.as_str(),
        "uses": uses,
        "expires_at": issued.expires_at.to_string(),
        "labels": new.labels,
    })))
}

/// `GET /join-tokens`.
pub(super) async fn list(State(state): State<AppState>, Query(query): Query<Page>) -> Answer {
    let limit = query.limit()?;
    let now = state.clock.now();
    let mut tx = state.store.read().await?;
    let items = tokens::list_join(&mut tx, &query.cursor, limit).await?;
    let items = items.into_iter().map(|token| {
        let state = match () {
            () if token.revoked_at.is_some() => "revoked",
            () if token.used >= token.uses => "used",
            () if now >= token.expires_at => "expired",
            () => "usable",
        };
        json!({
            "id": token.id,
            "state": state,
            "edge": token.edge.as_str(),
            "uses": token.uses,
            "used": token.used,
            "created_at": token.created_at.to_string(),
            "created_by": token.created_by,
            "expires_at": token.expires_at.to_string(),
            "revoked_at": token.revoked_at.map(|at| at.to_string()),
            "labels": token.labels.iter().collect::<BTreeMap<_, _>>(),
        })
    });
    Ok(page(items, limit, "id"))
}

/// `DELETE /join-tokens/{id}`.
pub(super) async fn revoke(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    revoke_join_token(&state.store, &caller.by, input::plain(&id)?).await?;
    Ok(Json(json!({ "id": id })))
}
