//! The loop that brings the node to its plugin set: observe, ask `domain::reconcile`, perform, observe
//! again; and tells the guard and the control plane how every plugin stands.
//!
//! Nothing is begun before the set of this boot is held (30-nodes, 4). Slow steps (install, stop) run
//! aside, so that no plugin waits for another.

mod local;
mod set;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::digest::Digest;
use domain::guard::view::PluginState;
use domain::id::{PluginName, PluginVersion, ToolId};
use domain::plugin_set::PlannedVersion;
use domain::reconcile::{Decision, Failure, Stage, Standing, Step, Wait, reconcile, retry_after_ms};
use domain::time::Timestamp;
use proto::convert::{Status, VersionState, VersionStatus};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::installer::{self, Installer, Keep};
use crate::supervisor::{Bundle, RUNS, Shown, Supervisor};
use local::{Local, OneVersion};

pub(crate) use set::PluginSet;

/// Outcomes of slow steps that wait to be read; more than a node has plugins.
const OUTCOMES: usize = 256;

/// What the loop works with.
pub(crate) struct Reconciler {
    set: watch::Receiver<Arc<PluginSet>>,
    sup: Arc<Supervisor>,
    status: watch::Sender<Status>,
    local: Local,
    /// What the guard was told last, so that it is told what changed.
    told: BTreeMap<PluginName, Told>,
    /// Steps that were begun and take a while.
    errands: Vec<Errand>,
    outcomes: (mpsc::Sender<Outcome>, mpsc::Receiver<Outcome>),
    /// What the last sweep kept.
    swept: Option<Keep>,
}

/// A step that takes a while, to be done aside.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Download, verify and place, unless it is cancelled; the try's number.
    Install(Box<PlannedVersion>, u64, CancellationToken),
    /// Keep a tool running.
    Keep(Bundle, ToolId),
    /// Stop a tool.
    StopTool(PluginVersion, ToolId),
    /// Stop all tools of a version.
    Stop(PluginVersion),
    /// Take a version's files away at once, so that an install of the same content that comes next does not
    /// find them; deleting them may take its time.
    Remove(PluginVersion, Digest),
    /// Take away what is neither named nor there.
    Sweep(Keep),
}

/// How an errand ended.
pub(crate) enum Outcome {
    /// The version, its content, and which try it was.
    Installed(PluginVersion, Digest, u64, Result<Bundle, installer::Error>),
    Stopped(PluginVersion),
    ToolStopped(PluginVersion, ToolId),
}

/// What the guard goes by for a plugin, comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Serving(PluginVersion),
    Installing {
        version: PluginVersion,
        tools: Vec<ToolId>,
        failed: Option<Arc<str>>,
        earlier: Option<PluginVersion>,
    },
    Unassigned(Vec<ToolId>),
}

impl Reconciler {
    /// A reconciler that knows the versions on the disk.
    pub(crate) fn new(
        set: watch::Receiver<Arc<PluginSet>>,
        sup: Arc<Supervisor>,
        installed: Vec<(Digest, Bundle)>,
    ) -> Self {
        let mut local = Local::default();
        for (content, bundle) in installed {
            sup.open(&bundle);
            local.installed(content, bundle);
        }
        Self {
            set,
            sup,
            status: watch::Sender::new(Status::default()),
            local,
            told: BTreeMap::new(),
            errands: Vec::new(),
            outcomes: mpsc::channel(OUTCOMES),
            swept: None,
        }
    }

    /// How everything stands, for the link.
    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// What is on the disk, for the first Hello.
    pub(crate) fn versions(&self) -> Vec<PluginVersion> {
        self.local.versions.keys().cloned().collect()
    }

    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self, installer: Arc<Installer>, stop: CancellationToken) {
        let mut tools = self.sup.changed();
        loop {
            tools.borrow_and_update();
            self.set.borrow_and_update();
            let wake = self.turn();
            for errand in self.errands() {
                self.run_errand(&installer, errand);
            }
            let delay = wake.map_or(Duration::MAX, |at| {
                Duration::from_millis(u64::try_from(at.millis_since(self.now())).unwrap_or_default())
            });
            tokio::select! {
                () = stop.cancelled() => return,
                changed = self.set.changed() => if changed.is_err() { return },
                _ = tools.changed() => {}
                Some(outcome) = self.outcomes.1.recv() => self.ended(outcome, rand::random()),
                () = sleep(delay) => {}
            }
        }
    }

    /// Decides until nothing more can be done at once, and tells the guard and the control plane; says
    /// when to decide again even if nothing changes. What takes a while is among [`Self::errands`].
    pub(crate) fn turn(&mut self) -> Option<Timestamp> {
        loop {
            let set = Arc::clone(&self.set.borrow());
            if !set.held {
                return None;
            }
            let decision = self.reconcile(&set);
            self.tell(&set, &decision);
            if !decision.steps.iter().any(is_instant) {
                self.sweep(&set);
                return decision.wake;
            }
        }
    }

    /// Errands that were begun since it was asked last.
    pub(crate) fn errands(&mut self) -> Vec<Errand> {
        std::mem::take(&mut self.errands)
    }

    fn run_errand(&self, installer: &Arc<Installer>, errand: Errand) {
        let (sup, outcomes) = (Arc::clone(&self.sup), self.outcomes.0.clone());
        match errand {
            Errand::Install(planned, number, cancel) => {
                let installer = Arc::clone(installer);
                tokio::spawn(async move {
                    let result = installer.install(&planned, &cancel).await;
                    let outcome = Outcome::Installed(planned.version, planned.content_digest, number, result);
                    let _ = outcomes.send(outcome).await;
                });
            }
            Errand::Keep(bundle, tool) => sup.start(&bundle, &tool),
            Errand::StopTool(version, tool) => {
                tokio::spawn(async move {
                    sup.stop(&version, &tool).await;
                    let _ = outcomes.send(Outcome::ToolStopped(version, tool)).await;
                });
            }
            Errand::Stop(version) => {
                tokio::spawn(async move {
                    sup.stop_version(&version).await;
                    let _ = outcomes.send(Outcome::Stopped(version)).await;
                });
            }
            Errand::Remove(version, content) => {
                let aside = installer.take_away(&version, content);
                tokio::task::spawn_blocking(move || installer::delete(&aside));
            }
            Errand::Sweep(keep) => {
                let installer = Arc::clone(installer);
                tokio::task::spawn_blocking(move || installer.sweep(&keep));
            }
        }
    }

    /// Takes a version on the disk for one that is called already. Only a simulation that plants a bug
    /// does that.
    pub(crate) fn recall(&mut self, version: PluginVersion) {
        self.local.called.insert(version.plugin.clone(), version);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.sup.steady()
    }

    fn reconcile(&mut self, set: &PluginSet) -> Decision {
        let observed = self.local.observed(|version| self.sup.observed(version));
        let decision = reconcile(&set.desired(&RUNS), &observed, self.now());
        for step in &decision.steps {
            tracing::debug!(step = ?step, "reconciling");
            self.perform(step);
        }
        decision
    }

    fn perform(&mut self, step: &Step) {
        match step {
            Step::Install(planned) => {
                let cancel = CancellationToken::new();
                let number = self.local.installing(planned, cancel.clone());
                self.errands.push(Errand::Install(planned.clone(), number, cancel));
            }
            Step::Cancel(version) => self.local.cancel(version),
            Step::StartTool(version, tool) => {
                if let Some(bundle) = self.local.bundle(version) {
                    self.sup.keep(&(version.clone(), tool.clone()));
                    self.errands.push(Errand::Keep(bundle, tool.clone()));
                }
            }
            Step::StopTool(version, tool) => {
                self.local.stopping_tool(version, tool);
                self.errands.push(Errand::StopTool(version.clone(), tool.clone()));
            }
            Step::Serve(version) => {
                self.local.called.insert(version.plugin.clone(), version.clone());
                tracing::info!(plugin.version = %version, "a version is called from now on");
                self.show(&version.plugin, Some(Told::Serving(version.clone())));
            }
            Step::Silence(plugin) => {
                self.local.called.remove(plugin);
                self.show(plugin, Some(Told::Unassigned(self.local.tools_of(plugin))));
            }
            Step::Stop(version) => {
                self.local.stopping(version);
                self.errands.push(Errand::Stop(version.clone()));
            }
            Step::Remove(version) => {
                if let Some(content) = self.local.remove(version) {
                    self.sup.forget(version);
                    self.errands.push(Errand::Remove(version.clone(), content));
                }
            }
        }
    }

    /// Takes how an errand ended; `random` spreads the next try.
    pub(crate) fn ended(&mut self, outcome: Outcome, random: u32) {
        match outcome {
            Outcome::Stopped(version) => self.local.stopped(&version),
            Outcome::ToolStopped(version, tool) => self.local.tool_stopped(&version, &tool),
            Outcome::Installed(version, content, number, Ok(bundle)) => {
                if self.local.awaits(&version, number) {
                    tracing::info!(plugin.version = %version, "a version is installed");
                    self.sup.open(&bundle);
                    self.local.installed(content, bundle);
                } else if !self.local.versions.contains_key(&version) {
                    // It was given up while it was placed, and is not on its way again.
                    self.errands.push(Errand::Remove(version, content));
                }
            }
            Outcome::Installed(version, _, number, Err(error)) => {
                if !self.local.awaits(&version, number) {
                    return;
                }
                let attempts = self.local.attempts(&version) + 1;
                let delay = retry_after_ms(attempts, random);
                let reason = crate::sentence(&error);
                if matches!(error, installer::Error::PlanMismatch { .. }) {
                    self.sup.mismatch(&version.plugin, &reason);
                }
                tracing::warn!(plugin.version = %version, attempts, reason = %reason, "a version cannot be installed");
                let next_try = self.now().plus_millis(i64::try_from(delay).unwrap_or(i64::MAX));
                self.local.failed(&version, Failure { reason: reason.into(), attempts, next_try });
            }
        }
    }

    /// Takes away what neither the set names nor the node has, whenever that is something else.
    fn sweep(&mut self, set: &PluginSet) {
        let planned = set.plan.plugins.values().flat_map(|planned| {
            planned.installed.iter().chain(planned.candidate.iter().map(|(_, version)| version))
        });
        let mut keep = Keep::default();
        for planned in planned {
            keep.versions.insert(planned.version.clone());
            keep.contents.insert(planned.content_digest);
            keep.archives.insert(planned.archive_sha256);
        }
        for (version, one) in &self.local.versions {
            keep.versions.insert(version.clone());
            keep.contents.insert(one.content);
        }
        if self.swept.as_ref() != Some(&keep) {
            self.swept = Some(keep.clone());
            self.errands.push(Errand::Sweep(keep));
        }
    }

    /// Tells the guard and the control plane what changed.
    fn tell(&mut self, set: &PluginSet, decision: &Decision) {
        let mut changed = Vec::new();
        for standing in &decision.standings {
            let told = self.told_of(set, standing);
            if self.told.get(&standing.plugin) != Some(&told) {
                changed.push((standing.plugin.clone(), Some(shown(&told))));
                self.told.insert(standing.plugin.clone(), told);
            }
        }
        // What was unassigned in this boot goes on to say so, when nothing of it is left.
        let gone = |plugin: &PluginName, told: &Told| {
            !matches!(told, Told::Unassigned(_))
                && !decision.standings.iter().any(|standing| standing.plugin == *plugin)
        };
        let gone: Vec<PluginName> = self
            .told
            .iter()
            .filter(|(plugin, told)| gone(plugin, told))
            .map(|(plugin, _)| plugin.clone())
            .collect();
        for plugin in gone {
            self.told.remove(&plugin);
            changed.push((plugin, None));
        }
        self.sup.show(changed);
        self.sup.hold();
        let status = self.status_of(set, decision);
        self.status.send_if_modified(|before| {
            let differs = *before != status;
            *before = status;
            differs
        });
    }

    fn show(&mut self, plugin: &PluginName, told: Option<Told>) {
        self.sup.show(vec![(plugin.clone(), told.as_ref().map(shown))]);
        match told {
            Some(told) => self.told.insert(plugin.clone(), told),
            None => self.told.remove(plugin),
        };
    }

    fn told_of(&self, set: &PluginSet, standing: &Standing) -> Told {
        let plugin = &standing.plugin;
        if let Some(called) = self.local.called.get(plugin) {
            return Told::Serving(called.clone());
        }
        let desired = set.desired(&RUNS);
        let Some(planned) = desired.assigned(plugin) else {
            let tools = self.local.tools_of(plugin);
            return match self.told.get(plugin) {
                // Its files are gone; its tools are still known by name.
                Some(Told::Unassigned(earlier)) if tools.is_empty() => Told::Unassigned(earlier.clone()),
                _ => Told::Unassigned(tools),
            };
        };
        let on_disk = self.local.versions.iter().filter(|(version, one)| {
            version.plugin == *plugin && **version != planned.version && one.stage == Stage::Installed
        });
        let failed = match &standing.waits {
            Some(Wait::Retry { reason, .. }) => Some(Arc::clone(reason)),
            _ => self.local.last_failure(&planned.version),
        };
        Told::Installing {
            version: planned.version.clone(),
            tools: planned.tools.keys().cloned().collect(),
            failed,
            earlier: on_disk.map(|(version, _)| version.clone()).next_back(),
        }
    }

    fn status_of(&self, set: &PluginSet, decision: &Decision) -> Status {
        let versions = self.local.versions.iter().map(|(version, one)| {
            let standing = decision.standings.iter().find(|standing| standing.plugin == version.plugin);
            let (state, reason) = state_of(version, one, standing, self.local.called.get(&version.plugin));
            let tools = self.sup.status(version, &set.policy);
            VersionStatus { version: version.clone(), state, reason, tools }
        });
        Status { versions: versions.collect() }
    }
}

fn state_of(
    version: &PluginVersion,
    one: &OneVersion,
    standing: Option<&Standing>,
    called: Option<&PluginVersion>,
) -> (VersionState, Arc<str>) {
    let assigned = standing.and_then(|standing| standing.assigned.as_ref()) == Some(version);
    match &one.stage {
        Stage::Failed(failure) => (VersionState::Failed, Arc::clone(&failure.reason)),
        Stage::Downloading => {
            (VersionState::Installing, one.last_failure.clone().unwrap_or_else(|| "".into()))
        }
        Stage::Installed if called == Some(version) && assigned => (VersionState::Serving, "".into()),
        Stage::Installed | Stage::Stopping if called == Some(version) || !assigned => {
            (VersionState::Outgoing, "".into())
        }
        Stage::Installed | Stage::Stopping => {
            let waits = standing.and_then(|standing| standing.waits.as_ref());
            (VersionState::Starting, waits.map_or_else(|| "".into(), what_waits))
        }
    }
}

fn what_waits(wait: &Wait) -> Arc<str> {
    let names = |tools: &std::collections::BTreeSet<ToolId>| {
        tools.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    match wait {
        Wait::Installing => "it is being installed".into(),
        Wait::Retry { reason, .. } => Arc::clone(reason),
        Wait::Listings(tools) => {
            format!("these tools are not listed completely yet: {}", names(tools)).into()
        }
        Wait::Snapshots(tools) => {
            format!("no snapshot of these tools is recorded yet: {}", names(tools)).into()
        }
        Wait::Stopping(_) => "an earlier run of it is stopping".into(),
    }
}

fn shown(told: &Told) -> Shown {
    match told.clone() {
        Told::Serving(version) => Shown::Serving(version),
        Told::Installing { version, tools, failed, earlier } => {
            Shown::Other(PluginState::Installing { version, tools, failed, earlier })
        }
        Told::Unassigned(tools) => Shown::Other(PluginState::Unassigned { tools }),
    }
}

/// Whether the step is done when it was named, so that the next decision may differ at once.
const fn is_instant(step: &Step) -> bool {
    matches!(step, Step::Serve(_) | Step::Silence(_) | Step::Cancel(_) | Step::StartTool(..))
}

async fn sleep(delay: Duration) {
    if delay == Duration::MAX { std::future::pending().await } else { tokio::time::sleep(delay).await }
}
