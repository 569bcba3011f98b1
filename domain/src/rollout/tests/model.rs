//! Every order of events to a depth, and random ones far beyond it: nodes that join, leave, go away, restart and fail,
//! approvals that are wanted and given, every verb at every moment, and servers that decide by what they saw a while ago.
//!
//! Servers write with compare-and-set, as `control-plane` does: what was decided from an older state is dropped. Nodes
//! become canaries by rank, so that one order of them stands for all; which of the servers does something says nothing,
//! so that their decisions are kept sorted.

use std::collections::HashSet;
use std::rc::Rc;

use super::*;

const TICK: u64 = 60_000;

/// Depth of the exhaustive search; `PINTLE_MODEL_DEPTH` takes another.
const DEPTH: u64 = 4;

/// Random walks, and how far each goes; `PINTLE_MODEL_WALKS` takes another number.
const WALKS: u64 = 300;
const WALK: usize = 120;

fn from_env(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[derive(Clone, Debug)]
enum Event {
    /// A server looks and decides.
    Plan(usize),
    /// It writes what it decided.
    Write(usize),
    Progress(usize, Progress),
    Leaves(usize),
    Joins(usize),
    GoesAway(usize),
    ComesBack(usize),
    Waits,
    Approved,
    Says(Verb),
    Time(u64),
}

#[derive(Clone)]
struct World {
    plan: Rc<Plan>,
    state: State,
    /// Counted up with each write.
    revision: u64,
    fleet: Fleet,
    installed: bool,
    now: u64,
    planned: Vec<Option<(u64, Decision)>>,
    aborted: bool,
}

impl World {
    fn new(nodes: usize, servers: usize) -> Self {
        let shares = [(Share::Count(1), TICK), (Share::Percent(60), TICK), (Share::Percent(100), 0)];
        let plan =
            Plan { progress_deadline_ms: 3 * TICK, offline_grace_ms: TICK, ..plan(&[(&["eu"], 1)], &shares) };
        let mut view = EdgeView::default();
        for number in 0..nodes {
            view.nodes.insert(node(number), NodeView { away_since: None, progress: Progress::Nothing });
        }
        Self {
            plan: Rc::new(plan),
            state: State::new(at(0)),
            revision: 0,
            fleet: [(edge("eu"), view)].into(),
            installed: false,
            now: 0,
            planned: vec![None; servers],
            aborted: false,
        }
    }

    fn view(&self) -> &EdgeView {
        &self.fleet[&edge("eu")]
    }

    fn view_mut(&mut self) -> &mut EdgeView {
        self.fleet.get_mut(&edge("eu")).unwrap()
    }

    fn node(&mut self, number: usize) -> &mut NodeView {
        self.view_mut().nodes.get_mut(&node(number)).unwrap()
    }

    /// Two worlds with one key have the same future.
    fn key(&self) -> String {
        let mut planned: Vec<String> = self
            .planned
            .iter()
            .map(|one| one.as_ref().filter(|(of, _)| *of == self.revision))
            .map(|one| one.map_or_else(String::new, |(_, decision)| format!("{decision:?}")))
            .collect();
        planned.sort();
        let Self { state, fleet, installed, now, aborted, .. } = self;
        format!("{state:?} {fleet:?} {installed} {now} {planned:?} {aborted}")
    }

    fn events(&self, nodes: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for (server, planned) in self.planned.iter().enumerate() {
            events.push(Event::Plan(server));
            if planned.is_some() {
                events.push(Event::Write(server));
            }
        }
        for number in 0..nodes {
            let Some(view) = self.view().nodes.get(&node(number)) else {
                events.push(Event::Joins(number));
                continue;
            };
            events.push(Event::Leaves(number));
            let is_away = view.away_since.is_some();
            events.push(if is_away { Event::ComesBack(number) } else { Event::GoesAway(number) });
            if self.view().granted.contains(&node(number)) && !is_away {
                let all = [Progress::Begun, Progress::Serving, Progress::Failed("it ended".to_owned())];
                let others = all.into_iter().filter(|one| *one != view.progress);
                events.extend(others.map(|progress| Event::Progress(number, progress)));
            }
        }
        events.push(if self.view().waiting.is_empty() { Event::Waits } else { Event::Approved });
        let verbs = [Verb::Pause, Verb::Resume, Verb::Advance, Verb::Abort("x".to_owned())];
        events.extend(verbs.map(Event::Says));
        events.extend([TICK, 3 * TICK].map(Event::Time));
        events
    }

    fn happens(&mut self, event: &Event) {
        match event {
            Event::Plan(server) => {
                let decision = decide(ID, &self.plan, &self.state, &self.fleet, at(self.now));
                self.planned[*server] = decision.state.is_some().then_some((self.revision, decision));
            }
            Event::Write(server) => {
                let planned = self.planned[*server].take();
                if let Some((_, decision)) = planned.filter(|(of, _)| *of == self.revision) {
                    self.write(&decision);
                }
            }
            Event::Says(verb) => {
                let said = command(&self.plan, &self.state, verb, at(self.now));
                if let Verb::Abort(_) = verb {
                    assert_eq!(said.is_err(), self.state.is_ended(), "an abort is taken until it has ended");
                    self.aborted |= said.is_ok();
                }
                if let Ok(decision) = said {
                    self.write(&decision);
                }
            }
            Event::Time(millis) => self.now += millis,
            Event::Joins(number) => {
                let view = NodeView { away_since: None, progress: Progress::Nothing };
                self.view_mut().nodes.insert(node(*number), view);
            }
            Event::Leaves(number) => {
                self.view_mut().nodes.remove(&node(*number));
            }
            Event::Progress(number, progress) => self.node(*number).progress = progress.clone(),
            Event::GoesAway(number) => {
                let now = at(self.now);
                self.node(*number).away_since = Some(now);
            }
            Event::ComesBack(number) => self.node(*number).away_since = None,
            Event::Waits => self.view_mut().waiting.push("team.hello".to_owned()),
            Event::Approved => self.view_mut().waiting.clear(),
        }
    }

    fn write(&mut self, decision: &Decision) {
        let Some(state) = &decision.state else { return };
        assert!(!decision.reason.is_empty(), "what moves says why");
        let is_back =
            |state: &State| matches!(state.phase, Phase::RollingBack { .. } | Phase::RolledBack { .. });
        let was_rolling_back = is_back(&self.state);
        for action in &decision.actions {
            self.acts(action, state, was_rolling_back);
        }
        assert!(!self.aborted || is_back(state), "an abort is never lost: {:?}", state.phase);
        self.state = state.clone();
        self.revision += 1;
        assert!(!matches!(self.state.phase, Phase::RolledBack { .. }) || !self.installed);
        assert!(self.state.phase != Phase::Completed || self.installed);
    }

    fn acts(&mut self, action: &Action, state: &State, was_rolling_back: bool) {
        let (plan, aborted) = (Rc::clone(&self.plan), self.aborted);
        match action {
            Action::Begin(_) => assert!(!was_rolling_back),
            Action::Grant(_, nodes) => {
                assert!(!was_rolling_back && !aborted, "nobody gets it after it was aborted");
                let run = &state.edges[&edge("eu")];
                let share = plan.waves[0].steps[run.step].nodes.of(run.members.len());
                let view = self.view_mut();
                view.granted.extend(nodes.iter().cloned());
                let have_it = view.granted.iter().filter(|node| view.nodes.contains_key(*node)).count();
                assert!(have_it <= share, "{have_it} of at most {share}");
                assert!(nodes.iter().all(|node| run.members.contains(node)), "late comers get it last");
            }
            Action::TakeBack(_, nodes) => self.view_mut().granted.retain(|node| !nodes.contains(node)),
            Action::Promote(_) => {
                assert!(!was_rolling_back && !aborted);
                let run = &self.state.edges[&edge("eu")];
                assert_eq!(run.step + 1, plan.waves[0].steps.len(), "its last step");
                self.installed = true;
                self.view_mut().granted.clear();
            }
            Action::Revert { promoted, .. } => {
                assert!(was_rolling_back);
                assert_eq!(*promoted, self.installed);
                self.installed = false;
                self.view_mut().granted.clear();
            }
        }
    }

    /// Left alone, it comes to an end.
    fn ends(&self) -> bool {
        let mut alone = self.clone();
        for _ in 0..60 {
            if alone.state.is_ended() {
                return true;
            }
            let decision = decide(ID, &alone.plan, &alone.state, &alone.fleet, at(alone.now));
            if decision.state.is_some() {
                alone.write(&decision);
            } else {
                alone.now += 8 * 24 * HOUR;
            }
        }
        false
    }
}

#[test]
fn no_order_of_events_leads_astray() {
    let depth = from_env("PINTLE_MODEL_DEPTH", DEPTH);
    let mut seen: HashSet<Digest> = HashSet::new();
    let first = World::new(3, 2);
    seen.insert(Digest::of(first.key().as_bytes()));
    let mut front = vec![first];
    for _ in 0..depth {
        let mut next = Vec::new();
        for world in &front {
            for event in world.events(3) {
                let mut then = world.clone();
                then.happens(&event);
                if seen.insert(Digest::of(then.key().as_bytes())) {
                    assert!(then.ends(), "no way out after {event:?}: {}", then.key());
                    next.push(then);
                }
            }
        }
        front = next;
    }
    assert!(seen.len() > 1_000, "{}", seen.len());
    // For who runs it by hand.
    if let Some(path) = std::env::var_os("PINTLE_MODEL_REPORT") {
        std::fs::write(path, format!("{} states to depth {depth}\n", seen.len())).unwrap();
    }
}

/// Numbers by chance: xorshift64*.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let rolled = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(rolled).unwrap() % sides
    }
}

#[test]
fn long_random_ways_lead_nowhere_else() {
    let (mut completed, mut rolled_back) = (0, 0);
    for seed in 1..=from_env("PINTLE_MODEL_WALKS", WALKS) {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut world = World::new(5, 3);
        for step in 0..WALK {
            let events = world.events(5);
            // Servers look far more often than anything else happens.
            let event = match dice.roll(4) {
                0 => Event::Plan(dice.roll(3)),
                1 => Event::Write(dice.roll(3)),
                _ => events[dice.roll(events.len())].clone(),
            };
            let ends_it =
                matches!(&event, Event::Says(Verb::Abort(_)) | Event::Progress(_, Progress::Failed(_)));
            if ends_it && step < WALK * 3 / 4 && dice.roll(20) != 0 {
                continue;
            }
            world.happens(&event);
            assert!(world.ends(), "seed {seed}, step {step}: {}", world.key());
        }
        completed += u32::from(world.state.phase == Phase::Completed);
        rolled_back += u32::from(matches!(world.state.phase, Phase::RolledBack { .. }));
    }
    assert!(completed > 0 && rolled_back > 0, "{completed} {rolled_back}");
}
