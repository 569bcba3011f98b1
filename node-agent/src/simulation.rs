//! A node without its machine, for the simulation in `e2e`.
//!
//! Everything that decides is the agent's own: desk and session, the ledger's form and its two slots,
//! reconciler, supervisor and board, minding, guard, spool. What the agent awaits, the simulation does
//! in its own time: it carries messages, writes the [`Disk`], downloads, starts and lists tools, and sets
//! the [`Clock`]. Nothing of the agent itself uses this module.

mod kept;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use domain::digest::Digest;
use domain::guard::view::{SetState, View};
use domain::id::{BootId, PluginVersion, ToolId};
use domain::plugin_set::{Head, Part, PlannedVersion, Policy, Position, Trust};
use plugin::manifest::Manifest;
use proto::identity::NodeIdentity;
use proto::v1;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use kept::{Listed, ToolNext};

use crate::guard::{self, Guard, Runtime, SimulatedClock};
use crate::installer;
use crate::ledger::{self, Found, Turns, slot};
use crate::link::desk::{Desk, Pause, Talk};
use crate::link::parts::Me;
use crate::link::retry::Retry;
use crate::link::session::{Closed, Held, Storing};
use crate::link::waiting::waits_for_a_person;
use crate::reconciler::{Outcome, PluginSet, Reconciler};
use crate::reliance::Reliance;
use crate::spool::Spool;
use crate::supervisor::{Bundle, Key, Settings, Supervisor};
use kept::Kept;

/// The two clocks of one node.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<SimulatedClock>);

impl Clock {
    /// Sets the monotonic clock and the wall's, in milliseconds.
    pub fn set(&self, monotonic_ms: u64, wall_ms: i64) {
        self.0.monotonic_ms.store(monotonic_ms, Ordering::Relaxed);
        self.0.wall_ms.store(wall_ms, Ordering::Relaxed);
    }
}

/// What outlives a boot.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// By part and slot, as the ledger writes its files.
    slots: BTreeMap<(Part, usize), Vec<u8>>,
    /// Manifests by the content digest of the version that is in place.
    bundles: BTreeMap<Digest, String>,
    /// The session counter. Its write takes no time, and all copies of the disk have it.
    counter: Arc<Mutex<Vec<u8>>>,
}

impl Disk {
    /// Puts a version in place.
    pub fn place(&mut self, content: Digest, manifest: &str) {
        self.bundles.insert(content, manifest.to_owned());
    }

    /// Whether a version is in place.
    pub fn has(&self, content: &Digest) -> bool {
        self.bundles.contains_key(content)
    }

    /// Takes a version away.
    pub fn remove(&mut self, content: &Digest) {
        self.bundles.remove(content);
    }

    /// The ledger's files.
    pub fn files(&self) -> impl Iterator<Item = (Part, &[u8])> {
        self.slots.iter().map(|((part, _), bytes)| (*part, &**bytes))
    }

    /// Takes over the parts that another has, which were written and not synced.
    pub fn sync(&mut self, written: &Self) {
        self.slots.clone_from(&written.slots);
    }

    fn found(&self, verify: &ledger::Verify) -> (Turns, Found) {
        let (mut turns, mut found) = (Turns::default(), Found::default());
        for part in Part::ALL {
            let read = |index: usize| {
                let bytes = self.slots.get(&(part, index))?;
                Some(slot::decode(bytes, part, verify).map_err(|reason| ledger::Error::Slot {
                    path: PathBuf::from(format!("{part}.{index}")),
                    reason,
                }))
            };
            found.take(part, [0, 1].map(|index| read(index).transpose()), &mut turns);
        }
        (turns, found)
    }

    fn installed(&self) -> Vec<(Digest, Bundle)> {
        let read = |(content, manifest): (&Digest, &String)| Some((*content, bundle(manifest)?));
        self.bundles.iter().filter_map(read).collect()
    }
}

/// Believes a signed head, or says why not.
pub type Verify = Arc<dyn Fn(&v1::SignedHead) -> Result<Head, String> + Send + Sync>;

/// A step of the reconciler that takes a while.
#[derive(Debug)]
pub enum Errand {
    /// Download and place; answered by [`Node::installed`].
    Install(Box<PlannedVersion>, Install),
    /// The tool is to be started; begin with [`Node::begin_tool`].
    Keep(PluginVersion, ToolId),
    /// Stop these tools; answered by [`Node::tool_stopped`].
    StopTool(PluginVersion, ToolId),
    /// Stop all tools of the version; answered by [`Node::version_stopped`].
    Stop(PluginVersion),
    /// Remove the files, at once.
    Remove(PluginVersion, Digest),
    /// Take away what is neither named nor there.
    Sweep,
}

/// One try to install.
#[derive(Clone, Debug)]
pub struct Install {
    number: u64,
    cancel: CancellationToken,
}

impl Install {
    /// Whether nobody wants it any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

/// How a stream ended, or was not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It broke.
    Stream,
    /// There was none.
    Connect,
}

/// A part of the plugin set at some position, as the node holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldsPart {
    /// Which part.
    pub part: Part,
    /// Where it stands.
    pub position: Position,
    /// Of its manifest.
    pub digest: Digest,
}

/// A call that the guard permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitted {
    /// The version that serves it.
    pub version: PluginVersion,
    /// Its tool.
    pub tool: ToolId,
    /// Its name there.
    pub function: Arc<str>,
}

/// One boot of a node.
pub struct Node {
    desk: Desk,
    talk: Option<Talk>,
    /// How everything stood when the Hello was made.
    greeted: Option<proto::convert::Status>,
    retry: Retry,
    reconciler: Reconciler,
    turns: Turns,
    storing: Option<Box<Storing>>,
    closed: Option<Closed>,
    /// On the disk.
    counter: Arc<Mutex<Vec<u8>>>,
    kept: BTreeMap<Key, Kept>,
    reports: watch::Receiver<u64>,
    sets: watch::Receiver<Arc<PluginSet>>,
    tools: watch::Receiver<u64>,
    statuses: watch::Receiver<proto::convert::Status>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("boot", &self.desk.boot).finish_non_exhaustive()
    }
}

impl Node {
    /// Starts the agent with what is on its disk.
    pub fn start(me: &NodeIdentity, boot: BootId, verify: &Verify, clock: &Clock, disk: &Disk) -> Self {
        let runtime = Arc::new(Runtime::on(guard::Clock::Simulated(Arc::clone(&clock.0))));
        let guard = Arc::new(Guard::new(View {
            edge: me.edge.clone(),
            set: SetState::Waiting { server: "control-plane".into(), since: runtime.wall() },
            trust: Arc::new(Trust::default()),
            policy: Policy::default(),
            plugins: BTreeMap::new(),
            texts: BTreeMap::new(),
        }));
        let spool = Arc::new(Spool::default());
        let settings = Settings {
            path: String::new(),
            offers: tools::Offers::default(),
            credentials: crate::credentials::Credentials::default(),
            egress: crate::node::Egress::default(),
            limits: tools::Limits::default(),
            shim: None,
            listeners: Vec::new(),
            work: PathBuf::new(),
            logs: PathBuf::new(),
        };
        let supervisor =
            Arc::new(Supervisor::new(Arc::clone(&guard), Arc::clone(&runtime), Arc::clone(&spool), settings));
        let (set, sets) = watch::channel(Arc::new(PluginSet::default()));
        let set = Arc::new(set);
        // Freshness and leases are not simulated: nothing is read from there, and nothing is written.
        let nowhere = std::path::Path::new("/dev/null/ledger");
        let reliance = Arc::new(Reliance::open(nowhere, Arc::clone(&set), Arc::clone(&supervisor)));
        let reconciler = Reconciler::new(sets.clone(), Arc::clone(&supervisor), disk.installed());
        let tools = supervisor.changed();
        let reports = spool.changed();
        let status = reconciler.status();
        let mut desk = Desk {
            me: Me { edge: me.edge.clone(), node: me.node.clone() },
            verify: Arc::clone(verify),
            boot,
            guard,
            runtime,
            supervisor,
            spool,
            reliance,
            set,
            status: status.clone(),
            versions: reconciler.versions(),
            held: Held::default(),
            counter: disk.counter.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            challenge: Vec::new(),
        };
        let (turns, found) = disk.found(&**verify);
        desk.take(found);
        Self {
            desk,
            talk: None,
            greeted: None,
            retry: Retry::default(),
            reconciler,
            turns,
            storing: None,
            closed: None,
            counter: Arc::clone(&disk.counter),
            kept: BTreeMap::new(),
            reports,
            sets,
            tools,
            statuses: status,
        }
    }

    /// Each part that the node holds durably.
    pub fn holds(&self) -> Vec<HoldsPart> {
        let held = self.talk.as_ref().map_or(&self.desk.held, |talk| &talk.session.held);
        let one = |(part, held): (&Part, &Arc<ledger::HeldPart>)| HoldsPart {
            part: *part,
            position: held.head.position,
            digest: held.head.digest,
        };
        held.parts.iter().map(one).collect()
    }

    // The stream.

    /// A stream is being opened: its first message.
    pub fn hello(&mut self) -> v1::NodeMessage {
        let (hello, status) = self.desk.hello();
        self.greeted = Some(status);
        hello
    }

    /// The server took the stream.
    pub fn opened(&mut self) {
        let status = self.greeted.take().unwrap_or_default();
        self.talk = Some(self.desk.talk(&status));
        self.statuses.mark_unchanged();
    }

    /// Whether a stream is open on which the server answered Hello.
    pub fn is_connected(&self) -> bool {
        self.talk.as_ref().is_some_and(|talk| talk.opened)
    }

    /// Takes a message of the server. Not to be called while [`Node::writes`] something.
    pub fn message(&mut self, message: v1::ServerMessage) {
        if let Some(talk) = &mut self.talk {
            let pause = self.desk.message(talk, message);
            self.pause(pause);
        }
    }

    /// Looks at the clock. Not to be called while [`Node::writes`] something.
    pub fn tick(&mut self) {
        let waiting = waits_for_a_person(&self.desk.guard.table());
        if let Some(talk) = &mut self.talk {
            let pause = self.desk.tick(talk, waiting);
            self.pause(pause);
        }
    }

    /// When to look at the clock, by the monotonic one; `None` without a stream.
    pub fn tick_at(&self) -> Option<u64> {
        let waiting = waits_for_a_person(&self.desk.guard.table());
        Some(self.talk.as_ref()?.session.next_tick_ms(waiting))
    }

    /// What is to be sent, in order. Looks at reports and the status as the link does when they change.
    pub fn outbox(&mut self) -> Vec<v1::NodeMessage> {
        let Some(talk) = &mut self.talk else { return Vec::new() };
        if self.storing.is_none() && talk.opened {
            if self.reports.has_changed().unwrap_or_default() {
                self.reports.mark_unchanged();
                self.desk.report(talk);
            }
            if self.statuses.has_changed().unwrap_or_default() {
                self.statuses.mark_unchanged();
                self.desk.send_status(talk);
            }
        }
        talk.outbox.drain(..).collect()
    }

    /// Whether the node ended the stream or was told to, and if so when to come back; `random` spreads
    /// that.
    pub fn closed(&mut self, random: u32) -> Option<(String, u64)> {
        let closed = self.closed.take()?;
        self.hang_up();
        // One that is expelled ends for good, which nobody here does to it.
        self.desk.ended(&closed);
        let why = match &closed {
            Closed::Goodbye { code, reason, .. } => format!("told goodbye: {code}: {reason}"),
            Closed::Silent => "the server is silent".to_owned(),
            Closed::Broken(reason) => format!("the server broke the protocol: {reason}"),
        };
        Some((why, self.retry.after_close(&closed, random)))
    }

    /// The stream broke or was not to be had: when to come back.
    pub fn lost(&mut self, how: Lost, random: u32) -> u64 {
        self.hang_up();
        match how {
            Lost::Stream => self.retry.after_stream(random),
            Lost::Connect => self.retry.after_failure(random),
        }
    }

    fn hang_up(&mut self) {
        self.greeted = None;
        if let Some(talk) = self.talk.take() {
            if talk.opened {
                self.retry.opened(talk.fleet_size);
            }
            self.desk.hang_up(talk);
        }
    }

    fn pause(&mut self, mut pause: Option<Pause>) {
        while let Some(waits) = pause.take() {
            match waits {
                Pause::Store(storing) => self.storing = Some(storing),
                Pause::Keep(sealed) => {
                    self.counter.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&sealed);
                    if let Some(talk) = &mut self.talk {
                        pause = self.desk.kept(talk, Some(&sealed));
                    }
                }
                Pause::Closed(closed) => self.closed = Some(closed),
            }
        }
    }

    // The disk.

    /// The part that is being made durable, if one is: everything of the stream waits for it.
    pub fn writes(&self) -> Option<(Part, Position)> {
        self.storing.as_ref().map(|storing| (storing.part.head.part, storing.part.head.position))
    }

    /// The write of that part, up to its rename: it is on the disk, whole, though nobody was told yet.
    pub fn write(&mut self, disk: &mut Disk) {
        if let Some(storing) = &self.storing {
            let part = storing.part.head.part;
            disk.slots.insert((part, self.turns.next(part)), slot::encode(&storing.part));
        }
    }

    /// The write ended well, or not.
    pub fn written(&mut self, result: Result<(), String>) {
        let Some(storing) = self.storing.take() else { return };
        if result.is_ok() {
            self.turns.written(storing.part.head.part);
        }
        if let Some(talk) = &mut self.talk {
            let pause = self.desk.stored(talk, *storing, result);
            self.pause(pause);
        }
    }

    // The reconciler.

    /// Whether something changed that wakes the reconciler.
    pub fn is_told(&self) -> bool {
        self.sets.has_changed().unwrap_or_default() || self.tools.has_changed().unwrap_or_default()
    }

    /// Lets the reconciler decide; says in how many milliseconds it wants to decide again.
    pub fn turn(&mut self) -> Option<u64> {
        self.sets.mark_unchanged();
        self.tools.mark_unchanged();
        let wake = self.reconciler.turn()?;
        Some(u64::try_from(wake.millis_since(self.reconciler.now())).unwrap_or_default())
    }

    /// How each version stands, as it is reported: version, state and reason.
    pub fn status(&self) -> Vec<(PluginVersion, &'static str, Arc<str>)> {
        let status = self.desk.status.borrow();
        let one = |one: &proto::convert::VersionStatus| {
            (one.version.clone(), one.state.as_str(), Arc::clone(&one.reason))
        };
        status.versions.iter().map(one).collect()
    }

    /// The versions that are called.
    pub fn serving(&self) -> Vec<PluginVersion> {
        use domain::guard::view::PluginState;
        self.desk.guard.read(|view| {
            let serving = view.plugins.values().filter_map(|state| match state {
                PluginState::Serving(version) => Some(version.version.clone()),
                PluginState::Installing { .. } | PluginState::Unassigned { .. } => None,
            });
            serving.collect()
        })
    }

    /// What it wants done.
    pub fn errands(&mut self) -> Vec<Errand> {
        let errands = self.reconciler.errands().into_iter();
        errands.map(|errand| self.errand(errand)).collect()
    }

    fn errand(&mut self, errand: crate::reconciler::Errand) -> Errand {
        use crate::reconciler::Errand as Asked;
        match errand {
            Asked::Install(planned, number, cancel) => Errand::Install(planned, Install { number, cancel }),
            Asked::Keep(bundle, tool) => {
                let key = (bundle.version.clone(), tool.clone());
                let version = bundle.version.clone();
                self.kept.insert(key.clone(), Kept::new(&self.desk.supervisor, bundle, key));
                Errand::Keep(version, tool)
            }
            Asked::StopTool(version, tool) => {
                self.pause_tool(&version, &tool);
                Errand::StopTool(version, tool)
            }
            Asked::Stop(version) => {
                for tool in self.tools_of(&version) {
                    self.pause_tool(&version, &tool);
                }
                Errand::Stop(version)
            }
            Asked::Remove(version, content) => Errand::Remove(version, content),
            Asked::Sweep(_) => Errand::Sweep,
        }
    }

    /// An install ended: in place with this manifest, or why not.
    pub fn installed(
        &mut self,
        (version, content): (&PluginVersion, Digest),
        install: &Install,
        result: Result<&str, &str>,
        random: u32,
    ) {
        let result = match result {
            Ok(manifest) => bundle(manifest).ok_or_else(|| installer::Error::Download("no manifest".into())),
            Err(reason) => Err(installer::Error::Download(reason.to_owned())),
        };
        let outcome = Outcome::Installed(version.clone(), content, install.number, result);
        self.reconciler.ended(outcome, random);
    }

    /// A tool that was to be stopped is down.
    pub fn tool_stopped(&mut self, version: &PluginVersion, tool: &ToolId) {
        self.put_down(version, tool);
        self.reconciler.ended(Outcome::ToolStopped(version.clone(), tool.clone()), 0);
    }

    /// All tools of a version that were to be stopped are down.
    pub fn version_stopped(&mut self, version: &PluginVersion) {
        for tool in self.tools_of(version) {
            self.put_down(version, &tool);
        }
        self.reconciler.ended(Outcome::Stopped(version.clone()), 0);
    }

    fn put_down(&mut self, version: &PluginVersion, tool: &ToolId) {
        let key = (version.clone(), tool.clone());
        self.kept.remove(&key);
        self.desk.supervisor.stopped(&key);
    }

    // The guard.

    /// Whether the function may be called now, by its model name or its ID.
    ///
    /// # Errors
    /// The code of the refusal.
    pub fn permit(&self, name: &str) -> Result<Permitted, &'static str> {
        let permit = self.desk.guard.table().permit(name, self.desk.runtime.now_ms());
        let permit = permit.map_err(|denial| denial.refusal.code.as_str())?;
        let slot = permit.slot();
        Ok(Permitted {
            version: slot.version.clone(),
            tool: slot.id.tool.clone(),
            function: Arc::clone(&slot.id.function),
        })
    }

    // For planted bugs: what no correct agent does.

    /// Takes a message as if nothing were held of a part, so that any position is newer.
    pub fn message_on_nothing(&mut self, part: Part, message: v1::ServerMessage) {
        let held = self.talk.as_mut().and_then(|talk| talk.session.held.parts.remove(&part));
        self.message(message);
        if let (Some(talk), Some(held)) = (&mut self.talk, held) {
            talk.session.held.parts.entry(part).or_insert(held);
        }
    }

    /// Takes versions on the disk for those that were called before the agent started.
    pub fn recall(&mut self, disk: &Disk) {
        for (_, bundle) in disk.installed() {
            self.reconciler.recall(bundle.version);
        }
    }
}

fn bundle(manifest: &str) -> Option<Bundle> {
    let manifest = Manifest::read(manifest).ok()?;
    let version = PluginVersion::parse(&format!("{}@{}", manifest.name, manifest.version)).ok()?;
    Some(Bundle { version, folder: PathBuf::new(), manifest: Arc::new(manifest) })
}
