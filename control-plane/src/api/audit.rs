//! The audit log: reading on from a number, newest first, and verifying all of it.

use axum::Json;
use axum::extract::{Query, State};
use domain::audit::Record;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::answer::{Answer, page};
use super::input::{self, Page};
use crate::operation::verify_audit::verify_audit;
use crate::store::audits::{self, Filter};

/// Which events.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    /// Those after this number, oldest first.
    after: Option<u64>,
    /// Those before this number, newest first; counts only without `after`.
    before: Option<u64>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    subject: String,
    limit: Option<u64>,
    #[serde(default)]
    cursor: String,
}

/// `GET /audit`. Without `after` the newest come first, without `before` from the end.
pub(super) async fn list(State(state): State<AppState>, Query(which): Query<Which>) -> Answer {
    let limit = Page::new(which.limit, &which.cursor).limit()?;
    input::plain(&which.name)?;
    input::plain(&which.subject)?;
    let filter = Filter { name: which.name, subject: which.subject };
    let cursor = which.cursor.parse::<u64>().ok();
    let mut tx = state.store.read().await?;
    let records = match (which.after, which.before) {
        (Some(after), _) => audits::after(&mut tx, cursor.unwrap_or(after), &filter, limit).await?,
        (None, before) => {
            let before = cursor.or(before).unwrap_or(u64::MAX);
            audits::before(&mut tx, before, &filter, limit).await?
        }
    };
    let items = records.iter().map(describe);
    Ok(page(items, limit, "seq"))
}

/// `GET /audit/verify`.
pub(super) async fn verify(State(state): State<AppState>) -> Answer {
    let verified = verify_audit(&state.store).await?;
    Ok(Json(json!({
        "events": verified.tail.seq,
        "head": verified.tail.hash.to_string(),
        "ok": verified.fault.is_none(),
        "first_bad": verified.fault.as_ref().map(|fault| fault.seq),
        "reason": verified.fault.as_ref().map(|fault| fault.fault.clone()),
    })))
}

fn describe(record: &Record) -> Value {
    json!({
        "seq": record.seq,
        "at": record.at.to_string(),
        "actor": record.actor,
        "source": record.source,
        "name": record.name,
        "subject": record.subject,
        "fields": serde_json::from_str::<Value>(&record.fields).unwrap_or(Value::Null),
        "prev": record.prev.to_string(),
        "hash": record.hash.to_string(),
    })
}
