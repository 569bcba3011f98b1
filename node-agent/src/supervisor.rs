//! The tools of this node: started, listed, started again after a crash, stopped; and what that means
//! to the guard and to the control plane's reports.
//!
//! One [`keeper`] task per running tool does the waiting; everything that it learns goes through here,
//! where the [`board`] changes together with the guard's view, so that a notice of a changed list is in
//! the table before anything later is written. Which versions run is the reconciler's to say.

mod board;
mod heard;
pub(crate) mod judged;
mod keeper;
pub(crate) mod minding;
mod opening;
mod pace;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::fresh::Reliance;
use domain::guard::view::{PluginState, View};
use domain::id::{PluginName, PluginVersion, ToolId};
use domain::plugin_set::{Plan, Policy, Trust};
use domain::reconcile;
use domain::refusal::Refusal;
use domain::time::Timestamp;
use proto::convert::ToolStatus;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::guard::{Guard, Runtime};
use crate::spool::{Spool, Texts};
use board::{Away, Board, OnBoard, OneTool};
use minding::Minding;

pub(crate) use board::RUNS;
pub(crate) use spec::{Bundle, Settings};

pub(crate) type Key = (PluginVersion, ToolId);

/// The tools of this node.
pub(crate) struct Supervisor {
    guard: Arc<Guard>,
    runtime: Arc<Runtime>,
    spool: Arc<Spool>,
    settings: Settings,
    /// Changed only inside of [`Guard::update`].
    board: Mutex<Board>,
    keepers: Mutex<BTreeMap<Key, Keeper>>,
    /// Told at each change of the board or of what tools are started from.
    changed: watch::Sender<u64>,
}

/// The task that keeps one tool.
struct Keeper {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Supervisor {
    pub(crate) fn new(
        guard: Arc<Guard>,
        runtime: Arc<Runtime>,
        spool: Arc<Spool>,
        settings: Settings,
    ) -> Self {
        Self {
            guard,
            runtime,
            spool,
            settings,
            board: Mutex::default(),
            keepers: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    /// The bundle of a plugin is not what the plan says: the control plane is told.
    pub(crate) fn mismatch(&self, plugin: &PluginName, reason: &str) {
        self.spool.put_mismatch((plugin.clone(), reason.into()));
    }

    /// The wall's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.runtime.wall()
    }

    /// What the reconciler goes by; see [`Runtime::steady`].
    pub(crate) fn steady(&self) -> Timestamp {
        self.runtime.steady()
    }

    /// Told whenever a tool stands differently.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Takes an installed version; none of its tools is started.
    pub(crate) fn open(&self, bundle: &Bundle) {
        let now = self.runtime.wall();
        self.change(|board, _| {
            let tool =
                |(id, kind, origin): (&ToolId, _, _)| (id.clone(), OneTool::new(id, kind, origin, now));
            let on_board = OnBoard::new(bundle.tools().map(tool).collect());
            board.versions.insert(bundle.version.clone(), on_board);
            false
        });
    }

    /// Keeps a tool running from now on.
    pub(crate) fn start(self: &Arc<Self>, bundle: &Bundle, tool: &ToolId) {
        let key = (bundle.version.clone(), tool.clone());
        self.keep(&key);
        let stop = CancellationToken::new();
        let minding = Minding::new(Arc::clone(self), bundle.clone(), key.clone());
        let memory = bundle.opened(tool, &self.settings.work);
        let opening = memory.noted();
        let keeping =
            keeper::Keeping { minding, stop: stop.clone(), opening, memory, refused: String::new() };
        let task = tokio::spawn(keeping.keep());
        if let Some(earlier) = self.keepers().insert(key, Keeper { stop, task }) {
            earlier.stop.cancel();
        }
    }

    /// Stops a tool: its calls end first, up to a limit. Returns when it is down.
    pub(crate) async fn stop(&self, version: &PluginVersion, tool: &ToolId) {
        let key = (version.clone(), tool.clone());
        let keeper = self.keepers().remove(&key);
        if let Some(keeper) = keeper {
            keeper.stop.cancel();
            if keeper.task.await.is_err() {
                tracing::error!(plugin.version = %version, tool.id = %tool, "the task of a tool broke");
            }
        }
        self.stopped(&key);
    }

    /// A tool is kept running from now on.
    pub(crate) fn keep(&self, key: &Key) {
        self.with_tool(key, |tool| tool.on = true);
    }

    /// A tool that was kept is down: it stands as one that was never started.
    pub(crate) fn stopped(&self, key: &Key) {
        let now = self.runtime.wall();
        self.with_tool(key, |tool| {
            let stopped = OneTool::new(&key.1, tool.kind, tool.origin.clone(), now);
            let instance = tool.instance + 1;
            *tool = OneTool { instance, ..stopped };
        });
    }

    /// Stops every tool of a version.
    pub(crate) async fn stop_version(&self, version: &PluginVersion) {
        let tools: Vec<ToolId> =
            self.keepers().keys().filter(|(of, _)| of == version).map(|(_, tool)| tool.clone()).collect();
        futures::future::join_all(tools.iter().map(|tool| self.stop(version, tool))).await;
    }

    /// Stops everything, within `limit`; what is left then is killed.
    pub(crate) async fn stop_all(&self, limit: Duration) {
        let versions: Vec<PluginVersion> = self.board().versions.keys().cloned().collect();
        let all = futures::future::join_all(versions.iter().map(|version| self.stop_version(version)));
        if tokio::time::timeout(limit, all).await.is_err() {
            for (_, keeper) in std::mem::take(&mut *self.keepers()) {
                keeper.task.abort();
            }
        }
    }

    /// Forgets a version whose tools are down.
    pub(crate) fn forget(&self, version: &PluginVersion) {
        self.change(|board, _| {
            board.versions.remove(version);
            false
        });
        self.spool.forget(version);
    }

    /// Lets the guard go by these states of plugins; a version that is called stands as its tools do.
    /// One change, so that calls switch atomically.
    pub(crate) fn show(&self, plugins: Vec<(PluginName, Option<Shown>)>) {
        if plugins.is_empty() {
            return;
        }
        self.change(|board, view| {
            for (plugin, shown) in plugins {
                for (version, on_board) in &mut board.versions {
                    if version.plugin == plugin {
                        on_board.called = matches!(&shown, Some(Shown::Serving(called)) if called == version);
                    }
                }
                let state = match shown {
                    Some(Shown::Serving(version)) => board
                        .versions
                        .get(&version)
                        .map(|on_board| PluginState::Serving(on_board.view(&version))),
                    Some(Shown::Other(state)) => Some(state),
                    None => None,
                };
                match state {
                    Some(state) => view.plugins.insert(plugin, state),
                    None => view.plugins.remove(&plugin),
                };
            }
            true
        });
    }

    /// Lets the guard go by another `trust`, its texts and another policy.
    pub(crate) fn apply(&self, set: Applied) {
        if let Some(plan) = &set.plan {
            self.settings.credentials.plan(plan);
        }
        self.change(|board, view| {
            if let Some((trust, texts)) = set.trust {
                view.trust = trust;
                view.texts = texts;
                for (version, on_board) in &mut board.versions {
                    on_board.judge(version, &view.trust, &self.spool);
                }
            }
            if let Some(policy) = set.policy {
                view.policy = policy;
            }
            render(board, view);
            true
        });
    }

    /// Every plugin of the set was shown: calls may begin, if the set may be gone by.
    pub(crate) fn hold(&self) {
        self.stand(|board| board.shown = true);
    }

    /// What the node goes by now.
    pub(crate) fn rely(&self, reliance: Reliance) {
        self.stand(|board| {
            board.reliance = reliance;
            board.shown &= reliance.has_set();
        });
    }

    /// Nothing is called until [`Supervisor::take_back`], whatever the node goes by.
    pub(crate) fn turn_away(&self, refusal: Refusal) {
        self.stand(|board| board.away.turn(Away::Until(refusal)));
    }

    /// The same, unless it goes by a set already.
    pub(crate) fn turn_away_waiting(&self, refusal: Refusal) {
        self.stand(|board| {
            if !board.reliance.has_set() {
                board.away.turn(Away::Until(refusal));
            }
        });
    }

    /// Nothing is called any more.
    pub(crate) fn expel(&self, refusal: Refusal) {
        self.stand(|board| board.away.turn(Away::ForGood(refusal)));
    }

    /// The fleet has the node again, unless it was expelled.
    pub(crate) fn take_back(&self) {
        self.stand(|board| board.away.turn(Away::Not));
    }

    fn stand(&self, change: impl FnOnce(&mut Board)) {
        self.guard.update(|view| {
            let mut board = self.board();
            change(&mut board);
            let edge = view.edge.clone();
            let next = board.set_state(&edge, &view.set);
            let differs = next.is_some();
            if let Some(next) = next {
                view.set = next;
            }
            differs
        });
    }

    /// How the tools of a version stand, for the reconciler.
    pub(crate) fn observed(&self, version: &PluginVersion) -> BTreeMap<ToolId, reconcile::Tool> {
        let board = self.board();
        let tools = board.versions.get(version).into_iter().flat_map(|on_board| &on_board.tools);
        tools.map(|(id, tool)| (id.clone(), tool.observed())).collect()
    }

    /// How the tools of a version stand, for the control plane.
    pub(crate) fn status(&self, version: &PluginVersion, policy: &Policy) -> Vec<ToolStatus> {
        let board = self.board();
        let tools = board.versions.get(version).into_iter().flat_map(|on_board| &on_board.tools);
        tools.map(|(id, tool)| tool.status(id, policy)).collect()
    }

    /// Changes one tool, and tells the guard if its version is called. `None` if it is gone.
    fn with_tool<T>(&self, key: &Key, change: impl FnOnce(&mut OneTool) -> T) -> Option<T> {
        self.with_version(&key.0, |on_board, _, _| on_board.tools.get_mut(&key.1).map(change)).flatten()
    }

    fn with_version<T>(
        &self,
        version: &PluginVersion,
        change: impl FnOnce(&mut OnBoard, &Trust, &Spool) -> T,
    ) -> Option<T> {
        let mut result = None;
        self.change(|board, view| {
            let Some(on_board) = board.versions.get_mut(version) else { return false };
            result = Some(change(on_board, &view.trust, &self.spool));
            if on_board.called {
                view.plugins.insert(version.plugin.clone(), PluginState::Serving(on_board.view(version)));
            }
            on_board.called
        });
        result
    }

    fn change(&self, change: impl FnOnce(&mut Board, &mut View) -> bool) {
        self.guard.update(|view| change(&mut self.board(), view));
        self.changed.send_modify(|number| *number += 1);
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keepers(&self) -> MutexGuard<'_, BTreeMap<Key, Keeper>> {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a part of the set that was applied says to the guard.
#[derive(Default)]
pub(crate) struct Applied {
    pub(crate) trust: Option<(Arc<Trust>, Texts)>,
    pub(crate) policy: Option<Policy>,
    /// For what tools are reached with.
    pub(crate) plan: Option<Plan>,
}

/// What the guard goes by for one plugin.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// This version is called.
    Serving(PluginVersion),
    /// None is.
    Other(PluginState),
}

fn render(board: &Board, view: &mut View) {
    for (version, on_board) in board.versions.iter().filter(|(_, on_board)| on_board.called) {
        view.plugins.insert(version.plugin.clone(), PluginState::Serving(on_board.view(version)));
    }
}
