use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::digest::Digest;
use crate::plugin_set::{
    Grants, Kind, OriginTrust, Plan, PlannedPlugin, PlannedTool, Policy, ToolTrust, Trust, VersionTrust,
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
        tools: tools.into_iter().map(|(id, kind)| (id, PlannedTool { kind, url: None })).collect(),
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

    fn snapshot(&mut self, name: &str) {
        let taken = ToolTrust { snapshot_taken: true, ..ToolTrust::default() };
        let tools = ["local", "remote"].iter().map(|id| (tool(id), taken.clone())).collect();
        self.trust.versions.insert(version(name), Arc::new(VersionTrust { tools }));
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
    let decision = node.run(0);
    assert_eq!(decision.steps[0], Step::Serve(version("team@1.1.0")));
    assert_eq!(decision.steps[1], Step::Stop(version("team@1.0.0")));
    assert_eq!(node.called("team").as_deref(), Some("team@1.1.0"));
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
    Settle(usize, usize),
    Fail(usize, usize),
    Forbid(bool),
    Restart,
}

const PLUGINS: [&str; 2] = ["team", "maps"];
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "2.0.0"];

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..2_usize, 0..3_usize).prop_map(|(p, v)| Act::Assign(p, v)),
        1 => (0..2_usize).prop_map(Act::Unassign),
        6 => (0..2_usize, 0..3_usize).prop_map(|(p, v)| Act::Settle(p, v)),
        2 => (0..2_usize, 0..3_usize).prop_map(|(p, v)| Act::Fail(p, v)),
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
        Act::Settle(p, v) if exists(node, &name(*p, *v)) => node.settle(&name(*p, *v)),
        Act::Fail(p, v) if exists(node, &name(*p, *v)) => {
            let seen = node.seen(&name(*p, *v));
            if seen.stage == Stage::Downloading {
                let failure = Failure { reason: "no".into(), attempts: 1, next_try: now(0) };
                seen.stage = Stage::Failed(failure);
            } else {
                seen.tools.values_mut().for_each(|tool| tool.listed = Listed::Partly);
            }
        }
        Act::Settle(..) | Act::Fail(..) => {}
        Act::Forbid(forbid) => {
            node.policy.forbidden_kinds = if *forbid { vec![Kind::Url] } else { Vec::new() }
        }
        Act::Restart => {
            for plugin in node.observed.plugins.values_mut() {
                plugin.called = None;
                plugin.versions.retain(|_, seen| matches!(seen.stage, Stage::Installed | Stage::Stopping));
                for seen in plugin.versions.values_mut() {
                    seen.stage = Stage::Installed;
                    seen.tools.values_mut().for_each(|t| (t.on, t.listed) = (false, Listed::Not));
                }
            }
            node.observed.plugins.retain(|_, plugin| !plugin.versions.is_empty());
        }
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
            let decision = node.run(0);
            for (plugin, before) in PLUGINS.iter().zip(before) {
                let after = node.called(plugin);
                let name = PluginName::parse(plugin).unwrap();
                let assigned = node.plan.plugins.get(&name).and_then(|p| p.installed.clone());
                let assigned = assigned.map(|planned| planned.version.to_string());
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
        for _ in 0..12 {
            node.run(0);
            for (p, v) in (0..2).flat_map(|p| (0..3).map(move |v| (p, v))) {
                apply(&mut node, &Act::Settle(p, v));
            }
        }
        node.policy.forbidden_kinds.clear();
        prop_assert!(node.run(0).steps.iter().all(|step| matches!(step, Step::StartTool(..))));
        for (index, plugin) in PLUGINS.iter().enumerate() {
            let name = PluginName::parse(plugin).unwrap();
            let assigned = node.plan.plugins.get(&name).and_then(|p| p.installed.clone());
            let assigned = assigned.map(|planned| planned.version.to_string());
            prop_assert_eq!(node.called(plugin), assigned.clone(), "plugin {}", index);
            let left = node.observed.plugins.get(&name).map_or(0, |p| p.versions.len());
            prop_assert_eq!(left, usize::from(assigned.is_some()));
        }
    }
}
