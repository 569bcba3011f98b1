//! One simulated fleet: the time, what is due, and everything that is there. What happens in it is in the
//! modules below; when, is decided here and by [`Chance`](crate::chance).

mod checks;
mod event;
mod faults;
mod machine;
mod net;
mod people;
mod server;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control_plane::simulation::Database;
use domain::digest::ListingHash;
use domain::id::{PluginVersion, ToolId};

use crate::chance::Chance;
use crate::observer::Observer;
use crate::plant::Plant;
use crate::scene::Scene;
use event::Event;
use faults::Profile;
use machine::Host;
use net::Conn;
use server::Replica;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Everything follows from it.
    pub seed: u64,
    /// A bug to plant.
    pub plant: Option<Plant>,
    /// Whether to keep every line of the trace, not the last ones alone.
    pub trace: bool,
    /// Whether to keep what was said on the wire and what was written to ledgers.
    pub frames: bool,
}

/// How a seed went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Which.
    pub seed: u64,
    /// What was violated, and when in simulated milliseconds.
    pub failure: Option<(u64, String)>,
    /// The last lines of what happened, or all.
    pub trace: Vec<String>,
    /// What was said and written: `up`, `down` or the name of a part, and the bytes in hexadecimal.
    pub frames: Vec<String>,
    /// Calls that were made and judged.
    pub calls: u64,
    /// Events that happened.
    pub events: u64,
    /// Simulated milliseconds.
    pub simulated_ms: u64,
}

/// Most events of a seed: far more than any has; one that has more goes round in circles.
const EVENTS_MAX: u64 = 400_000;

type Words = BTreeMap<&'static str, u64>;
type Function = (PluginVersion, ToolId, Arc<str>);

/// Everything.
#[expect(clippy::struct_excessive_bools, reason = "each says something of its own about the run")]
pub(crate) struct World<'s> {
    pub(crate) scene: &'s Scene,
    plant: Option<Plant>,
    chance: Chance,
    profile: Profile,
    now: u64,
    due: BTreeMap<(u64, u64), Event>,
    numbered: u64,
    database: Database,
    replicas: Vec<Replica>,
    hosts: Vec<Host>,
    conns: BTreeMap<u64, Conn>,
    /// Nodes and servers that cannot reach each other.
    parted: BTreeSet<(usize, usize)>,
    /// What tool servers would list, by node and tool of a version.
    words: BTreeMap<(usize, PluginVersion, ToolId), Words>,
    observer: Observer,
    /// What people approved last, as they were told.
    approved: BTreeMap<Function, Option<ListingHash>>,
    audit_length: u64,
    /// Raised by each operation on the database.
    changes: u64,
    /// When the newest change that is in the database was asked for.
    newest_asked: u64,
    wakes: u64,
    copy: Option<Vec<u8>>,
    was_restored: bool,
    /// Faults have ended.
    is_calm: bool,
    failure: Option<(u64, String)>,
    lines: Vec<String>,
    traces_all: bool,
    keeps_frames: bool,
    frames: Vec<String>,
    events: u64,
    is_over: bool,
}

/// Runs a seed to its end or to the first violation.
///
/// # Errors
/// The machine that the simulation runs on is at fault, not what is simulated.
pub fn run(scene: &Scene, options: Options) -> anyhow::Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("seed").tempdir_in(&scene.folder)?;
    let mut chance = Chance::new(options.seed);
    let profile = Profile::draw(&mut chance);
    let database = Database::open(&scene.prepared, folder.path().to_owned(), profile.servers > 1)?;
    let mut world = World::new(scene, options, (chance, profile), database);
    world.keep_frame("authority", &scene.prepared.authority());
    world.begin()?;
    while world.failure.is_none() && !world.is_over {
        let Some(((at, _), event)) = world.due.pop_first() else { break };
        world.now = at;
        world.events += 1;
        if world.events > EVENTS_MAX {
            world.fail(format!("L1: it goes round in circles: {EVENTS_MAX} events and no end"));
            break;
        }
        world.happens(event)?;
    }
    world.keep_ledgers();
    Ok(Outcome {
        seed: options.seed,
        failure: world.failure.take(),
        trace: std::mem::take(&mut world.lines),
        frames: std::mem::take(&mut world.frames),
        calls: world.observer.calls,
        events: world.events,
        simulated_ms: world.now,
    })
}

impl<'s> World<'s> {
    fn new(
        scene: &'s Scene,
        options: Options,
        (chance, profile): (Chance, Profile),
        database: Database,
    ) -> Self {
        Self {
            scene,
            plant: options.plant,
            chance,
            profile,
            now: 0,
            due: BTreeMap::new(),
            numbered: 0,
            database,
            replicas: Vec::new(),
            hosts: Vec::new(),
            conns: BTreeMap::new(),
            parted: BTreeSet::new(),
            words: BTreeMap::new(),
            observer: Observer::default(),
            approved: BTreeMap::new(),
            audit_length: 0,
            changes: 1,
            newest_asked: 0,
            wakes: 0,
            copy: None,
            was_restored: false,
            is_calm: false,
            failure: None,
            lines: Vec::new(),
            traces_all: options.trace,
            keeps_frames: options.frames,
            frames: Vec::new(),
            events: 0,
            is_over: false,
        }
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        let profile = self.profile.clone();
        self.trace(|| format!("{profile:?}"));
        for server in 0..profile.servers {
            self.replicas.push(Replica::default());
            self.start_server(server)?;
        }
        for node in 0..profile.nodes {
            self.hosts.push(Host::default());
            let at = self.chance.below(200);
            self.after(at, Event::StartNode { node });
        }
        for edge in &self.scene.edges {
            for plugin in &self.scene.plugins {
                let first = self.scene.releases.iter().find(|release| release.version.plugin == *plugin);
                if let Some(release) = first {
                    let at = self.chance.below(3_000);
                    let assign = people::Deed::Assign(edge.clone(), release.version.clone());
                    self.after(at, Event::Asked(assign));
                }
            }
        }
        self.after(5_000, Event::Person);
        self.after(3_000, Event::Fault);
        self.after(4_000, Event::Words);
        self.after(profile.active_ms, Event::Calm);
        Ok(())
    }

    fn happens(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Connect { node, boot } => self.connect(node, boot),
            Event::OpeningLate { node, boot, conn } => self.opening_late(node, boot, conn),
            Event::Reach { conn, hello } => self.reach(conn, *hello),
            Event::ToServer { conn } | Event::StreamTick { conn, .. } => self.pump(conn),
            Event::ToNode { conn } => self.arrives(conn),
            Event::Broken { conn, is_node } => self.broken(conn, is_node),
            Event::Work { conn } => self.work(conn),
            Event::NodeTick { node, boot } => self.node_tick(node, boot),
            Event::Written { node, boot } => self.written(node, boot),
            Event::Turn { node, boot } => self.turn(node, boot),
            Event::Installed { node, boot, version, install, is_well } => {
                self.installed((node, boot), &version, &install, is_well);
            }
            Event::Stopped { node, boot, version, tool } => self.stopped(node, boot, &version, tool.as_ref()),
            Event::Tool { node, boot, version, tool, turn, what } => {
                self.tool(node, boot, &(version, tool), (turn, what));
            }
            Event::Look { server, incarnation, is_regular } => self.look(server, incarnation, is_regular),
            Event::Person => self.person()?,
            Event::Asked(deed) => self.asked(deed),
            Event::Done { deed, asked_at, wall_ms, by } => self.done(&deed, (asked_at, wall_ms), by)?,
            Event::Fault => self.fault()?,
            Event::Words => self.change_words(),
            Event::StartServer { server } => self.start_server(server)?,
            Event::StartNode { node } => self.start_node(node),
            Event::Heal { node, server } => {
                self.parted.remove(&(node, server));
            }
            Event::Restore => self.restore()?,
            Event::Calm => self.calm(),
            Event::Settled => self.settled()?,
            Event::Approve => self.approve_all()?,
            Event::InForce => self.in_force()?,
        }
        Ok(())
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.numbered += 1;
        self.due.insert((self.now + delay, self.numbered), event);
    }

    /// The first violation counts.
    fn fail(&mut self, what: String) {
        if self.failure.is_none() {
            self.trace(|| format!("VIOLATED {what}"));
            self.failure = Some((self.now, what));
        }
    }

    fn keep_ledgers(&mut self) {
        let files: Vec<(domain::plugin_set::Part, Vec<u8>)> = self
            .hosts
            .iter()
            .flat_map(|host| host.disk.files())
            .map(|(part, bytes)| (part, bytes.to_vec()))
            .collect();
        for (part, bytes) in files {
            self.keep_frame(part.as_str(), &bytes);
        }
    }

    fn keep_frame(&mut self, kind: &str, bytes: &[u8]) {
        if self.keeps_frames {
            self.frames.push(format!("{kind} {}", hex::encode(bytes)));
        }
    }

    fn trace(&mut self, line: impl FnOnce() -> String) {
        if self.traces_all {
            self.lines.push(format!("{:>8} {}", self.now, line()));
        }
    }

    const fn is_planted(&self, plant: Plant) -> bool {
        match self.plant {
            Some(planted) => planted as u8 == plant as u8,
            None => false,
        }
    }
}
