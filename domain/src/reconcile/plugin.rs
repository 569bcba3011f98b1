//! One plugin, decided without regard to the others.

use std::collections::BTreeSet;

use super::{Decision, Desired, Listed, Plugin, Stage, Standing, Step, Version, Wait};
use crate::id::{PluginName, PluginVersion, ToolId};
use crate::plugin_set::{Kind, PlannedVersion};
use crate::time::Timestamp;

pub(super) struct Deciding<'a> {
    pub(super) desired: &'a Desired<'a>,
    pub(super) name: &'a PluginName,
    pub(super) seen: &'a Plugin,
    pub(super) now: Timestamp,
}

impl Deciding<'_> {
    pub(super) fn decide(&self, decision: &mut Decision) {
        let assigned = self.desired.assigned(self.name);
        let (called, waits) = match assigned {
            None => self.leave(decision),
            Some(planned) => self.reach(planned, decision),
        };
        if assigned.is_none() && self.seen.versions.is_empty() {
            return;
        }
        let assigned = assigned.map(|planned| planned.version.clone());
        decision.standings.push(Standing { plugin: self.name.clone(), assigned, called, waits });
    }

    /// Nothing is assigned: calls stop first, then tools, then files go.
    fn leave(&self, decision: &mut Decision) -> (Option<PluginVersion>, Option<Wait>) {
        if self.seen.called.is_some() {
            decision.steps.push(Step::Silence(self.name.clone()));
        }
        (None, self.clear(|_| false, true, decision))
    }

    /// A version is assigned: it is installed and started beside what is called, and takes its place
    /// when that costs no function.
    fn reach(
        &self,
        planned: &PlannedVersion,
        decision: &mut Decision,
    ) -> (Option<PluginVersion>, Option<Wait>) {
        let target = &planned.version;
        let outgoing = self.seen.called.as_ref().filter(|called| *called != target);
        if let Some(outgoing) = outgoing.and_then(|outgoing| self.seen.versions.get_key_value(outgoing)) {
            self.run_tools(outgoing.0, outgoing.1, decision);
        }
        let seen = self.seen.versions.get(target);
        let obstacle = match seen {
            Some(version) if version.content != planned.content_digest => {
                Some(self.replace_content(planned, version, decision))
            }
            Some(version) => self.bring_up(planned, version, decision),
            None => {
                decision.steps.push(Step::Install(Box::new(planned.clone())));
                Some(Wait::Installing)
            }
        };
        let wait = match (obstacle, seen) {
            (None, Some(version)) if outgoing.is_some() => self.what_holds(target, version),
            (obstacle, _) => obstacle,
        };
        if wait.is_some() {
            self.clear(|version| version == target || Some(version) == outgoing, false, decision);
            return (self.seen.called.clone(), wait);
        }
        if self.seen.called.as_ref() != Some(target) {
            decision.steps.push(Step::Serve(target.clone()));
            // Commit is last: what was called until here is taken away by a decision that sees the set
            // again after the switch, so that a grant that was withdrawn meanwhile costs nothing.
            let wait = self.clear(|version| version == target || Some(version) == outgoing, false, decision);
            return (Some(target.clone()), wait);
        }
        // Files of earlier versions go only now that their replacement serves.
        let wait = self.clear(|version| version == target, true, decision);
        (Some(target.clone()), wait)
    }

    /// Under the version's name there is something else than the plan says: never called, never mixed.
    fn replace_content(&self, planned: &PlannedVersion, seen: &Version, decision: &mut Decision) -> Wait {
        let version = &planned.version;
        match &seen.stage {
            Stage::Downloading => decision.steps.push(Step::Cancel(version.clone())),
            Stage::Stopping => {}
            Stage::Failed(_) => decision.steps.push(Step::Install(Box::new(planned.clone()))),
            Stage::Installed => {
                if self.seen.called.as_ref() == Some(version) {
                    decision.steps.push(Step::Silence(self.name.clone()));
                }
                let step = if seen.tools.values().any(|tool| tool.on) { Step::Stop } else { Step::Remove };
                decision.steps.push(step(version.clone()));
            }
        }
        Wait::Installing
    }

    /// Takes the version as far as its tools; says what is in the way of that.
    fn bring_up(&self, planned: &PlannedVersion, seen: &Version, decision: &mut Decision) -> Option<Wait> {
        match &seen.stage {
            Stage::Downloading => Some(Wait::Installing),
            Stage::Failed(failure) if failure.next_try <= self.now => {
                decision.steps.push(Step::Install(Box::new(planned.clone())));
                Some(Wait::Installing)
            }
            Stage::Failed(failure) => {
                let next_try = failure.next_try;
                decision.wake = decision.wake.map_or(Some(next_try), |wake| Some(wake.min(next_try)));
                let reason = failure.reason.clone();
                Some(Wait::Retry { reason, attempts: failure.attempts, next_try })
            }
            // It was taken away and is assigned again before it had stopped.
            Stage::Stopping => Some(Wait::Stopping(BTreeSet::from([planned.version.clone()]))),
            Stage::Installed => {
                self.run_tools(&planned.version, seen, decision);
                None
            }
        }
    }

    fn run_tools(&self, version: &PluginVersion, seen: &Version, decision: &mut Decision) {
        if seen.stage != Stage::Installed {
            return;
        }
        for (id, tool) in &seen.tools {
            match (self.desired.runs(tool.kind), tool.on) {
                (true, false) => decision.steps.push(Step::StartTool(version.clone(), id.clone())),
                (false, true) => decision.steps.push(Step::StopTool(version.clone(), id.clone())),
                _ => {}
            }
        }
    }

    /// What holds the switch from an outgoing version: functions that its replacement could not serve
    /// yet. A remote tool that moved, is not reached or lists in part does not, nor a kind that is not
    /// run here.
    fn what_holds(&self, target: &PluginVersion, seen: &Version) -> Option<Wait> {
        let mut unlisted = BTreeSet::new();
        let mut unrecorded = BTreeSet::new();
        for (id, tool) in seen.tools.iter().filter(|(_, tool)| self.desired.runs(tool.kind)) {
            if tool.kind == Kind::Url && self.desired.has_moved(target, id) {
                continue;
            }
            match tool.listed {
                Listed::Partly if tool.kind == Kind::Url => {}
                Listed::Not | Listed::Partly => {
                    unlisted.insert(ToolId::clone(id));
                }
                Listed::Completely if self.desired.has_snapshot(target, id) => {}
                Listed::Completely => {
                    unrecorded.insert(ToolId::clone(id));
                }
            }
        }
        match (unlisted.is_empty(), unrecorded.is_empty()) {
            (false, _) => Some(Wait::Listings(unlisted)),
            (true, false) => Some(Wait::Snapshots(unrecorded)),
            (true, true) => None,
        }
    }

    /// Stops versions that are not kept, and removes their files if that is due; says what still
    /// stops.
    fn clear(
        &self,
        keep: impl Fn(&PluginVersion) -> bool,
        remove: bool,
        decision: &mut Decision,
    ) -> Option<Wait> {
        let mut stopping = BTreeSet::new();
        for (version, seen) in self.seen.versions.iter().filter(|(version, _)| !keep(version)) {
            match &seen.stage {
                Stage::Downloading => decision.steps.push(Step::Cancel(version.clone())),
                Stage::Stopping => {
                    stopping.insert(version.clone());
                }
                Stage::Installed if seen.tools.values().any(|tool| tool.on) => {
                    decision.steps.push(Step::Stop(version.clone()));
                    stopping.insert(version.clone());
                }
                Stage::Installed | Stage::Failed(_) if remove => {
                    decision.steps.push(Step::Remove(version.clone()));
                }
                Stage::Installed | Stage::Failed(_) => {}
            }
        }
        (!stopping.is_empty()).then_some(Wait::Stopping(stopping))
    }
}
