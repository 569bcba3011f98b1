//! What of each version is on this node, as the reconciler knows it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::digest::Digest;
use domain::id::{PluginName, PluginVersion, ToolId};
use domain::plugin_set::PlannedVersion;
use domain::reconcile::{Failure, Observed, Stage, Tool, Version};
use tokio_util::sync::CancellationToken;

use crate::supervisor::Bundle;

/// Every version of which there is anything.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub(super) versions: BTreeMap<PluginVersion, OneVersion>,
    /// Which version of a plugin is called.
    pub(super) called: BTreeMap<PluginName, PluginVersion>,
    /// Tries to install so far, of any version.
    tries: u64,
}

/// One version.
#[derive(Debug)]
pub(super) struct OneVersion {
    pub(super) content: Digest,
    pub(super) stage: Stage,
    bundle: Option<Bundle>,
    cancel: Option<CancellationToken>,
    attempts: u32,
    /// Which try to install it is under way.
    number: u64,
    /// Kept while it is tried again, for people.
    pub(super) last_failure: Option<Arc<str>>,
    /// Tools that are being stopped: on to the reconciler, so that they are not stopped twice.
    stopping_tools: BTreeSet<ToolId>,
}

impl Local {
    pub(super) fn observed(&self, tools: impl Fn(&PluginVersion) -> BTreeMap<ToolId, Tool>) -> Observed {
        let mut observed = Observed::default();
        for (version, one) in &self.versions {
            let plugin = observed.plugins.entry(version.plugin.clone()).or_default();
            let mut tools = tools(version);
            // A tool on its way down is neither started nor stopped once more; it is left out.
            tools.retain(|tool, _| !one.stopping_tools.contains(tool));
            let seen = Version { content: one.content, stage: one.stage.clone(), tools };
            plugin.versions.insert(version.clone(), seen);
        }
        for (plugin, version) in &self.called {
            observed.plugins.entry(plugin.clone()).or_default().called = Some(version.clone());
        }
        observed
    }

    pub(super) fn installed(&mut self, content: Digest, bundle: Bundle) {
        let version = bundle.version.clone();
        let one = OneVersion {
            content,
            stage: Stage::Installed,
            bundle: Some(bundle),
            cancel: None,
            attempts: 0,
            number: 0,
            last_failure: None,
            stopping_tools: BTreeSet::new(),
        };
        self.versions.insert(version, one);
    }

    /// A try to install begins; returns its number.
    pub(super) fn installing(&mut self, planned: &PlannedVersion, cancel: CancellationToken) -> u64 {
        self.tries += 1;
        let earlier = self.versions.remove(&planned.version);
        let one = OneVersion {
            content: planned.content_digest,
            stage: Stage::Downloading,
            bundle: None,
            cancel: Some(cancel),
            attempts: earlier.as_ref().map_or(0, |one| one.attempts),
            number: self.tries,
            last_failure: earlier.and_then(|one| one.last_failure),
            stopping_tools: BTreeSet::new(),
        };
        self.versions.insert(planned.version.clone(), one);
        self.tries
    }

    /// Whether the outcome of that try is still waited for.
    pub(super) fn awaits(&self, version: &PluginVersion, number: u64) -> bool {
        let one = self.versions.get(version);
        one.is_some_and(|one| one.stage == Stage::Downloading && one.number == number)
    }

    pub(super) fn failed(&mut self, version: &PluginVersion, failure: Failure) {
        if let Some(one) = self.versions.get_mut(version) {
            one.attempts = failure.attempts;
            one.last_failure = Some(Arc::clone(&failure.reason));
            one.stage = Stage::Failed(failure);
            one.cancel = None;
        }
    }

    pub(super) fn attempts(&self, version: &PluginVersion) -> u32 {
        self.versions.get(version).map_or(0, |one| one.attempts)
    }

    pub(super) fn last_failure(&self, version: &PluginVersion) -> Option<Arc<str>> {
        self.versions.get(version)?.last_failure.clone()
    }

    pub(super) fn cancel(&mut self, version: &PluginVersion) {
        if let Some(cancel) = self.versions.remove(version).and_then(|one| one.cancel) {
            cancel.cancel();
        }
    }

    pub(super) fn bundle(&self, version: &PluginVersion) -> Option<Bundle> {
        self.versions.get(version)?.bundle.clone()
    }

    /// Tools of any version of the plugin that is on the disk.
    pub(super) fn tools_of(&self, plugin: &PluginName) -> Vec<ToolId> {
        let versions = self.versions.iter().filter(|(version, _)| version.plugin == *plugin);
        let bundles = versions.filter_map(|(_, one)| one.bundle.as_ref());
        let tools: BTreeSet<ToolId> = bundles
            .flat_map(|bundle| bundle.tools().map(|(id, ..)| id.clone()).collect::<Vec<_>>())
            .collect();
        tools.into_iter().collect()
    }

    pub(super) fn stopping(&mut self, version: &PluginVersion) {
        self.set_stage(version, Stage::Stopping);
    }

    pub(super) fn stopped(&mut self, version: &PluginVersion) {
        self.set_stage(version, Stage::Installed);
    }

    pub(super) fn stopping_tool(&mut self, version: &PluginVersion, tool: &ToolId) {
        if let Some(one) = self.versions.get_mut(version) {
            one.stopping_tools.insert(tool.clone());
        }
    }

    pub(super) fn tool_stopped(&mut self, version: &PluginVersion, tool: &ToolId) {
        if let Some(one) = self.versions.get_mut(version) {
            one.stopping_tools.remove(tool);
        }
    }

    /// The content whose folder is to be removed, if the version was on the disk.
    pub(super) fn remove(&mut self, version: &PluginVersion) -> Option<Digest> {
        let one = self.versions.remove(version)?;
        Some(one.content)
    }

    fn set_stage(&mut self, version: &PluginVersion, stage: Stage) {
        if let Some(one) = self.versions.get_mut(version) {
            one.stage = stage;
        }
    }
}
