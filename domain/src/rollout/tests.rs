//! What a rollout does, sentence by sentence, and that no order of events leads it astray.

mod model;

use std::collections::BTreeMap;

use super::*;
use crate::id::{EdgeName, NodeId, PluginVersion};
use crate::time::Timestamp;

const HOUR: u64 = 3_600_000;
const ID: &str = "0190-rollout";

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(millis).unwrap())
}

fn edge(name: &str) -> EdgeName {
    EdgeName::parse(name).unwrap()
}

fn node(number: usize) -> NodeId {
    NodeId::parse(&format!("00000000-0000-7000-8000-{number:012}")).unwrap()
}

fn steps(shares: &[(Share, u64)]) -> Vec<Step> {
    shares.iter().map(|(nodes, hold_ms)| Step { nodes: *nodes, hold_ms: *hold_ms }).collect()
}

fn plan(waves: &[(&[&str], u32)], shares: &[(Share, u64)]) -> Plan {
    let wave = |(number, (edges, parallel_edges)): (usize, &(&[&str], u32))| Wave {
        name: format!("wave-{number}"),
        edges: edges.iter().map(|name| edge(name)).collect(),
        parallel_edges: *parallel_edges,
        steps: steps(shares),
    };
    Plan {
        to: PluginVersion::parse("team@1.1.0").unwrap(),
        waves: waves.iter().enumerate().map(wave).collect(),
        progress_deadline_ms: HOUR,
        offline_grace_ms: 60_000,
        failed_nodes: 0,
        on_changes: OnChanges::Wait,
        on_failure: OnFailure::RollBack,
    }
}

/// A fleet that does what rollouts say, and a clock.
struct Stage {
    plan: Plan,
    state: State,
    fleet: Fleet,
    now: u64,
    told: Vec<String>,
    installed: BTreeMap<EdgeName, bool>,
}

impl Stage {
    fn new(plan: Plan, edges: &[(&str, usize)]) -> Self {
        let mut fleet = Fleet::new();
        let mut number = 0;
        for (name, count) in edges {
            let view = fleet.entry(edge(name)).or_default();
            for _ in 0..*count {
                number += 1;
                view.nodes.insert(node(number), NodeView { away_since: None, progress: Progress::Nothing });
            }
        }
        plan.check().unwrap();
        let installed = BTreeMap::new();
        Self { plan, state: State::new(at(0)), fleet, now: 0, told: Vec::new(), installed }
    }

    fn view(&mut self, name: &str) -> &mut EdgeView {
        self.fleet.get_mut(&edge(name)).unwrap()
    }

    fn set(&mut self, name: &str, number: usize, progress: Progress) {
        self.view(name).nodes.get_mut(&node(number)).unwrap().progress = progress;
    }

    /// All that was granted the version runs it.
    fn installs(&mut self) {
        for view in self.fleet.values_mut() {
            for node in &view.granted {
                if let Some(node) = view.nodes.get_mut(node) {
                    node.progress = Progress::Serving;
                }
            }
        }
    }

    fn apply(&mut self, decision: &Decision) {
        for action in &decision.actions {
            match action {
                Action::Begin(_) => {}
                Action::Grant(edge, nodes) => {
                    self.fleet.get_mut(edge).unwrap().granted.extend(nodes.iter().cloned());
                }
                Action::TakeBack(edge, nodes) => {
                    self.fleet.get_mut(edge).unwrap().granted.retain(|node| !nodes.contains(node));
                }
                Action::Promote(edge) => {
                    self.installed.insert(edge.clone(), true);
                    self.fleet.get_mut(edge).unwrap().granted.clear();
                }
                Action::Revert { edge, promoted } => {
                    assert_eq!(self.installed.get(edge).copied().unwrap_or_default(), *promoted);
                    self.installed.insert(edge.clone(), false);
                    self.fleet.get_mut(edge).unwrap().granted.clear();
                }
            }
        }
        if let Some(state) = &decision.state {
            assert!(!decision.reason.is_empty(), "{state:?}");
            self.told.push(decision.reason.clone());
            self.state = state.clone();
        }
    }

    /// Decides until nothing moves; answers what it waits for.
    fn settle(&mut self) -> Vec<String> {
        for _ in 0..1_000 {
            let decision = decide(ID, &self.plan, &self.state, &self.fleet, at(self.now));
            if decision.state.is_none() {
                assert!(decision.actions.is_empty());
                return decision.waits;
            }
            self.apply(&decision);
        }
        panic!("it never waits: {:?}", self.told);
    }

    fn pass(&mut self, millis: u64) -> Vec<String> {
        self.now += millis;
        self.settle()
    }

    fn says(&mut self, verb: &Verb) -> Result<Vec<String>, CommandFault> {
        let decision = command(&self.plan, &self.state, verb, at(self.now))?;
        self.apply(&decision);
        Ok(self.settle())
    }

    fn granted(&self, name: &str) -> usize {
        self.fleet[&edge(name)].granted.len()
    }

    fn is_installed(&self, name: &str) -> bool {
        self.installed.get(&edge(name)).copied().unwrap_or_default()
    }
}

const CANARY: [(Share, u64); 3] =
    [(Share::Count(1), 600_000), (Share::Percent(50), 600_000), (Share::Percent(100), 0)];

#[test]
fn a_clean_rollout_goes_step_by_step_and_wave_by_wave_to_its_end() {
    let mut stage = Stage::new(
        plan(&[(&["eu-1"], 1), (&["us-1", "us-2"], 1)], &CANARY),
        &[("eu-1", 4), ("us-1", 2), ("us-2", 3)],
    );
    let waits = stage.settle();
    assert_eq!(waits, ["step 1 of 3 on edge eu-1: 0 of 1 nodes run it"]);
    assert_eq!(stage.granted("eu-1"), 1);
    stage.installs();
    assert_eq!(stage.settle(), ["step 1 of 3 on edge eu-1: holding, 0 s of 600 s"]);
    assert_eq!(stage.pass(599_000), ["step 1 of 3 on edge eu-1: holding, 599 s of 600 s"]);
    stage.pass(1_000);
    assert_eq!((stage.granted("eu-1"), stage.granted("us-1")), (2, 0));
    stage.installs();
    stage.settle();
    stage.pass(600_000);
    assert_eq!(stage.granted("eu-1"), 4);
    assert!(!stage.is_installed("eu-1"), "it is tried until the last step has held");
    stage.installs();
    stage.settle();
    assert!(stage.is_installed("eu-1"));
    assert_eq!((stage.granted("us-1"), stage.granted("us-2")), (1, 0), "one edge at a time");
    for _ in 0..6 {
        stage.installs();
        stage.settle();
        stage.pass(600_000);
    }
    stage.installs();
    stage.settle();
    assert_eq!(stage.state.phase, Phase::Completed, "{:?}", stage.told);
    assert!(stage.is_installed("us-1") && stage.is_installed("us-2"));
    assert_eq!(stage.says(&Verb::Abort("late".to_owned())), Err(CommandFault::Ended));
}

// Restarted or worked out by another server, the same nodes are canaries; nodes that come later are not.
#[test]
fn who_is_a_canary_is_decided_once_and_late_comers_are_none() {
    let all: Vec<NodeId> = (1..=20).map(node).collect();
    let ranked = rank(ID, all.clone());
    assert_eq!(ranked, rank(ID, all.iter().rev().cloned()), "the order they come in says nothing");
    assert_ne!(ranked, rank("another", all.clone()), "each rollout has others");
    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &CANARY), &[("eu-1", 4)]);
    stage.settle();
    let first = stage.fleet[&edge("eu-1")].granted.clone();
    for number in 90..99 {
        let view = NodeView { away_since: None, progress: Progress::Nothing };
        stage.view("eu-1").nodes.insert(node(number), view);
    }
    stage.installs();
    stage.settle();
    stage.pass(600_000);
    let second = stage.fleet[&edge("eu-1")].granted.clone();
    assert!(first.is_subset(&second) && second.len() == 2, "half of the four that it began with");
    assert!(second.iter().all(|one| (1..=4).any(|number| *one == node(number))));
}

#[test]
fn a_node_that_does_not_run_it_ends_the_rollout_before_more_get_it() {
    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &CANARY), &[("eu-1", 4)]);
    stage.settle();
    let canary = stage.fleet[&edge("eu-1")].granted.first().cloned().unwrap();
    let number = (1..=4).find(|number| node(*number) == canary).unwrap();
    stage.set("eu-1", number, Progress::Failed("it ended with exit code 3".to_owned()));
    stage.settle();
    let Phase::RolledBack { reason } = &stage.state.phase else { panic!("{:?}", stage.state) };
    assert!(reason.contains("exit code 3") && reason.contains("at most 0 may"), "{reason}");
    assert_eq!((stage.granted("eu-1"), stage.is_installed("eu-1")), (0, false));

    // The same while a step holds, and on an edge that has it already.
    let mut stage = Stage::new(
        plan(&[(&["eu-1"], 1), (&["us-1"], 1)], &[(Share::Percent(100), 60_000)]),
        &[("eu-1", 2), ("us-1", 2)],
    );
    stage.settle();
    stage.installs();
    stage.settle();
    stage.pass(60_000);
    assert!(stage.is_installed("eu-1"));
    stage.set("eu-1", 2, Progress::Failed("it ended".to_owned()));
    stage.settle();
    assert!(matches!(stage.state.phase, Phase::RolledBack { .. }));
    assert!(!stage.is_installed("eu-1"), "what was promoted goes back too");
}

#[test]
fn a_plan_may_leave_what_failed_to_a_person() {
    let wanted = Plan { on_failure: OnFailure::Pause, ..plan(&[(&["eu-1"], 1)], &CANARY) };
    let mut stage = Stage::new(wanted, &[("eu-1", 4)]);
    stage.settle();
    for number in 1..=4 {
        stage.set("eu-1", number, Progress::Failed("it ended".to_owned()));
    }
    let waits = stage.settle();
    assert!(waits[0].contains("paused, since it failed"), "{waits:?}");
    assert_eq!(stage.granted("eu-1"), 1);
    for number in 1..=4 {
        stage.set("eu-1", number, Progress::Serving);
    }
    stage.now += 30 * 60_000;
    let waits = stage.says(&Verb::Resume).unwrap();
    assert!(waits[0].contains("holding"), "{waits:?}");
}

#[test]
fn a_node_that_is_away_is_no_success_and_not_waited_for_for_ever() {
    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &[(Share::Percent(100), 0)]), &[("eu-1", 3)]);
    stage.settle();
    stage.installs();
    let away = NodeView { away_since: Some(at(0)), progress: Progress::Serving };
    stage.view("eu-1").nodes.insert(node(2), away.clone());
    let waits = stage.settle();
    assert!(waits[0].contains("2 of 3 nodes run it"), "{waits:?}");
    stage.pass(60_000);
    assert_eq!(stage.state.phase, Phase::Completed);

    let mut alone = Stage::new(plan(&[(&["eu-1"], 1)], &[(Share::Percent(100), 0)]), &[("eu-1", 1)]);
    alone.view("eu-1").nodes.insert(node(1), away);
    alone.settle();
    let waits = alone.pass(120_000);
    assert!(waits[0].contains("0 of 1 nodes run it, 1 are away"), "{waits:?}");
    alone.pass(2 * HOUR);
    assert!(matches!(alone.state.phase, Phase::RolledBack { .. }), "nobody ran it: {:?}", alone.told);
}

#[test]
fn nodes_that_were_taken_out_of_the_fleet_hold_nothing_up() {
    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &CANARY), &[("eu-1", 4)]);
    stage.settle();
    let canary = stage.fleet[&edge("eu-1")].granted.first().cloned().unwrap();
    stage.view("eu-1").nodes.remove(&canary);
    stage.settle();
    let view = stage.fleet[&edge("eu-1")].clone();
    assert_eq!(
        view.granted.iter().filter(|node| view.nodes.contains_key(*node)).count(),
        1,
        "the next in rank"
    );
    for number in 1..=4 {
        stage.view("eu-1").nodes.remove(&node(number));
    }
    for _ in 0..3 {
        stage.pass(600_000);
    }
    assert_eq!(stage.state.phase, Phase::Completed, "an edge without nodes has nothing to try it on");
}

#[test]
fn what_waits_for_approval_holds_it_and_never_fails_it() {
    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &CANARY), &[("eu-1", 4)]);
    stage.settle();
    stage.view("eu-1").waiting.push("team.hello".to_owned());
    stage.installs();
    let waits = stage.settle();
    assert!(waits[0].contains("waiting for approval: team.hello"), "{waits:?}");
    stage.pass(59 * 60_000);
    assert_eq!(stage.granted("eu-1"), 1);
    stage.view("eu-1").waiting.clear();
    stage.settle();
    let waits = stage.pass(600_000);
    assert!(waits[0].starts_with("step 2"), "{waits:?}");
    stage.view("eu-1").waiting.push("team.bye".to_owned());
    stage.pass(2 * HOUR);
    assert!(
        matches!(&stage.state.phase, Phase::Paused { why: Pause::Unapproved(_), .. }),
        "{:?}",
        stage.state.phase
    );

    let going = Plan { on_changes: OnChanges::GoOn, ..plan(&[(&["eu-1"], 1)], &[(Share::Percent(100), 0)]) };
    let mut stage = Stage::new(going, &[("eu-1", 1)]);
    stage.settle();
    stage.view("eu-1").waiting.push("team.hello".to_owned());
    stage.installs();
    stage.settle();
    assert_eq!(stage.state.phase, Phase::Completed);
}

#[test]
fn nothing_waits_for_ever() {
    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &CANARY), &[("eu-1", 4)]);
    stage.settle();
    stage.pass(HOUR - 1);
    assert_eq!(stage.state.phase, Phase::Progressing);
    stage.pass(1);
    let Phase::RolledBack { reason } = &stage.state.phase else { panic!("{:?}", stage.state) };
    assert!(reason.contains("nothing moved within 3600 s") && reason.contains("0 of 1 nodes"), "{reason}");

    // A hold that is longer than the deadline is none.
    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &[(Share::Percent(100), 5 * HOUR)]), &[("eu-1", 1)]);
    stage.settle();
    stage.installs();
    stage.settle();
    stage.pass(5 * HOUR);
    assert_eq!(stage.state.phase, Phase::Completed);

    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &CANARY), &[("eu-1", 4)]);
    stage.settle();
    stage.says(&Verb::Pause).unwrap();
    stage.pass(7 * 24 * HOUR);
    assert!(matches!(stage.state.phase, Phase::RolledBack { .. }), "a pause ends too");
}

#[test]
fn a_pause_stops_the_clock_and_nothing_is_granted_in_it() {
    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &CANARY), &[("eu-1", 4)]);
    stage.settle();
    stage.installs();
    stage.settle();
    stage.pass(300_000);
    stage.says(&Verb::Pause).unwrap();
    stage.says(&Verb::Pause).unwrap();
    stage.pass(10 * HOUR);
    assert_eq!(stage.granted("eu-1"), 1);
    assert_eq!(stage.says(&Verb::Advance), Err(CommandFault::NothingHolds));
    assert_eq!(stage.says(&Verb::Resume).unwrap(), ["step 1 of 3 on edge eu-1: holding, 300 s of 600 s"]);
    assert_eq!(stage.says(&Verb::Resume), Err(CommandFault::NotPaused));
    stage.says(&Verb::Advance).unwrap();
    assert_eq!(stage.granted("eu-1"), 2);
}

#[test]
fn aborting_outranks_everything_and_is_never_lost() {
    for prepare in 0..5 {
        let mut stage = Stage::new(plan(&[(&["eu-1", "us-1"], 2)], &CANARY), &[("eu-1", 4), ("us-1", 1)]);
        if prepare > 0 {
            stage.settle();
        }
        if prepare > 1 {
            stage.installs();
            stage.settle();
        }
        if prepare > 2 {
            stage.says(&Verb::Advance).unwrap();
        }
        if prepare > 3 {
            stage.says(&Verb::Pause).unwrap();
        }
        let abort =
            command(&stage.plan, &stage.state, &Verb::Abort("it burns".to_owned()), at(stage.now)).unwrap();
        stage.apply(&abort);
        for verb in [Verb::Resume, Verb::Pause, Verb::Advance] {
            let said = command(&stage.plan, &stage.state, &verb, at(stage.now));
            assert_eq!(said, Err(CommandFault::RollingBack), "{prepare}: {verb:?}");
        }
        assert!(
            command(&stage.plan, &stage.state, &Verb::Abort("again".to_owned()), at(0))
                .unwrap()
                .state
                .is_none()
        );
        stage.settle();
        let Phase::RolledBack { reason } = &stage.state.phase else { panic!("{:?}", stage.state) };
        assert_eq!(reason, "aborted: it burns");
        assert_eq!((stage.granted("eu-1"), stage.granted("us-1")), (0, 0));
    }
}

#[test]
fn a_completed_rollout_is_undone_within_a_week_and_no_other_is() {
    let mut stage = Stage::new(plan(&[(&["eu-1"], 1)], &[(Share::Percent(100), 0)]), &[("eu-1", 2)]);
    let undo = Verb::Undo("it leaks".to_owned());
    stage.settle();
    assert_eq!(stage.says(&undo), Err(CommandFault::NotCompleted));
    stage.installs();
    stage.settle();
    assert!(stage.is_installed("eu-1") && stage.state.phase == Phase::Completed);
    stage.now += 7 * 24 * HOUR + 1;
    assert_eq!(stage.says(&undo), Err(CommandFault::TooLate));
    stage.now -= 1;
    stage.says(&undo).unwrap();
    let Phase::RolledBack { reason } = &stage.state.phase else { panic!("{:?}", stage.state) };
    assert_eq!(reason, "undone: it leaks");
    assert!(!stage.is_installed("eu-1"));
    assert_eq!(stage.says(&undo), Err(CommandFault::Ended));
}

#[test]
fn a_plan_that_cannot_be_carried_out_is_refused_with_the_place() {
    let good = plan(&[(&["eu-1"], 1)], &CANARY);
    good.check().unwrap();
    let with = |shares: &[(Share, u64)]| plan(&[(&["eu-1"], 1)], shares).check().unwrap_err().to_string();
    for (shares, told) in [
        (vec![], "has 0 steps"),
        (vec![(Share::Count(0), 0), (Share::Percent(100), 0)], "for 0 nodes"),
        (vec![(Share::Percent(0), 0)], "for 0% nodes"),
        (vec![(Share::Percent(101), 0)], "for 101% nodes"),
        (vec![(Share::Percent(50), 0)], "is for all nodes"),
        (vec![(Share::Count(5), 0)], "is for all nodes"),
        (vec![(Share::Percent(50), 0), (Share::Percent(10), 0), (Share::Percent(100), 0)], "fewer nodes"),
        (vec![(Share::Percent(100), 31 * 24 * HOUR)], "at most"),
    ] {
        assert!(with(&shares).contains(told), "{shares:?}: {}", with(&shares));
    }
    let twice = plan(&[(&["eu-1"], 1), (&["eu-1"], 1)], &CANARY);
    assert_eq!(twice.check(), Err(PlanFault::EdgeTwice(edge("eu-1"))));
    assert!(plan(&[], &CANARY).check().is_err() && plan(&[(&[], 1)], &CANARY).check().is_err());
    assert!(plan(&[(&["eu-1"], 0)], &CANARY).check().is_err());
    assert!(Plan { progress_deadline_ms: 0, ..good }.check().is_err());
}

#[test]
fn a_share_is_rounded_up_and_never_more_than_there_are() {
    for (share, of, expected) in [
        (Share::Percent(10), 1, 1),
        (Share::Percent(10), 11, 2),
        (Share::Percent(100), 7, 7),
        (Share::Percent(1), 1_000, 10),
        (Share::Count(5), 3, 3),
        (Share::Count(1), 0, 0),
        (Share::Percent(50), 0, 0),
    ] {
        assert_eq!(share.of(of), expected, "{share:?} of {of}");
    }
}
