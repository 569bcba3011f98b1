//! What a rollout does next.

use std::collections::BTreeSet;

use super::fleet::{EdgeView, Fleet, NodeView, Progress};
use super::plan::{OnChanges, OnFailure, Plan, Step, Wave};
use super::state::{Part, Pause, Phase, Run, State};
use crate::id::{EdgeName, NodeId};
use crate::time::Timestamp;

/// How long a rollout stays paused before its edges go back: a version that half a fleet has is nobody's wish for ever.
pub(super) const PAUSE_MOST_MS: i64 = 7 * 24 * 3_600_000;

/// Something that is to be done on an edge, in the transaction that keeps the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The edge tries the version; no node has it yet.
    Begin(EdgeName),
    /// These nodes get it as well.
    Grant(EdgeName, Vec<NodeId>),
    /// These no longer have it: they may not work, and get it anew if they ever may again.
    TakeBack(EdgeName, Vec<NodeId>),
    /// It is the edge's installed version from here on.
    Promote(EdgeName),
    /// The edge tries it no longer; if it had become the installed one, what was installed before is again.
    Revert {
        /// Which.
        edge: EdgeName,
        /// Whether it had become the installed one.
        promoted: bool,
    },
}

/// One move of a rollout, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How it stands from here on, if anything moved.
    pub state: Option<State>,
    /// What is to be done for that.
    pub actions: Vec<Action>,
    /// Why, for the audit log and people.
    pub reason: String,
    /// What it waits for, line by line, if nothing moved.
    pub waits: Vec<String>,
}

impl Decision {
    pub(super) const fn moved(state: State, actions: Vec<Action>, reason: String) -> Self {
        Self { state: Some(state), actions, reason, waits: Vec::new() }
    }

    const fn waits(waits: Vec<String>) -> Self {
        Self { state: None, actions: Vec::new(), reason: String::new(), waits }
    }
}

/// The next move of a rollout. Asked again with what came of it, it comes to an end or waits.
pub fn decide(id: &str, plan: &Plan, state: &State, fleet: &Fleet, now: Timestamp) -> Decision {
    match &state.phase {
        Phase::Pending => {
            let state = State { phase: Phase::Progressing, moved_at: now, ..state.clone() };
            Decision::moved(state, Vec::new(), "it was started".to_owned())
        }
        Phase::Progressing => Look { id, plan, state, fleet, now }.progress(),
        Phase::Paused { since, why } => {
            if now.millis_since(*since) < PAUSE_MOST_MS {
                return Decision::waits(vec![paused(why)]);
            }
            let reason = "nobody went on with it within 7 days".to_owned();
            let state = State { phase: Phase::RollingBack { reason: reason.clone() }, ..state.clone() };
            Decision::moved(state, Vec::new(), reason)
        }
        Phase::RollingBack { reason } => roll_back(state, reason, now),
        Phase::Completed | Phase::RolledBack { .. } => Decision::waits(Vec::new()),
    }
}

fn paused(why: &Pause) -> String {
    match why {
        Pause::Person => "paused by a person".to_owned(),
        Pause::Failed(reason) => format!("paused, since it failed: {reason}"),
        Pause::Unapproved(reason) => format!("paused, since nobody approved in time: {reason}"),
    }
}

fn roll_back(state: &State, reason: &str, now: Timestamp) -> Decision {
    let mut next = State { moved_at: now, ..state.clone() };
    // Those that only try it first: they are the ones that it was seen to fail on.
    let left = |promoted: bool| {
        let of = move |run: &Run| match run.part {
            Part::Reverted => false,
            Part::Promoted => promoted,
            Part::Installing | Part::Holding(_) => !promoted,
        };
        state.edges.iter().find(|(_, run)| of(run)).map(|(edge, _)| (edge.clone(), promoted))
    };
    let Some((edge, promoted)) = left(false).or_else(|| left(true)) else {
        next.phase = Phase::RolledBack { reason: reason.to_owned() };
        return Decision::moved(next, Vec::new(), format!("every edge has what it had: {reason}"));
    };
    if let Some(run) = next.edges.get_mut(&edge) {
        run.part = Part::Reverted;
    }
    let told = format!("edge {edge} goes back to what it had: {reason}");
    Decision::moved(next, vec![Action::Revert { edge, promoted }], told)
}

struct Look<'a> {
    id: &'a str,
    plan: &'a Plan,
    state: &'a State,
    fleet: &'a Fleet,
    now: Timestamp,
}

/// How the nodes of a step stand.
#[derive(Default)]
struct Count {
    serving: usize,
    /// Connected, or not away for long, and not there yet.
    pending: usize,
    away: usize,
    failed: Vec<String>,
}

impl Look<'_> {
    fn progress(&self) -> Decision {
        if let Some(reason) = self.failure() {
            return self.fail(reason);
        }
        let Some(wave) = self.plan.waves.get(self.state.wave) else {
            let state = State { phase: Phase::Completed, moved_at: self.now, ..self.state.clone() };
            return Decision::moved(state, Vec::new(), "every edge has it".to_owned());
        };
        let mut waits = Vec::new();
        let mut under_way = 0;
        for edge in &wave.edges {
            let Some(run) = self.state.edges.get(edge) else { continue };
            if matches!(run.part, Part::Promoted | Part::Reverted) {
                continue;
            }
            under_way += 1;
            match self.step(wave, edge, run) {
                Ok(decision) => return decision,
                Err(wait) => waits.push(wait),
            }
        }
        let next = wave.edges.iter().find(|edge| !self.state.edges.contains_key(*edge));
        if let Some(edge) = next.filter(|_| under_way < wave.parallel_edges) {
            return self.begin(edge);
        }
        if under_way == 0 {
            let state = State { wave: self.state.wave + 1, moved_at: self.now, ..self.state.clone() };
            return Decision::moved(state, Vec::new(), format!("wave {} is done", wave.name));
        }
        self.overdue(wave, &waits).unwrap_or_else(|| Decision::waits(waits))
    }

    /// Why the rollout has failed, if it has: on edges that have the version already as well.
    fn failure(&self) -> Option<String> {
        let mut failed = Vec::new();
        for (edge, run) in &self.state.edges {
            let Some(view) = self.fleet.get(edge) else {
                return Some(format!("edge {edge} is no longer there"));
            };
            let has_it: Vec<&NodeId> = match run.part {
                Part::Reverted => continue,
                Part::Promoted => view.nodes.keys().collect(),
                Part::Installing | Part::Holding(_) => view.granted.iter().collect(),
            };
            for node in has_it {
                if let Some(NodeView { progress: Progress::Failed(reason), .. }) = view.nodes.get(node) {
                    failed.push(format!("{node} of edge {edge}: {reason}"));
                }
            }
        }
        let allowed = usize::try_from(self.plan.failed_nodes).unwrap_or(usize::MAX);
        if failed.len() <= allowed {
            return None;
        }
        let first = failed.first().map_or("", String::as_str);
        Some(format!("{} of its nodes do not run it, at most {allowed} may; {first}", failed.len()))
    }

    fn fail(&self, reason: String) -> Decision {
        let phase = match self.plan.on_failure {
            OnFailure::RollBack => Phase::RollingBack { reason: reason.clone() },
            OnFailure::Pause => Phase::Paused { since: self.now, why: Pause::Failed(reason.clone()) },
        };
        Decision::moved(State { phase, moved_at: self.now, ..self.state.clone() }, Vec::new(), reason)
    }

    /// The edge's first step begins: who may be a canary is decided now.
    fn begin(&self, edge: &EdgeName) -> Decision {
        let Some(view) = self.fleet.get(edge) else {
            return self.fail(format!("edge {edge} is no longer there"));
        };
        let members = super::rank(self.id, view.nodes.keys().cloned());
        let told = format!("edge {edge} begins with {} nodes", members.len());
        let run = Run { members, step: 0, part: Part::Installing };
        let mut state = State { moved_at: self.now, ..self.state.clone() };
        state.edges.insert(edge.clone(), run);
        Decision::moved(state, vec![Action::Begin(edge.clone())], told)
    }

    /// The next move on an edge, or what it waits for.
    fn step(&self, wave: &Wave, edge: &EdgeName, run: &Run) -> Result<Decision, String> {
        let (Some(view), Some(step)) = (self.fleet.get(edge), wave.steps.get(run.step)) else {
            return Ok(self.fail(format!("edge {edge} is no longer there")));
        };
        // Those that were taken out of the fleet count for nothing.
        let alive: Vec<&NodeId> = run.members.iter().filter(|node| view.nodes.contains_key(*node)).collect();
        let gone: Vec<NodeId> =
            view.granted.iter().filter(|node| !view.nodes.contains_key(*node)).cloned().collect();
        if !gone.is_empty() {
            // Else more than the step's share would have it once they come back.
            let told =
                format!("{} nodes of edge {edge} may not work, and are none of its any longer", gone.len());
            let state = State { moved_at: self.now, ..self.state.clone() };
            return Ok(Decision::moved(state, vec![Action::TakeBack(edge.clone(), gone)], told));
        }
        // Who has it keeps it; the others get it in their order.
        let (have, rest): (Vec<&NodeId>, Vec<&NodeId>) =
            alive.iter().copied().partition(|node| view.granted.contains(*node));
        let share = step.nodes.of(alive.len());
        let missing: Vec<NodeId> = rest.into_iter().take(share.saturating_sub(have.len())).cloned().collect();
        let wanted: Vec<&NodeId> = have.into_iter().chain(&missing).collect();
        let name = format!("step {} of {} on edge {edge}", run.step + 1, wave.steps.len());
        if !missing.is_empty() {
            let told = format!("{name}: {} of {} nodes have it or get it", wanted.len(), alive.len());
            let state = self.with(edge, |run| run.part = Part::Installing);
            return Ok(Decision::moved(state, vec![Action::Grant(edge.clone(), missing)], told));
        }
        let count = self.count(view, &wanted);
        let is_there = count.pending == 0 && (count.serving > 0 || alive.is_empty());
        if self.plan.on_changes == OnChanges::Wait && !view.waiting.is_empty() {
            return Err(format!("{name}: waiting for approval: {}", view.waiting.join(", ")));
        }
        match run.part {
            Part::Installing if is_there => {
                let state = self.with(edge, |run| run.part = Part::Holding(self.now));
                Ok(Decision::moved(state, Vec::new(), format!("{name}: its {} nodes have it", wanted.len())))
            }
            Part::Installing => Err(format!("{name}: {}", installing(&count, wanted.len()))),
            Part::Holding(since) => {
                let held = u64::try_from(self.now.millis_since(since)).unwrap_or_default();
                if held < step.hold_ms {
                    return Err(format!("{name}: holding, {} s of {} s", held / 1_000, step.hold_ms / 1_000));
                }
                if !is_there {
                    return Err(format!("{name}: held, and {}", installing(&count, wanted.len())));
                }
                Ok(self.held(wave, edge, run, &name))
            }
            Part::Promoted | Part::Reverted => Err(String::new()),
        }
    }

    fn held(&self, wave: &Wave, edge: &EdgeName, run: &Run, name: &str) -> Decision {
        if run.step + 1 < wave.steps.len() {
            let state = self.with(edge, |run| {
                run.step += 1;
                run.part = Part::Installing;
            });
            return Decision::moved(state, Vec::new(), format!("{name} has held"));
        }
        let state = self.with(edge, |run| run.part = Part::Promoted);
        let told = format!("{name} has held: {} is its installed version", self.plan.to);
        Decision::moved(state, vec![Action::Promote(edge.clone())], told)
    }

    fn with(&self, edge: &EdgeName, change: impl FnOnce(&mut Run)) -> State {
        let mut state = State { moved_at: self.now, ..self.state.clone() };
        if let Some(run) = state.edges.get_mut(edge) {
            change(run);
        }
        state
    }

    fn count(&self, view: &EdgeView, wanted: &[&NodeId]) -> Count {
        let grace = i64::try_from(self.plan.offline_grace_ms).unwrap_or(i64::MAX);
        let mut count = Count::default();
        for node in wanted.iter().filter_map(|node| view.nodes.get(*node)) {
            match (&node.progress, node.away_since) {
                (Progress::Failed(reason), _) => count.failed.push(reason.clone()),
                // What it did last says nothing of what it does now.
                (_, Some(since)) if self.now.millis_since(since) >= grace => count.away += 1,
                (Progress::Serving, None) => count.serving += 1,
                _ => count.pending += 1,
            }
        }
        count
    }

    /// Nothing moved for longer than it may.
    fn overdue(&self, wave: &Wave, waits: &[String]) -> Option<Decision> {
        let hold_ends = wave.edges.iter().filter_map(|edge| self.state.edges.get(edge)).filter_map(|run| {
            let (Part::Holding(since), Some(step)) = (run.part, wave.steps.get(run.step)) else {
                return None;
            };
            Some(since.plus_millis(hold(step)))
        });
        let since = hold_ends.chain([self.state.moved_at]).max().unwrap_or(self.state.moved_at);
        let deadline = i64::try_from(self.plan.progress_deadline_ms).unwrap_or(i64::MAX);
        if self.now.millis_since(since) < deadline {
            return None;
        }
        let waiting: BTreeSet<&str> = wave
            .edges
            .iter()
            .filter(|edge| self.state.edges.contains_key(*edge))
            .filter_map(|edge| self.fleet.get(edge))
            .flat_map(|view| view.waiting.iter().map(String::as_str))
            .collect();
        if self.plan.on_changes == OnChanges::Wait && !waiting.is_empty() {
            // What nobody looked at is no fault of the version.
            let what = waiting.into_iter().collect::<Vec<_>>().join(", ");
            let why = Pause::Unapproved(what.clone());
            let state = State { phase: Phase::Paused { since: self.now, why }, ..self.state.clone() };
            return Some(Decision::moved(state, Vec::new(), format!("nobody approved in time: {what}")));
        }
        Some(self.fail(format!("nothing moved within {} s: {}", deadline / 1_000, waits.join("; "))))
    }
}

fn hold(step: &Step) -> i64 {
    i64::try_from(step.hold_ms).unwrap_or(i64::MAX)
}

fn installing(count: &Count, of: usize) -> String {
    let mut told = vec![format!("{} of {of} nodes run it", count.serving)];
    if count.away > 0 {
        told.push(format!("{} are away", count.away));
    }
    if let Some(first) = count.failed.first() {
        told.push(format!("{} failed ({first})", count.failed.len()));
    }
    told.join(", ")
}
