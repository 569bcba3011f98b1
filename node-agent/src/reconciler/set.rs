//! The plugin set as the link hands it to the reconciler.

use std::sync::Arc;

use domain::plugin_set::{Grants, Kind, Plan, Policy, Trust};
use domain::reconcile::Desired;

/// The plugin set. Nothing of it is gone by until it is held.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginSet {
    /// Whether it is gone by: each part was confirmed, or received and made durable, in this boot, or the
    /// edge leases what was stored. Set by [`crate::reliance`] alone.
    pub(crate) held: bool,
    pub(crate) trust: Arc<Trust>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) policy: Policy,
    pub(crate) grants: Arc<Grants>,
}

impl PluginSet {
    pub(crate) fn desired<'s>(&'s self, runs: &'s [Kind]) -> Desired<'s> {
        Desired { trust: &self.trust, plan: &self.plan, policy: &self.policy, grants: &self.grants, runs }
    }
}
