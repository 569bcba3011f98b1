//! API tokens.

use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use domain::role::Role;
use serde::Deserialize;
use serde_json::json;

use super::AppState;
use super::access::Caller;
use super::answer::{Answer, page};
use super::input::{self, Body, Page};
use super::problem::Problem;
use crate::auth::Scope;
use crate::operation::Code;
use crate::operation::issue_token::{TokenRequest, issue_token, revoke_token};
use crate::store::tokens;

/// Longest life of a token that ends: ten years, so that no arithmetic overflows.
const TTL_MAX_MS: u64 = 10 * 366 * 24 * 3_600_000;

/// What a token is made of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    name: String,
    roles: Vec<String>,
    #[serde(default)]
    scopes: Vec<String>,
    ttl_ms: Option<u64>,
}

/// `POST /tokens`.
pub(super) async fn create(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<NewToken>,
) -> Answer {
    let roles = new.roles.iter().map(|word| {
        let words = Role::ALL.map(Role::as_str).join(", ");
        Role::parse(word)
            .ok_or_else(|| Problem::of(Code::Invalid, format!("`{word}` is no role; roles are {words}")))
    });
    let scopes = new.scopes.iter().map(|word| {
        let words = Scope::ALL.map(Scope::as_str).join(", ");
        Scope::parse(word)
            .ok_or_else(|| Problem::of(Code::Invalid, format!("`{word}` is no scope; scopes are {words}")))
    });
    if let Some(ttl_ms) = new.ttl_ms.filter(|ttl_ms| *ttl_ms > TTL_MAX_MS) {
        return Err(Problem::of(Code::Invalid, format!("ttl_ms is {ttl_ms}, expected at most {TTL_MAX_MS}")));
    }
    let request = TokenRequest {
        name: new.name.clone(),
        roles: roles.collect::<Result<_, _>>()?,
        scopes: scopes.collect::<Result<_, _>>()?,
        expires_at: new
            .ttl_ms
            .map(|ttl_ms| caller.by.now.plus_millis(i64::try_from(ttl_ms).unwrap_or(i64::MAX))),
    };
    let issued = issue_token(&state.store, &caller.by, &request).await?;
    Ok(Json(json!({
        "id": issued.id,
        "token": issued.token,
        "expires_at": request.expires_at.map(|at| at.to_string()),
    })))
}

/// `GET /tokens`.
pub(super) async fn list(State(state): State<AppState>, Query(query): Query<Page>) -> Answer {
    let limit = query.limit()?;
    let words =
        |text: &str| text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let mut tx = state.store.read().await?;
    let items = tokens::list(&mut tx, &query.cursor, limit).await?.into_iter().map(|token| {
        json!({
            "id": token.id,
            "name": token.name,
            "roles": words(&token.roles),
            "scopes": words(&token.scopes),
            "created_at": token.created_at.to_string(),
            "created_by": token.created_by,
            "expires_at": token.expires_at.map(|at| at.to_string()),
            "revoked_at": token.revoked_at.map(|at| at.to_string()),
        })
    });
    Ok(page(items, limit, "id"))
}

/// `GET /tokens/self`: whose token this is.
pub(super) async fn show_own(Extension(caller): Extension<Caller>) -> Answer {
    let principal = caller.principal;
    Ok(Json(json!({
        "id": principal.token,
        "name": principal.name,
        "roles": principal.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>(),
        "scopes": principal.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>(),
    })))
}

/// `DELETE /tokens/{id}`.
pub(super) async fn revoke(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    revoke_token(&state.store, &caller.by, input::plain(&id)?).await?;
    Ok(Json(json!({ "id": id })))
}
