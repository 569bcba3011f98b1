//! Whether the server lives, and whether it can do its work. For whoever asks, without a token.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::AppState;
use super::answer::Answer;

/// It answers.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({ "ok": true }))
}

/// It reaches its database.
pub(super) async fn readyz(State(state): State<AppState>) -> Answer {
    state.store.check().await?;
    Ok(Json(json!({ "ok": true })))
}
