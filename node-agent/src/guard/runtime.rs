//! The running tools, by version and tool: whom a permitted call goes to, and who lists again.
//!
//! The supervisor registers and removes them; the gateway looks them up.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use domain::id::{FunctionId, PluginVersion, ToolId};
use domain::listing::RealText;
use domain::time::Timestamp;
use tokio::sync::watch;
use tools::Tool;

use crate::gateway::Terms;

/// The running tools of a node and its clocks.
#[derive(Debug, Default)]
pub struct Runtime {
    clock: Clock,
    tools: ArcSwap<HashMap<(PluginVersion, ToolId), Running>>,
}

/// The clocks that a node goes by: a monotonic one for what it decides, the wall's for people.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The machine's; milliseconds count from here.
    Machine(Instant),
    /// Set by a simulation.
    Simulated(Arc<SimulatedClock>),
}

/// Both clocks of a simulated node.
#[derive(Debug, Default)]
pub(crate) struct SimulatedClock {
    pub(crate) monotonic_ms: AtomicU64,
    pub(crate) wall_ms: AtomicI64,
}

impl Default for Clock {
    fn default() -> Self {
        Self::Machine(Instant::now())
    }
}

/// One running tool.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) tool: Arc<Tool>,
    pub(crate) relist: Relist,
    /// What its calls go by.
    pub(crate) terms: Terms,
    /// By function, of the newest list.
    pub(crate) real_texts: Arc<ArcSwap<RealTexts>>,
}

/// What stands behind texts that were written out, by function; most functions have none.
pub(crate) type RealTexts = HashMap<Arc<str>, Arc<[RealText]>>;

/// Asks for a new list of one tool and learns when it ended.
#[derive(Clone, Debug)]
pub(crate) struct Relist {
    /// Raised by each request.
    wanted: Arc<watch::Sender<u64>>,
    lists: watch::Receiver<Lists>,
}

/// Lists of one tool, as who lists tells them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lists {
    /// How many ended, however they ended.
    pub(crate) ended: u64,
    /// Whether one is under way.
    pub(crate) under_way: bool,
}

impl Relist {
    /// The two ends: this one asks, the others belong to who lists.
    pub(crate) fn new() -> (Self, watch::Receiver<u64>, watch::Sender<Lists>) {
        let (wanted, requests) = watch::channel(0);
        let (told, lists) = watch::channel(Lists::default());
        (Self { wanted: Arc::new(wanted), lists }, requests, told)
    }

    /// Asks without waiting, for a list that is asked for after this.
    pub(crate) fn ask(&self) {
        self.wanted.send_modify(|number| *number += 1);
    }

    async fn wait(mut self) {
        let before = *self.lists.borrow_and_update();
        if !before.under_way {
            self.ask();
        }
        // An error means that the tool is gone; then there is nothing to wait for.
        let _ = self.lists.wait_for(|lists| lists.ended != before.ended).await;
    }
}

impl Runtime {
    /// Without tools, on these clocks.
    pub(crate) fn on(clock: Clock) -> Self {
        Self { clock, tools: ArcSwap::default() }
    }

    /// The running tool of that version, if it is up.
    pub fn tool(&self, version: &PluginVersion, tool: &ToolId) -> Option<Arc<Tool>> {
        self.running(version, tool).map(|running| running.tool)
    }

    /// Waits until the next list of the tool ended; asks for one if none is under way. All that wait
    /// share it. Returns at once if the tool is not up, and when it ends meanwhile.
    ///
    /// The caller asks the table again afterwards: how the list ended is written there. It brings
    /// its own limit of time; a list ends within a minute (`tools::Limits`).
    pub async fn relist(&self, version: &PluginVersion, tool: &ToolId) {
        // Nothing else of it is held meanwhile: whoever stops the tool waits until nobody has it.
        let relist = self.running(version, tool).map(|running| running.relist);
        if let Some(relist) = relist {
            relist.wait().await;
        }
    }

    /// What stands behind the written-out texts of a function's input schema, by its newest list: what
    /// a call's arguments are given back before they are sent (20-listings, 2).
    pub fn real_texts(&self, version: &PluginVersion, function: &FunctionId) -> Arc<[RealText]> {
        let running = self.running(version, &function.tool);
        let texts = running.and_then(|running| running.real_texts.load().get(&function.function).cloned());
        texts.unwrap_or_else(|| Arc::new([]))
    }

    /// What calls of a running tool go by.
    pub(crate) fn terms(&self, version: &PluginVersion, tool: &ToolId) -> Terms {
        self.running(version, tool).map(|running| running.terms).unwrap_or_default()
    }

    /// Milliseconds since the node agent started: the clock of [`domain::guard::Table::permit`].
    pub fn now_ms(&self) -> u64 {
        match &self.clock {
            Clock::Machine(started) => u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            Clock::Simulated(clock) => clock.monotonic_ms.load(Ordering::Relaxed),
        }
    }

    /// The monotonic clock as a point in time that only others of this run can be compared with: what is
    /// due later is due then, wherever the wall's clock is set.
    pub(crate) fn steady(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.now_ms()).unwrap_or(i64::MAX))
    }

    /// The wall's clock, for people.
    pub(crate) fn wall(&self) -> Timestamp {
        match &self.clock {
            Clock::Machine(_) => crate::now(),
            Clock::Simulated(clock) => Timestamp::from_millis(clock.wall_ms.load(Ordering::Relaxed)),
        }
    }

    pub(crate) fn insert(&self, version: &PluginVersion, tool: &ToolId, running: &Running) {
        self.change(|tools| {
            tools.insert((version.clone(), tool.clone()), running.clone());
        });
    }

    pub(crate) fn remove(&self, version: &PluginVersion, tool: &ToolId) {
        self.change(|tools| {
            tools.remove(&(version.clone(), tool.clone()));
        });
    }

    /// That tool, if it is up.
    pub(crate) fn running(&self, version: &PluginVersion, tool: &ToolId) -> Option<Running> {
        // A handful of tools per node, so that a clone of the key is the cheapest way to ask.
        self.tools.load().get(&(version.clone(), tool.clone())).cloned()
    }

    fn change(&self, change: impl Fn(&mut HashMap<(PluginVersion, ToolId), Running>)) {
        self.tools.rcu(|tools| {
            let mut tools = HashMap::clone(tools);
            change(&mut tools);
            tools
        });
    }
}
