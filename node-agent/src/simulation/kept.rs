//! Tools that are kept, each between two of its events: what the agent's keeper awaits comes from the
//! simulation instead.

use std::sync::Arc;

use arc_swap::ArcSwap;
use domain::guard::view::RunState;
use domain::id::{PluginVersion, ToolId};
use domain::listing::List;
use tools::{Error, RawList};

use super::Node;
use crate::guard::RealTexts;
use crate::supervisor::minding::{AfterList, Minding, exit_reason};
use crate::supervisor::{Bundle, Key, Supervisor};

/// One tool.
pub(super) struct Kept {
    minding: Minding,
    real_texts: ArcSwap<RealTexts>,
    phase: Phase,
    /// A list was asked for while one was under way.
    is_wanted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Being started, or down until it is started again.
    Down,
    Listing,
    Idle,
    Stopping,
}

/// How a list ended.
#[derive(Clone, Debug)]
pub enum Listed {
    /// It was read to its end; raw entries.
    Complete(Vec<Box<str>>),
    /// It broke off after these.
    Broken(Vec<Box<str>>),
    /// Not even a first page came.
    Failed,
}

/// What is next for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolNext {
    /// It is asked for its list now.
    List,
    /// Nothing, for so many milliseconds: then [`Node::list_due`].
    Wait(u64),
    /// Nothing: it is being stopped, or is not kept any more.
    Nothing,
}

impl Kept {
    pub(super) fn new(supervisor: &Arc<Supervisor>, bundle: Bundle, key: Key) -> Self {
        let minding = Minding::new(Arc::clone(supervisor), bundle, key);
        Self { minding, real_texts: ArcSwap::default(), phase: Phase::Down, is_wanted: false }
    }

    fn ask(&mut self) -> ToolNext {
        (self.phase, self.is_wanted) = (Phase::Listing, false);
        self.minding.ask();
        ToolNext::List
    }
}

impl Node {
    /// A start of the tool begins; whether it is to be started at all.
    pub fn begin_tool(&mut self, version: &PluginVersion, tool: &ToolId) -> bool {
        let Some(kept) = self.kept(version, tool).filter(|kept| kept.phase == Phase::Down) else {
            return false;
        };
        kept.minding.begin();
        true
    }

    /// The tool is up.
    pub fn tool_up(&mut self, version: &PluginVersion, tool: &ToolId) -> ToolNext {
        let Some(kept) = self.kept(version, tool).filter(|kept| kept.phase == Phase::Down) else {
            return ToolNext::Nothing;
        };
        kept.minding.up(None);
        kept.ask()
    }

    /// The tool does not start: when to try again.
    pub fn tool_not_started(&mut self, version: &PluginVersion, tool: &ToolId, random: u32) -> Option<u64> {
        let kept = self.kept(version, tool)?;
        let why = kept.minding.no_spec("it does not start");
        Some(millis(kept.minding.not_started(why, random)))
    }

    /// A list of the tool ended.
    pub fn list_ended(
        &mut self,
        version: &PluginVersion,
        tool: &ToolId,
        listed: Listed,
        random: u32,
    ) -> ToolNext {
        let Some(kept) = self.kept(version, tool).filter(|kept| kept.phase == Phase::Listing) else {
            return ToolNext::Nothing;
        };
        let after = kept.minding.answered(outcome(listed), ("", ""), &kept.real_texts, random);
        match after {
            AfterList::Repeat => {
                kept.minding.ask();
                ToolNext::List
            }
            AfterList::Wait(_) if kept.is_wanted => kept.ask(),
            AfterList::Wait(delay) => {
                kept.phase = Phase::Idle;
                ToolNext::Wait(millis(delay))
            }
        }
    }

    /// The time to list again came.
    pub fn list_due(&mut self, version: &PluginVersion, tool: &ToolId) -> ToolNext {
        match self.kept(version, tool) {
            Some(kept) if kept.phase == Phase::Idle => kept.ask(),
            _ => ToolNext::Nothing,
        }
    }

    /// The tool said that its list changed.
    pub fn list_changed(&mut self, version: &PluginVersion, tool: &ToolId) -> ToolNext {
        let Some(kept) = self.kept(version, tool) else { return ToolNext::Nothing };
        kept.minding.sup.notice(&kept.minding.key, kept.minding.instance);
        kept.is_wanted = kept.phase == Phase::Listing;
        if kept.phase == Phase::Idle { kept.ask() } else { ToolNext::Nothing }
    }

    /// The tool's process ended by itself: when to start it again.
    pub fn tool_exited(&mut self, version: &PluginVersion, tool: &ToolId, random: u32) -> Option<u64> {
        let kept = self.kept(version, tool).filter(|kept| kept.phase != Phase::Stopping)?;
        let reason = exit_reason("ended with exit code 1", "");
        let Minding { sup, key, instance, .. } = &kept.minding;
        let run = RunState::NotRunning { since: sup.now(), reason: Arc::clone(&reason) };
        sup.down(key, *instance, run, &reason);
        kept.phase = Phase::Down;
        Some(millis(kept.minding.ended(&reason, random)))
    }

    pub(super) fn pause_tool(&mut self, version: &PluginVersion, tool: &ToolId) {
        if let Some(kept) = self.kept(version, tool) {
            if kept.phase != Phase::Down {
                kept.minding.sup.pause(&kept.minding.key);
            }
            kept.phase = Phase::Stopping;
        }
    }

    pub(super) fn tools_of(&self, version: &PluginVersion) -> Vec<ToolId> {
        self.kept.keys().filter(|(of, _)| of == version).map(|(_, tool)| tool.clone()).collect()
    }

    fn kept(&mut self, version: &PluginVersion, tool: &ToolId) -> Option<&mut Kept> {
        self.kept.get_mut(&(version.clone(), tool.clone()))
    }
}

fn outcome(listed: Listed) -> Result<RawList, Error> {
    let raw = |entries, broken: Option<Error>| {
        let list = List { entries, complete: broken.is_none(), warnings: Vec::new() };
        Ok(RawList { list, broken, ttl: None })
    };
    let gone = || Error::Gone { status: "stopped answering".into(), stderr: "".into(), sent: true };
    match listed {
        Listed::Complete(entries) => raw(entries, None),
        Listed::Broken(entries) => raw(entries, Some(gone())),
        Listed::Failed => Err(gone()),
    }
}

fn millis(delay: std::time::Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
}
