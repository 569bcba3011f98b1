//! Tool servers: they start, list, change their words, say so or not, and crash.

use std::collections::BTreeMap;

use domain::id::{PluginVersion, ToolId};
use node_agent::simulation::{Listed, ToolNext};

use super::event::Event;
use super::{Words, World};
use crate::observer::Call;
use crate::plant::Plant;
use crate::scene::{EXTRA, canonical, entry};

/// What is due of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolEvent {
    /// It is started.
    Start,
    /// Its start ended.
    Up,
    /// Its list ended.
    Listed,
    /// It may be listed again.
    Due,
}

/// The tools of one boot.
#[derive(Debug, Default)]
pub(super) struct Tools(BTreeMap<(PluginVersion, ToolId), Running>);

/// One tool.
#[derive(Debug, Default)]
struct Running {
    /// Which run of its server is up.
    run: Option<u64>,
    /// Raised whenever something else is due of it.
    turn: u64,
    asked_at: u64,
    /// What it listed when it was asked, if it lists at once and is slow to send.
    early: Option<Words>,
    /// For the planted bug: what it listed last.
    last: Option<Words>,
    has_crashed: bool,
}

impl Tools {
    /// The runs of their servers that are up.
    pub(super) fn runs(&self) -> Vec<u64> {
        self.0.values().filter_map(|running| running.run).collect()
    }
}

type Of = (PluginVersion, ToolId);

impl World<'_> {
    pub(super) fn keep_tool(&mut self, node: usize, boot: u32, version: &PluginVersion, tool: &ToolId) {
        let of = (version.clone(), tool.clone());
        if let Some(up) = self.agent(node, boot) {
            let turn = up.tools.0.get(&of).map_or(0, |running| running.turn + 1);
            up.tools.0.insert(of.clone(), Running { turn, ..Running::default() });
        }
        self.start_tool(node, boot, &of);
    }

    /// The tools of a version are being stopped.
    pub(super) fn tools_end(&mut self, node: usize, boot: u32, version: &PluginVersion) {
        let mut ended = Vec::new();
        if let Some(up) = self.agent(node, boot) {
            for (_, running) in up.tools.0.iter_mut().filter(|((of, _), _)| of == version) {
                running.turn += 1;
                ended.extend(running.run.take());
            }
        }
        for run in ended {
            self.observer.tool_ended(run);
        }
    }

    /// Something of a tool is due.
    pub(super) fn tool(&mut self, node: usize, boot: u32, of: &Of, (turn, what): (u64, ToolEvent)) {
        let is_present = |up: &mut super::machine::Up| up.tools.0.get(of).is_some_and(|one| one.turn == turn);
        if !self.agent(node, boot).is_some_and(is_present) {
            return;
        }
        match what {
            ToolEvent::Start => self.start_tool(node, boot, of),
            ToolEvent::Up => self.tool_up(node, boot, of),
            ToolEvent::Listed => self.tool_listed(node, boot, of),
            ToolEvent::Due => {
                if let Some(up) = self.agent(node, boot) {
                    let next = up.agent.list_due(&of.0, &of.1);
                    self.next(node, boot, of, next);
                }
            }
        }
        self.settle(node);
    }

    fn start_tool(&mut self, node: usize, boot: u32, of: &Of) {
        let latency = self.chance.between(5, 200);
        if self.agent(node, boot).is_some_and(|up| up.agent.begin_tool(&of.0, &of.1)) {
            self.tool_due(node, boot, of, latency, ToolEvent::Up);
        }
    }

    fn tool_up(&mut self, node: usize, boot: u32, of: &Of) {
        let content = self.scene.release(&of.0).map(|release| release.content);
        let is_there =
            content.is_some_and(|content| self.hosts.get(node).is_some_and(|host| host.disk.has(&content)));
        let fails = !is_there || (!self.is_calm && self.chance.happens(self.profile.start_faults));
        let random = self.chance.u32();
        if fails {
            let again = self.agent(node, boot).and_then(|up| up.agent.tool_not_started(&of.0, &of.1, random));
            self.trace(|| format!("n{} {} {} does not start", node + 1, of.0, of.1));
            if let Some(again) = again {
                self.tool_due(node, boot, of, again, ToolEvent::Start);
            }
            return;
        }
        self.numbered += 1;
        let run = self.numbered;
        self.observer.tool_began(run);
        self.trace(|| format!("n{} {} {} is up, run {run}", node + 1, of.0, of.1));
        let Some(up) = self.agent(node, boot) else { return };
        let next = up.agent.tool_up(&of.0, &of.1);
        if let Some(running) = up.tools.0.get_mut(of) {
            running.run = Some(run);
        }
        self.next(node, boot, of, next);
    }

    fn next(&mut self, node: usize, boot: u32, of: &Of, next: ToolNext) {
        let now = self.now;
        match next {
            ToolNext::List => {
                let words = self.words_of(node, of).clone();
                let is_early = self.chance.happens(500);
                let latency = self.chance.between(1, if self.is_calm { 40 } else { self.profile.list_ms });
                if let Some(running) = self.agent(node, boot).and_then(|up| up.tools.0.get_mut(of)) {
                    running.asked_at = now;
                    running.early = is_early.then_some(words);
                }
                self.tool_due(node, boot, of, latency, ToolEvent::Listed);
            }
            ToolNext::Wait(delay) => self.tool_due(node, boot, of, delay, ToolEvent::Due),
            ToolNext::Nothing => {}
        }
    }

    fn tool_listed(&mut self, node: usize, boot: u32, of: &Of) {
        let random = self.chance.u32();
        let breaks = !self.is_calm && self.chance.happens(self.profile.list_faults);
        let is_mute = self.chance.happens(300);
        let words = self.words_of(node, of).clone();
        let forgets = self.is_planted(Plant::NoRelist);
        let Some(running) = self.agent(node, boot).and_then(|up| up.tools.0.get_mut(of)) else { return };
        let Some(run) = running.run else { return };
        let asked_at = running.asked_at;
        let mut words = running.early.take().unwrap_or(words);
        // The planted bug: what the tool listed before it crashed is taken for its list.
        let forgotten = running.last.clone().filter(|_| forgets && running.has_crashed);
        if breaks && forgotten.is_none() {
            words = words.into_iter().take(usize::from(!is_mute)).collect();
        }
        running.last = Some(words.clone());
        let listed = match &forgotten {
            Some(last) => Listed::Complete(entries(last)),
            None if breaks && words.is_empty() => Listed::Failed,
            None if breaks => Listed::Broken(entries(&words)),
            None => Listed::Complete(entries(&words)),
        };
        if forgotten.is_none() && !matches!(listed, Listed::Failed) {
            let shown: Vec<(String, String)> =
                words.iter().map(|(name, variant)| ((*name).to_owned(), canonical(name, *variant))).collect();
            self.observer.tool_listed(run, asked_at, &shown);
        }
        self.trace(|| {
            format!(
                "n{} {} {} listed {words:?}{}",
                node + 1,
                of.0,
                of.1,
                if breaks { ", broken" } else { "" }
            )
        });
        if let Some(up) = self.agent(node, boot) {
            let next = up.agent.list_ended(&of.0, &of.1, listed, random);
            self.next(node, boot, of, next);
        }
    }

    pub(super) fn crash_tool(&mut self, node: usize) {
        let random = self.chance.u32();
        let pick = self.chance.next();
        let Some(host) = self.hosts.get(node) else { return };
        let Some(up) = &host.up else { return };
        let boot = up.boot;
        let running: Vec<Of> =
            up.tools.0.iter().filter(|(_, one)| one.run.is_some()).map(|(of, _)| of.clone()).collect();
        let index = usize::try_from(pick % (running.len().max(1) as u64)).unwrap_or_default();
        let Some(of) = running.get(index).cloned() else { return };
        self.trace(|| format!("n{} {} {} crashes", node + 1, of.0, of.1));
        let Some(up) = self.agent(node, boot) else { return };
        let again = up.agent.tool_exited(&of.0, &of.1, random);
        let ended = up.tools.0.get_mut(&of).and_then(|running| {
            running.turn += 1;
            running.has_crashed = true;
            running.run.take()
        });
        if let Some(run) = ended {
            self.observer.tool_ended(run);
        }
        if let Some(again) = again {
            self.tool_due(node, boot, &of, again, ToolEvent::Start);
        }
        self.settle(node);
    }

    fn tool_due(&mut self, node: usize, boot: u32, of: &Of, delay: u64, what: ToolEvent) {
        let Some(running) = self.agent(node, boot).and_then(|up| up.tools.0.get_mut(of)) else { return };
        running.turn += 1;
        let turn = running.turn;
        let (version, tool) = of.clone();
        self.after(delay, Event::Tool { node, boot, version, tool, turn, what });
    }

    // Words.

    fn words_of(&mut self, node: usize, of: &Of) -> &mut Words {
        let release = self.scene.release(&of.0);
        let first = || {
            let tools = release.into_iter().flat_map(|release| &release.tools);
            let functions = tools.filter(|(tool, _)| *tool == of.1).flat_map(|(_, functions)| functions);
            functions.map(|function| (*function, release.map_or(0, |release| release.words))).collect()
        };
        self.words.entry((node, of.0.clone(), of.1.clone())).or_insert_with(first)
    }

    /// A tool changes what it says about a function, on one node or on all.
    pub(super) fn change_words(&mut self) {
        let again = self.chance.between(500, self.profile.words_every_ms);
        if self.is_calm {
            return;
        }
        self.after(again, Event::Words);
        let scene = self.scene;
        let Some(release) = self.chance.pick(&scene.releases) else { return };
        let Some((tool, functions)) = self.chance.pick(&release.tools) else { return };
        let function = self.chance.pick(functions).copied().unwrap_or(EXTRA);
        let change = self.chance.below(10);
        let variant = self.chance.below(3);
        let everywhere = self.chance.happens(400);
        let one = usize::try_from(self.chance.below(self.hosts.len() as u64)).unwrap_or_default();
        let of = (release.version.clone(), tool.clone());
        for node in 0..self.hosts.len() {
            if !everywhere && node != one {
                continue;
            }
            let words = self.words_of(node, &of);
            match change {
                0 => drop(words.remove(function)),
                1 => drop(words.insert(EXTRA, variant)),
                2 => drop(words.remove(EXTRA)),
                _ => drop(words.insert(function, variant)),
            }
            let says_so = self.chance.happens(600);
            self.trace(|| {
                format!(
                    "n{} {} {} says something else{}",
                    node + 1,
                    of.0,
                    of.1,
                    if says_so { ", and so it says" } else { "" }
                )
            });
            if says_so {
                self.notice(node, &of);
            }
        }
    }

    /// A tool server says that its list changed, if it is up.
    pub(super) fn notice(&mut self, node: usize, of: &Of) {
        let Some(boot) = self.hosts.get(node).and_then(|host| host.up.as_ref()).map(|up| up.boot) else {
            return;
        };
        let Some(up) = self.agent(node, boot) else { return };
        let Some(run) = up.tools.0.get(of).and_then(|running| running.run) else { return };
        let next = up.agent.list_changed(&of.0, &of.1);
        self.observer.tool_noticed(run, self.now);
        self.next(node, boot, of, next);
        self.settle(node);
    }

    /// Calls everything on a node that the guard permits, and has each call judged.
    pub(super) fn probe(&mut self, node: usize, boot: u32) {
        let now = self.now;
        let scene = self.scene;
        let mut calls = Vec::new();
        let Some(up) = self.agent(node, boot) else { return };
        for name in &scene.functions {
            let Ok(permitted) = up.agent.permit(name) else { continue };
            let of = (permitted.version, permitted.tool);
            // One whose server is gone reaches nobody.
            let Some(run) = up.tools.0.get(&of).and_then(|running| running.run) else { continue };
            calls.push((of, permitted.function, run));
        }
        for ((version, tool), function, run) in calls {
            let Some(release) = scene.release(&version) else { continue };
            let number = version.version.to_string();
            let call = Call {
                node,
                plugin: version.plugin.as_str(),
                version: &number,
                content: release.content.as_bytes(),
                tool: tool.as_str(),
                function: &function,
                run,
            };
            if let Err(what) = self.observer.call(call, now) {
                return self.fail(format!("{what} (node {})", self.name(node)));
            }
        }
    }

    /// What the tools of a version list on a node, as it is now.
    pub(super) fn says_now(&mut self, node: usize, of: &Of) -> Words {
        self.words_of(node, of).clone()
    }

    /// Changes a function's words on a node.
    pub(super) fn reword(&mut self, node: usize, of: &Of, function: &'static str, variant: u64) {
        self.words_of(node, of).insert(function, variant);
        self.notice(node, of);
    }
}

fn entries(words: &Words) -> Vec<Box<str>> {
    words.iter().map(|(name, variant)| entry(name, *variant)).collect()
}
