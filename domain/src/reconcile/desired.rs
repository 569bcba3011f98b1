//! What the plugin set asks of the node.

use crate::id::{PluginName, PluginVersion, ToolId};
use crate::plugin_set::{Grants, Kind, OriginTrust, Plan, PlannedVersion, Policy, Trust, assigned};

/// The plugin set, as held.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'s> {
    /// What the fleet goes by.
    pub trust: &'s Trust,
    /// Versions of the edge.
    pub plan: &'s Plan,
    /// Limits.
    pub policy: &'s Policy,
    /// What this node is granted.
    pub grants: &'s Grants,
    /// Kinds that this build of the node runs at all.
    pub runs: &'s [Kind],
}

impl<'s> Desired<'s> {
    /// Plugins that the plan names.
    pub fn plugins(&self) -> impl Iterator<Item = &'s PluginName> + use<'s> {
        self.plan.plugins.keys()
    }

    /// The version of the plugin that the node is to serve.
    pub fn assigned(&self, plugin: &PluginName) -> Option<&'s PlannedVersion> {
        assigned(self.plan.plugins.get(plugin)?, self.grants.plugins.get(plugin))
    }

    /// Whether tools of this kind are run here.
    pub fn runs(&self, kind: Kind) -> bool {
        self.runs.contains(&kind) && !self.policy.forbidden_kinds.contains(&kind)
    }

    /// Whether a first complete listing of the tool was recorded.
    pub(super) fn has_snapshot(&self, version: &PluginVersion, tool: &ToolId) -> bool {
        let trust = self.trust.versions.get(version).and_then(|trust| trust.tools.get(tool));
        trust.is_some_and(|trust| trust.snapshot_taken)
    }

    /// Whether the tool is not called until somebody approves where it is.
    pub(super) fn has_moved(&self, version: &PluginVersion, tool: &ToolId) -> bool {
        let trust = self.trust.versions.get(version).and_then(|trust| trust.tools.get(tool));
        let origin = trust.and_then(|trust| trust.origin.as_ref());
        matches!(origin, Some(OriginTrust::Moved { .. } | OriginTrust::New { .. }))
    }
}
