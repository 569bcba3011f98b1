use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::digest::Digest;
use crate::plugin_set::{
    Grant, GrantUse, Grants, Kind, OriginTrust, Plan, PlannedPlugin, PlannedTool, Policy, ToolTrust, Trust,
    VersionTrust,
};

fn now(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn version(text: &str) -> PluginVersion {
    PluginVersion::parse(text).unwrap()
}

fn tool(text: &str) -> ToolId {
    ToolId::parse(text).unwrap()
}

fn planned(name: &str) -> PlannedVersion {
    let tools = [(tool("local"), Kind::Command), (tool("remote"), Kind::Url)];
    PlannedVersion {
        version: version(name),
        content_digest: Digest::of(name.as_bytes()),
        archive_sha256: Digest::of(b"archive"),
        archive_length: 1,
        tools: tools
            .into_iter()
            .map(|(id, kind)| (id, PlannedTool { kind, url: None, connection: None }))
            .collect(),
    }
}

/// A node that does what it is told, at once or as the test says.
struct Node {
    trust: Trust,
    plan: Plan,
    policy: Policy,
    grants: Grants,
    observed: Observed,
}

impl Node {
    fn new() -> Self {
        Self {
            trust: Trust::default(),
            plan: Plan::default(),
            policy: Policy::default(),
            grants: Grants::default(),
            observed: Observed::default(),
        }
    }

    fn assign(&mut self, name: &str) {
        let installed = planned(name);
        let plugin = installed.version.plugin.clone();
        let entry = PlannedPlugin { installed: Some(installed), candidate: None };
        self.plan.plugins.insert(plugin, Arc::new(entry));
    }

    fn unassign(&mut self, plugin: &str) {
        self.plan.plugins.remove(plugin);
    }

    /// A rollout tries this version on some nodes of the edge.
    fn rollout(&mut self, source: &str, name: &str) {
        let candidate = planned(name);
        let entry = self.plan.plugins.entry(candidate.version.plugin.clone()).or_default();
        Arc::make_mut(entry).candidate = Some((source.into(), candidate));
    }

    fn end_rollout(&mut self, plugin: &str) {
        if let Some(entry) = self.plan.plugins.get_mut(plugin) {
            Arc::make_mut(entry).candidate = None;
        }
    }

    fn grant(&mut self, source: &str, name: &str, usage: GrantUse) {
        let version = version(name);
        let grant = Grant { source: source.into(), version: version.clone(), usage };
        self.grants.plugins.insert(version.plugin, grant);
    }

    fn assigned(&self, plugin: &str) -> Option<String> {
        let planned = self.plan.plugins.get(plugin)?;
        let assigned = crate::plugin_set::assigned(planned, self.grants.plugins.get(plugin))?;
        Some(assigned.version.to_string())
    }

    fn snapshot(&mut self, name: &str) {
        let taken = ToolTrust { snapshot_taken: true, ..ToolTrust::default() };
        let tools = ["local", "remote"].iter().map(|id| (tool(id), taken.clone())).collect();
        self.trust
            .versions
            .insert(version(name), Arc::new(VersionTrust { tools, ..VersionTrust::default() }));
    }

    fn decide(&self, at: i64) -> Decision {
        let desired = Desired {
            trust: &self.trust,
            plan: &self.plan,
            policy: &self.policy,
            grants: &self.grants,
            runs: &[Kind::Command, Kind::Url],
        };
        reconcile(&desired, &self.observed, now(at))
    }

    fn plugin(&mut self, version: &PluginVersion) -> &mut Plugin {
        self.observed.plugins.entry(version.plugin.clone()).or_default()
    }

    fn on_disk(&mut self, name: &str) -> &mut Version {
        let version = version(name);
        let kinds = [("local", Kind::Command), ("remote", Kind::Url)];
        let seen = Version {
            content: Digest::of(name.as_bytes()),
            stage: Stage::Installed,
            tools: kinds.map(|(id, kind)| (tool(id), Tool { kind, on: false, listed: Listed::Not })).into(),
        };
        self.plugin(&version).versions.insert(version.clone(), seen);
        self.seen(name)
    }

    fn seen(&mut self, name: &str) -> &mut Version {
        let version = version(name);
        self.plugin(&version).versions.get_mut(&version).unwrap()
    }

    /// Performs every step as far as `Install` and `Stop`, which take time.
    fn perform(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Install(planned) => {
                    let seen = Version {
                        content: planned.content_digest,
                        stage: Stage::Downloading,
                        tools: BTreeMap::new(),
                    };
                    self.plugin(&planned.version).versions.insert(planned.version.clone(), seen);
                }
                Step::Cancel(version) | Step::Remove(version) => {
                    self.plugin(version).versions.remove(version);
                }
                Step::StartTool(version, id) | Step::StopTool(version, id) => {
                    let on = matches!(step, Step::StartTool(..));
                    let seen = self.seen(&version.to_string());
                    let tool = seen.tools.get_mut(id).unwrap();
                    (tool.on, tool.listed) = (on, Listed::Not);
                }
                Step::Serve(version) => {
                    assert_eq!(self.seen(&version.to_string()).stage, Stage::Installed);
                    self.plugin(version).called = Some(version.clone());
                }
                Step::Silence(plugin) => self.observed.plugins.get_mut(plugin).unwrap().called = None,
                Step::Stop(version) => {
                    assert_ne!(self.plugin(version).called.as_ref(), Some(version), "stopped while called");
                    self.seen(&version.to_string()).stage = Stage::Stopping;
                }
            }
        }
        self.observed.plugins.retain(|_, plugin| !plugin.versions.is_empty());
    }

    /// Lets everything that takes time end well.
    fn settle(&mut self, name: &str) {
        let seen = self.seen(name);
        match seen.stage {
            Stage::Downloading | Stage::Failed(_) => {
                self.on_disk(name);
            }
            Stage::Stopping => {
                seen.stage = Stage::Installed;
                seen.tools.values_mut().for_each(|tool| (tool.on, tool.listed) = (false, Listed::Not));
            }
            Stage::Installed => {
                let on = seen.tools.values_mut().filter(|tool| tool.on);
                on.for_each(|tool| tool.listed = Listed::Completely);
                self.snapshot(name);
            }
        }
    }

    fn called(&self, plugin: &str) -> Option<String> {
        self.observed.plugins.get(plugin)?.called.as_ref().map(ToString::to_string)
    }

    fn run(&mut self, at: i64) -> Decision {
        let decision = self.decide(at);
        self.perform(&decision.steps);
        decision
    }

    /// A node that calls `old` while `new` is assigned and on the disk with its tools on.
    fn updating(old: &str, new: &str) -> Self {
        let mut node = Self::new();
        node.assign(old);
        node.on_disk(old);
        node.run(0);
        node.settle(old);
        assert_eq!(node.called("team").as_deref(), Some(old));
        node.assign(new);
        node.on_disk(new);
        node.run(0);
        node
    }
}

// R3.32
#[test]
fn a_failed_install_leaves_what_is_called_and_is_tried_again_when_its_time_has_come() {
    let mut node = Node::new();
    node.assign("team@1.0.0");
    node.on_disk("team@1.0.0");
    node.run(0);
    node.assign("team@1.1.0");
    assert!(node.run(0).steps.iter().any(|step| matches!(step, Step::Install(_))));
    let failure = Failure { reason: "disk full".into(), attempts: 1, next_try: now(500) };
    node.seen("team@1.1.0").stage = Stage::Failed(failure);
    let waiting = node.run(499);
    assert_eq!(waiting.steps, []);
    assert_eq!(waiting.wake, Some(now(500)));
    assert!(
        matches!(&waiting.standings[0].waits, Some(Wait::Retry { reason, .. }) if &**reason == "disk full")
    );
    assert_eq!(node.called("team").as_deref(), Some("team@1.0.0"));
    assert!(matches!(node.run(500).steps[..], [Step::Install(_)]));
}

#[test]
fn the_switch_waits_for_complete_listings_and_for_their_snapshots() {
    let mut node = Node::updating("team@1.0.0", "team@1.1.0");
    let waits = |node: &Node| node.decide(0).standings[0].waits.clone();
    let both = BTreeSet::from([tool("local"), tool("remote")]);
    assert_eq!(waits(&node), Some(Wait::Listings(both.clone())));
    node.seen("team@1.1.0").tools.values_mut().for_each(|tool| tool.listed = Listed::Completely);
    assert_eq!(waits(&node), Some(Wait::Snapshots(both)));
    assert_eq!(node.called("team").as_deref(), Some("team@1.0.0"));
    node.snapshot("team@1.1.0");
    assert_eq!(node.run(0).steps, [Step::Serve(version("team@1.1.0"))]);
    assert_eq!(node.called("team").as_deref(), Some("team@1.1.0"));
    assert_eq!(node.run(0).steps, [Step::Stop(version("team@1.0.0"))]);
    node.settle("team@1.0.0");
    assert_eq!(node.run(0).steps, [Step::Remove(version("team@1.0.0"))]);
}

#[test]
fn a_local_tool_that_lists_in_part_holds_the_switch_and_a_remote_one_does_not() {
    let mut node = Node::updating("team@1.0.0", "team@1.1.0");
    node.snapshot("team@1.1.0");
    node.seen("team@1.1.0").tools.values_mut().for_each(|tool| tool.listed = Listed::Partly);
    assert_eq!(node.decide(0).standings[0].waits, Some(Wait::Listings(BTreeSet::from([tool("local")]))));
    node.seen("team@1.1.0").tools.get_mut(&tool("local")).unwrap().listed = Listed::Completely;
    assert_eq!(node.decide(0).standings[0].called, Some(version("team@1.1.0")));
}

// R3.63
#[test]
fn a_tool_that_moved_does_not_hold_the_switch_even_without_a_snapshot() {
    let mut node = Node::updating("team@1.0.0", "team@1.1.0");
    node.snapshot("team@1.1.0");
    let trust = Arc::make_mut(node.trust.versions.get_mut(&version("team@1.1.0")).unwrap());
    let origin = OriginTrust::Moved { origin: "https://b.example".into(), earlier: Vec::new() };
    trust.tools.insert(tool("remote"), ToolTrust { origin: Some(origin), ..ToolTrust::default() });
    node.seen("team@1.1.0").tools.values_mut().for_each(|tool| tool.listed = Listed::Completely);
    assert_eq!(node.decide(0).standings[0].called, Some(version("team@1.1.0")));
}

#[test]
fn a_kind_that_policy_forbids_is_stopped_and_does_not_hold_the_switch() {
    let mut node = Node::updating("team@1.0.0", "team@1.1.0");
    node.policy.forbidden_kinds = vec![Kind::Url];
    let steps = node.run(0).steps;
    for name in ["team@1.0.0", "team@1.1.0"] {
        assert!(steps.contains(&Step::StopTool(version(name), tool("remote"))), "{name}");
    }
    node.seen("team@1.1.0").tools.get_mut(&tool("local")).unwrap().listed = Listed::Completely;
    node.snapshot("team@1.1.0");
    assert_eq!(node.decide(0).standings[0].called, Some(version("team@1.1.0")));
}

// R3.30, R3.31, R3.33, R3.34
#[test]
fn a_node_that_started_again_does_not_call_the_earlier_version_but_keeps_its_files() {
    let mut node = Node::new();
    node.assign("team@1.1.0");
    node.on_disk("team@1.0.0");
    let decision = node.run(0);
    assert!(matches!(decision.steps[..], [Step::Install(_)]), "{:?}", decision.steps);
    assert_eq!(decision.standings[0].called, None);
    node.assign("team@1.0.0");
    let back = node.run(0);
    assert!(back.steps.contains(&Step::Serve(version("team@1.0.0"))));
    assert!(back.steps.contains(&Step::Cancel(version("team@1.1.0"))));
}

#[test]
fn what_is_no_longer_assigned_is_silenced_before_it_is_stopped_and_then_removed() {
    let mut node = Node::updating("team@1.0.0", "team@1.1.0");
    node.unassign("team");
    let steps = node.run(0).steps;
    assert_eq!(steps[0], Step::Silence(PluginName::parse("team").unwrap()));
    assert_eq!(steps.len(), 3, "{steps:?}");
    node.settle("team@1.0.0");
    node.settle("team@1.1.0");
    assert!(matches!(node.run(0).steps[..], [Step::Remove(_), Step::Remove(_)]));
    assert!(node.decide(0).standings.is_empty());
}

#[test]
fn other_content_under_an_assigned_name_is_never_called() {
    let mut node = Node::new();
    node.on_disk("team@1.0.0").content = Digest::of(b"something else");
    node.assign("team@1.0.0");
    assert_eq!(node.run(0).steps, [Step::Remove(version("team@1.0.0"))]);
    assert!(matches!(node.run(0).steps[..], [Step::Install(_)]));
}

#[test]
fn what_is_there_is_started_and_served_before_anything_is_downloaded() {
    let mut node = Node::new();
    node.assign("maps@1.0.0");
    node.assign("team@1.0.0");
    node.on_disk("team@1.0.0");
    let steps = node.run(0).steps;
    assert!(matches!(steps.first(), Some(Step::StartTool(version, _)) if version.plugin.as_str() == "team"));
    assert!(
        matches!(steps.last(), Some(Step::Install(planned)) if planned.version.plugin.as_str() == "maps")
    );
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Install(_))).count(), 1);
    assert_eq!(
        node.called("team").as_deref(),
        Some("team@1.0.0"),
        "it does not wait for the other's download"
    );
}

#[test]
fn a_grant_is_asked_for_again_before_install_before_switch_and_before_commit() {
    let start = || {
        let mut node = Node::new();
        node.assign("team@1.0.0");
        node.on_disk("team@1.0.0");
        node.run(0);
        node.settle("team@1.0.0");
        node.rollout("r-1", "team@1.1.0");
        node.grant("r-1", "team@1.1.0", GrantUse::Serve);
        node
    };
    // Withdrawn while it downloads: given up.
    let mut node = start();
    assert!(matches!(node.run(0).steps[..], [Step::Install(_)]));
    node.end_rollout("team");
    assert_eq!(node.run(0).steps, [Step::Cancel(version("team@1.1.0"))]);
    // Withdrawn before the switch: never called, and gone.
    let mut node = start();
    node.on_disk("team@1.1.0");
    node.run(0);
    node.settle("team@1.1.0");
    node.end_rollout("team");
    assert_eq!(node.run(0).steps, [Step::Stop(version("team@1.1.0"))]);
    assert_eq!(node.called("team").as_deref(), Some("team@1.0.0"));
    // Withdrawn after the switch and before the commit: what was called runs on, and is called again.
    let mut node = start();
    node.on_disk("team@1.1.0");
    node.run(0);
    node.settle("team@1.1.0");
    assert_eq!(node.run(0).steps, [Step::Serve(version("team@1.1.0"))]);
    node.end_rollout("team");
    assert_eq!(node.run(0).steps, [Step::Serve(version("team@1.0.0"))]);
    assert!(node.seen("team@1.0.0").tools.values().all(|tool| tool.on));
}

#[test]
fn a_grant_of_another_attempt_or_for_evals_moves_no_calls() {
    for (source, usage) in [("r-2", GrantUse::Serve), ("r-1", GrantUse::Gate)] {
        let mut node = Node::new();
        node.assign("team@1.0.0");
        node.on_disk("team@1.0.0");
        node.run(0);
        node.settle("team@1.0.0");
        node.rollout("r-1", "team@1.1.0");
        node.grant(source, "team@1.1.0", usage);
        assert_eq!(node.run(0).steps, [], "{source} {usage:?}");
    }
}

#[test]
fn a_retry_waits_at_most_twenty_seconds_and_can_come_at_once() {
    assert_eq!(retry_after_ms(1, 0), 0);
    assert_eq!(retry_after_ms(1, u32::MAX), 1_000);
    assert_eq!(retry_after_ms(3, u32::MAX), 4_000);
    for attempts in [10, 64, 65, u32::MAX] {
        assert_eq!(retry_after_ms(attempts, u32::MAX), 20_000);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Assign(usize, usize),
    Unassign(usize),
    Rollout(usize, usize),
    EndRollout(usize),
    Grant(usize, usize, bool),
    Settle(usize, usize),
    Fail(usize, usize),
    Forbid(bool),
    Restart,
}

const PLUGINS: [&str; 2] = ["team", "maps"];
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "2.0.0"];

/// When a failed install may be tried again, and a time after all of these.
const RETRY: i64 = 10;
const LATER: i64 = 20;

fn act() -> impl Strategy<Value = Act> {
    let pair = || (0..2_usize, 0..3_usize);
    prop_oneof![
        3 => pair().prop_map(|(p, v)| Act::Assign(p, v)),
        1 => (0..2_usize).prop_map(Act::Unassign),
        2 => pair().prop_map(|(p, v)| Act::Rollout(p, v)),
        1 => (0..2_usize).prop_map(Act::EndRollout),
        2 => (pair(), any::<bool>()).prop_map(|((p, v), serve)| Act::Grant(p, v, serve)),
        8 => pair().prop_map(|(p, v)| Act::Settle(p, v)),
        2 => pair().prop_map(|(p, v)| Act::Fail(p, v)),
        1 => any::<bool>().prop_map(Act::Forbid),
        1 => Just(Act::Restart),
    ]
}

fn name(plugin: usize, v: usize) -> String {
    format!("{}@{}", PLUGINS[plugin], VERSIONS[v])
}

fn exists(node: &Node, name: &str) -> bool {
    let version = version(name);
    node.observed.plugins.get(&version.plugin).is_some_and(|p| p.versions.contains_key(&version))
}

fn apply(node: &mut Node, act: &Act) {
    match act {
        Act::Assign(p, v) => node.assign(&name(*p, *v)),
        Act::Unassign(p) => node.unassign(PLUGINS[*p]),
        Act::Rollout(p, v) => node.rollout(&format!("r-{v}"), &name(*p, *v)),
        Act::EndRollout(p) => node.end_rollout(PLUGINS[*p]),
        Act::Grant(p, v, serve) => {
            let usage = if *serve { GrantUse::Serve } else { GrantUse::Gate };
            node.grant(&format!("r-{v}"), &name(*p, *v), usage);
        }
        Act::Settle(p, v) if exists(node, &name(*p, *v)) => node.settle(&name(*p, *v)),
        Act::Fail(p, v) if exists(node, &name(*p, *v)) => {
            let seen = node.seen(&name(*p, *v));
            if seen.stage == Stage::Downloading {
                let failure = Failure { reason: "no".into(), attempts: 1, next_try: now(RETRY) };
                seen.stage = Stage::Failed(failure);
            } else {
                seen.tools.values_mut().for_each(|tool| tool.listed = Listed::Partly);
            }
        }
        Act::Settle(..) | Act::Fail(..) => {}
        Act::Forbid(forbid) => {
            node.policy.forbidden_kinds = if *forbid { vec![Kind::Url] } else { Vec::new() }
        }
        Act::Restart => node.restart(),
    }
}

impl Node {
    /// What a kill leaves: whole versions, none called, no tool running.
    fn restart(&mut self) {
        for plugin in self.observed.plugins.values_mut() {
            plugin.called = None;
            plugin.versions.retain(|_, seen| matches!(seen.stage, Stage::Installed | Stage::Stopping));
            for seen in plugin.versions.values_mut() {
                seen.stage = Stage::Installed;
                seen.tools.values_mut().for_each(|t| (t.on, t.listed) = (false, Listed::Not));
            }
        }
        self.observed.plugins.retain(|_, plugin| !plugin.versions.is_empty());
    }

    /// The same node with nothing on it and asked of it but this plugin.
    fn only(&self, plugin: &str) -> Self {
        let plugin = PluginName::parse(plugin).unwrap();
        let mut plan = self.plan.clone();
        plan.plugins.retain(|name, _| *name == plugin);
        let mut observed = self.observed.clone();
        observed.plugins.retain(|name, _| *name == plugin);
        let (trust, policy, grants) = (self.trust.clone(), self.policy.clone(), self.grants.clone());
        Self { trust, plan, policy, grants, observed }
    }

    /// Whether the step is allowed by what stood before it, whoever decided it.
    fn allows(&self, step: &Step) -> Result<(), String> {
        let on_disk =
            |version: &PluginVersion| self.observed.plugins.get(&version.plugin)?.versions.get(version);
        let called = |version: &PluginVersion| self.called(version.plugin.as_str());
        let assigned = |version: &PluginVersion| self.assigned(version.plugin.as_str());
        match step {
            Step::Install(planned) => {
                let version = &planned.version;
                let due = match on_disk(version).map(|seen| &seen.stage) {
                    Some(Stage::Failed(failure)) => failure.next_try <= now(0),
                    Some(_) => false,
                    None => true,
                };
                (due && assigned(version) == Some(version.to_string()))
                    .then_some(())
                    .ok_or("not due or not assigned")
            }
            Step::Serve(version) => (assigned(version) == Some(version.to_string()))
                .then_some(())
                .ok_or("serves what is not assigned"),
            Step::Stop(version) => {
                // What is called is stopped only after it was silenced, in the same decision.
                let unneeded = called(version) != Some(version.to_string()) || assigned(version).is_none();
                unneeded.then_some(()).ok_or("stops what is called")
            }
            Step::Remove(version) => {
                let done = assigned(version).is_none() || called(version) == assigned(version);
                done.then_some(()).ok_or("removes before its replacement serves")
            }
            Step::Cancel(_) | Step::StartTool(..) | Step::StopTool(..) | Step::Silence(_) => Ok(()),
        }
        .map_err(|why| format!("{step:?}: {why}"))
    }
}

proptest! {
    #[test]
    fn whatever_happens_a_called_version_goes_on_until_its_replacement_serves_and_it_ends_well(
        acts in prop::collection::vec(act(), 0..60),
    ) {
        let mut node = Node::new();
        for act in &acts {
            apply(&mut node, act);
            let before = PLUGINS.map(|plugin| node.called(plugin));
            let decision = node.decide(0);
            for step in &decision.steps {
                prop_assert_eq!(node.allows(step), Ok(()));
            }
            // One plugin's state says nothing about what is done with another.
            let alone: Vec<Step> = PLUGINS.iter().flat_map(|plugin| node.only(plugin).decide(0).steps).collect();
            prop_assert!(decision.steps.iter().all(|step| alone.contains(step)), "{alone:?}");
            prop_assert_eq!(decision.steps.len(), alone.len());
            node.perform(&decision.steps);
            for (plugin, before) in PLUGINS.iter().zip(before) {
                let after = node.called(plugin);
                let assigned = node.assigned(plugin);
                match &before {
                    // What is called goes on, or the assigned version is called, or nothing is assigned.
                    Some(_) if assigned.is_some() => prop_assert!(after == before || after == assigned),
                    _ => prop_assert!(after.is_none() || after == assigned),
                }
                if let Some(called) = &after {
                    let seen = node.seen(called);
                    prop_assert_eq!(&seen.stage, &Stage::Installed);
                }
            }
            // The decision is whole: asked again about the same, it names no step that was performed.
            let again = node.decide(0);
            for step in &again.steps {
                prop_assert!(!decision.steps.contains(step), "{step:?} named twice");
            }
        }
        for _ in 0..16 {
            node.run(LATER);
            for (p, v) in (0..2).flat_map(|p| (0..3).map(move |v| (p, v))) {
                apply(&mut node, &Act::Settle(p, v));
            }
        }
        node.policy.forbidden_kinds.clear();
        prop_assert!(node.run(LATER).steps.iter().all(|step| matches!(step, Step::StartTool(..))));
        for (index, plugin) in PLUGINS.iter().enumerate() {
            let assigned = node.assigned(plugin);
            prop_assert_eq!(node.called(plugin), assigned.clone(), "plugin {}", index);
            let name = PluginName::parse(plugin).unwrap();
            let left = node.observed.plugins.get(&name).map_or(0, |p| p.versions.len());
            prop_assert_eq!(left, usize::from(assigned.is_some()));
        }
    }
}
