//! Sets what the whole fleet holds to when listings change.

use std::collections::BTreeMap;

use domain::audit::Event;
use domain::review::{FleetPolicy, Review};

use super::{By, Error};
use crate::store::{Store, policies};

/// What is to be set; what is `None` stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetPolicyChange {
    /// Which functions of a new version wait.
    pub review_new_versions: Option<Review>,
    /// Whether a change of notation is approved by a rule.
    pub approve_notation: Option<bool>,
    /// Whether nobody approves what they pushed or assigned.
    pub four_eyes: Option<bool>,
}

/// What the fleet holds to.
///
/// # Errors
/// What the store says.
pub async fn fleet_policy(store: &Store) -> Result<FleetPolicy, Error> {
    let mut tx = store.read().await?;
    Ok(policies::of_fleet(&mut tx).await?)
}

/// Sets them, for what is pushed, assigned or listed from here on. Answers with the policy, and whether
/// anything changed.
///
/// # Errors
/// What the store says.
pub async fn set_fleet_policy(
    store: &Store,
    by: &By,
    change: FleetPolicyChange,
) -> Result<(FleetPolicy, bool), Error> {
    let mut tx = store.begin_write().await?;
    let before = policies::of_fleet(tx.tx()).await?;
    let after = FleetPolicy {
        review_new_versions: change.review_new_versions.unwrap_or(before.review_new_versions),
        approve_notation: change.approve_notation.unwrap_or(before.approve_notation),
        four_eyes: change.four_eyes.unwrap_or(before.four_eyes),
    };
    let (earlier, now) = (settings(before), settings(after));
    let changes: BTreeMap<&'static str, (String, String)> = earlier
        .into_iter()
        .zip(now)
        .filter(|(earlier, now)| earlier != now)
        .map(|((name, earlier), (_, now))| (name, (earlier, now)))
        .collect();
    if changes.is_empty() {
        return Ok((before, false));
    }
    policies::put_of_fleet(tx.tx(), after).await?;
    tx.audit(&by.origin, Event::PolicySet { changes });
    tx.commit(by.now).await?;
    Ok((after, true))
}

/// Each setting as text, in one order.
fn settings(policy: FleetPolicy) -> [(&'static str, String); 3] {
    [
        ("review_new_versions", policy.review_new_versions.as_str().to_owned()),
        ("approve_notation", policy.approve_notation.to_string()),
        ("four_eyes", policy.four_eyes.to_string()),
    ]
}
