//! What keepers tell of their tools, put on the board and into the guard's view in one change.

use std::sync::Arc;

use domain::guard::view::{PluginState, RunState};
use domain::time::Timestamp;

use super::judged::Judged;
use super::{Key, Supervisor};

impl Supervisor {
    /// A start begins; returns its number. It is listed before anything of it is called.
    pub(crate) fn starting(&self, key: &Key) -> u64 {
        let now = self.runtime.wall();
        let started = self.with_tool(key, |tool| {
            tool.instance += 1;
            tool.notices = 0;
            tool.listing = None;
            tool.judged = None;
            tool.relisting = None;
            if !matches!(&tool.run, RunState::NotRunning { .. } | RunState::Unreachable { .. }) {
                tool.run = RunState::NotRunning { since: now, reason: "it is starting".into() };
            }
            tool.instance
        });
        started.unwrap_or_default()
    }

    /// It is up and will be listed.
    pub(crate) fn up(&self, key: &Key, confined: Option<tools::Confined>) {
        self.with_tool(key, |tool| {
            tool.run = RunState::Running;
            tool.confined = confined.map_or_else(|| "".into(), |confined| confined.to_string().into());
        });
    }

    /// It is about to be stopped by us: no further call begins.
    pub(crate) fn pause(&self, key: &Key) {
        let run = RunState::NotRunning {
            since: self.runtime.wall(),
            reason: "it is being stopped or started again".into(),
        };
        self.with_tool(key, |tool| tool.run = run);
    }

    /// It does not start, or ended. An earlier start of it is passed over.
    pub(crate) fn down(&self, key: &Key, instance: u64, run: RunState, reason: &str) {
        let now = self.runtime.wall();
        self.with_tool(key, |tool| {
            if tool.instance != instance {
                return;
            }
            tool.run = run;
            tool.listing = None;
            tool.judged = None;
            tool.relisting = None;
            tool.confined = "".into();
            let since = tool.relist_failed.as_ref().map_or(now, |(since, _)| *since);
            tool.relist_failed = Some((since, reason.into()));
        });
    }

    /// It said that its list changed, or may have: nothing of it is called until a list that is asked
    /// for after this has ended.
    pub(crate) fn notice(&self, key: &Key, instance: u64) {
        let now = self.runtime.wall();
        let mut counted = false;
        self.guard.update(|view| {
            let mut board = self.board();
            let Some(on_board) = board.versions.get_mut(&key.0) else { return false };
            let Some(tool) = on_board.tools.get_mut(&key.1).filter(|tool| tool.instance == instance) else {
                return false;
            };
            tool.notices += 1;
            counted = true;
            // A server that says it over and over costs one rebuild.
            if tool.relisting.is_some() || tool.listing.is_none() {
                return false;
            }
            tool.relisting = Some(now);
            if on_board.called {
                view.plugins.insert(key.0.plugin.clone(), PluginState::Serving(on_board.view(&key.0)));
            }
            on_board.called
        });
        if counted {
            self.changed.send_modify(|number| *number += 1);
        }
    }

    /// A list is about to be asked for: notices so far.
    pub(super) fn notices(&self, key: &Key) -> u64 {
        let board = self.board();
        let tool = board.versions.get(&key.0).and_then(|on_board| on_board.tools.get(&key.1));
        tool.map_or(0, |tool| tool.notices)
    }

    /// A list that was asked for at `asked_at_ms`, after `notices`, has ended.
    pub(super) fn listed(&self, key: &Key, instance: u64, asked: (u64, u64), judged: Arc<Judged>) {
        let (asked_at_ms, notices) = asked;
        let now = self.runtime.wall();
        self.with_version(&key.0, |on_board, trust, spool| {
            let Some(tool) = on_board.tools.get_mut(&key.1).filter(|tool| tool.instance == instance) else {
                return;
            };
            let before = tool.listing.as_ref().and_then(|listing| listing.incomplete.as_ref());
            let since = before.map_or(now, |(since, _)| *since);
            tool.listing = Some(Arc::new(judged.listing(asked_at_ms, since)));
            let is_known = tool.judged.as_ref().is_some_and(|known| Arc::ptr_eq(known, &judged));
            tool.judged = Some(judged);
            tool.relist_failed = None;
            tool.run = RunState::Running;
            if tool.notices == notices {
                tool.relisting = None;
            } else if tool.relisting.is_none() {
                tool.relisting = Some(now);
            }
            // What was judged together with the other tools' lists stays so.
            if !is_known {
                on_board.judge(&key.0, trust, spool);
            }
        });
    }

    /// A list could not be had at all. `run`: what else that means, such as a redirect.
    pub(super) fn not_listed(&self, key: &Key, instance: u64, reason: &str, run: Option<RunState>) {
        let now = self.runtime.wall();
        self.with_tool(key, |tool| {
            if tool.instance != instance {
                return;
            }
            let since = tool.relist_failed.as_ref().map_or(now, |(since, _)| *since);
            tool.relist_failed = Some((since, reason.into()));
            if let Some(run) = run {
                tool.run = run;
            }
        });
    }

    /// When the wall's clock says that something began.
    pub(super) fn since(&self, key: &Key) -> Timestamp {
        let board = self.board();
        let tool = board.versions.get(&key.0).and_then(|on_board| on_board.tools.get(&key.1));
        match tool.map(|tool| &tool.run) {
            Some(RunState::NotRunning { since, .. } | RunState::Unreachable { since, .. }) => *since,
            _ => self.runtime.wall(),
        }
    }
}
