//! What the whole fleet holds to when listings change.

use axum::extract::State;
use axum::{Extension, Json};
use domain::review::{FleetPolicy, Review};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::Caller;
use super::answer::Answer;
use super::input::Body;
use super::problem::Problem;
use crate::operation::Code;
use crate::operation::set_fleet_policy::{FleetPolicyChange, fleet_policy, set_fleet_policy};

/// What is to be set; what is absent stays.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    review_new_versions: Option<String>,
    approve_notation: Option<bool>,
    four_eyes: Option<bool>,
}

/// `GET /policy`.
pub(super) async fn show(State(state): State<AppState>) -> Answer {
    Ok(Json(describe(fleet_policy(&state.store).await?)))
}

/// `PUT /policy`.
pub(super) async fn set(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Body(wanted): Body<Wanted>,
) -> Answer {
    let change = FleetPolicyChange {
        review_new_versions: wanted.review_new_versions.as_deref().map(review).transpose()?,
        approve_notation: wanted.approve_notation,
        four_eyes: wanted.four_eyes,
    };
    let (policy, changed) = set_fleet_policy(&state.store, &caller.by, change).await?;
    Ok(Json(json!({ "changed": changed, "policy": describe(policy) })))
}

fn describe(policy: FleetPolicy) -> Value {
    json!({
        "review_new_versions": policy.review_new_versions.as_str(),
        "approve_notation": policy.approve_notation,
        "four_eyes": policy.four_eyes,
    })
}

fn review(word: &str) -> Result<Review, Problem> {
    Review::parse(word).ok_or_else(|| {
        let shown: String = word.chars().take(100).collect();
        let detail = format!("review_new_versions is `{shown}`, expected off, changed or all");
        Problem::of(Code::Invalid, detail)
    })
}
