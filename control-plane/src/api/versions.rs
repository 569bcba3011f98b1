//! Pushing a version.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use domain::digest::Digest;
use serde_json::json;

use super::AppState;
use super::access::Caller;
use super::input::parse;
use super::problem::Problem;
use crate::operation::Code;
use crate::operation::push_version::{UPLOAD_MAX, push_version};

/// The header with the SHA-256 that the archive should have.
const ANNOUNCED: &str = "pintle-archive-sha256";

/// `POST /plugins/versions`: the bundle's bytes, streamed to the disk as they come.
pub(super) async fn push(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let announced = text(ANNOUNCED).map(|text| parse(text, Digest::parse)).transpose()?;
    // Said before the bytes are sent, so that nobody waits for an upload in vain.
    let length = text("content-length").and_then(|length| length.parse::<u64>().ok());
    if let Some(length) = length.filter(|length| *length > UPLOAD_MAX) {
        let detail = format!("the upload has {length} bytes, at most {UPLOAD_MAX} are taken");
        return Err(Problem::of(Code::TooLarge, detail));
    }
    let pushed =
        push_version((&state.store, &state.blobs), &caller.by, body.into_data_stream(), announced).await?;
    let status = if pushed.created { StatusCode::CREATED } else { StatusCode::OK };
    let body = json!({
        "plugin": pushed.version.plugin.as_str(),
        "version": pushed.version.version.to_string(),
        "content_digest": pushed.content_digest.to_string(),
        "archive_sha256": pushed.archive_sha256.to_string(),
        "archive_length": pushed.archive_length,
        "created": pushed.created,
    });
    Ok((status, Json(body)).into_response())
}
