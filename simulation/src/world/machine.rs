//! Nodes: the agent's boots, its disk, its stream and its reconciler, each step in its own time.

use bytes::Bytes;
use domain::id::{BootId, PluginVersion, ToolId};
use domain::plugin_set::Part;
use node_agent::simulation::{Clock, Disk, Errand, Install, Lost, Node};
use prost::Message as _;
use proto::v1;

use super::World;
use super::event::Event;
use super::tools::Tools;
use crate::plant::Plant;

/// Until a task that was woken runs.
const TURN_MS: u64 = 5;

/// Most parts that are remembered to be said again.
const HEARD_MAX: usize = 24;

/// A node's machine.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) up: Option<Up>,
    pub(super) disk: Disk,
    /// For the planted bug: what the agent takes for written.
    unsynced: Option<Disk>,
    pub(super) boots: u32,
    clock: Clock,
    /// Its wall clock's error.
    pub(super) skew_ms: i64,
    /// Parts that came over any of its streams.
    pub(super) heard: Vec<Bytes>,
    /// Why it was told to stay away, if it was and did not come back since.
    pub(super) reason: Option<String>,
}

/// A boot of the agent.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) agent: Node,
    pub(super) boot: u32,
    started: u64,
    /// The connection that it uses or opens.
    pub(super) conn: Option<u64>,
    pub(super) is_open: bool,
    is_writing: bool,
    turn_at: Option<u64>,
    tick_at: u64,
    pub(super) tools: Tools,
}

impl World<'_> {
    pub(super) fn name(&self, node: usize) -> &'static str {
        self.scene.machines.get(node).map_or("?", |machine| machine.name)
    }

    /// The agent of that boot, if it is still the present one; its clocks are set.
    pub(super) fn agent(&mut self, node: usize, boot: u32) -> Option<&mut Up> {
        let wall = self.scene.wall_ms + i64::try_from(self.now).unwrap_or_default();
        let now = self.now;
        let host = self.hosts.get_mut(node)?;
        let up = host.up.as_mut().filter(|up| up.boot == boot)?;
        host.clock.set(now - up.started, wall + host.skew_ms);
        Some(up)
    }

    pub(super) fn start_node(&mut self, node: usize) {
        let Some(machine) = self.scene.machines.get(node) else { return };
        let recalls = self.is_planted(Plant::OldAfterRestart);
        let (verify, now, wall) = (&self.scene.verify, self.now, self.scene.wall_ms);
        let Some(host) = self.hosts.get_mut(node).filter(|host| host.up.is_none()) else { return };
        host.boots += 1;
        let boot = host.boots;
        host.clock.set(0, wall + i64::try_from(now).unwrap_or_default() + host.skew_ms);
        let Ok(boot_id) = BootId::parse(&format!("b{boot}")) else { return };
        let mut agent = Node::start(&machine.identity, boot_id, verify, &host.clock, &host.disk);
        if recalls && boot > 1 {
            agent.recall(&host.disk);
        }
        host.up = Some(Up {
            agent,
            boot,
            started: now,
            conn: None,
            is_open: false,
            is_writing: false,
            turn_at: None,
            tick_at: 0,
            tools: Tools::default(),
        });
        self.observer.booted(node);
        self.trace(|| format!("n{} starts, boot {boot}", node + 1));
        let delay = self.chance.below(10);
        self.after(delay, Event::Connect { node, boot });
        self.settle(node);
    }

    pub(super) fn crash_node(&mut self, node: usize) {
        let is_written = self.chance.happens(500);
        let Some(host) = self.hosts.get_mut(node) else { return };
        host.unsynced = None;
        let Some(mut up) = host.up.take() else { return };
        // Between the rename and the word that it is durable: the disk has it, or has not.
        if up.is_writing && is_written {
            up.agent.write(&mut host.disk);
        }
        for run in up.tools.runs() {
            self.observer.tool_ended(run);
        }
        self.trace(|| format!("n{} is killed{}", node + 1, if up.is_writing { " as it writes" } else { "" }));
        if let Some(conn) = up.conn {
            self.node_left(conn);
        }
    }

    // The stream.

    /// Whether the node reads a message of that connection now.
    pub(super) fn takes(&mut self, node: usize, boot: u32, conn: u64) -> bool {
        self.agent(node, boot).is_some_and(|up| up.conn == Some(conn) && !up.is_writing)
    }

    pub(super) fn node_opened(&mut self, node: usize, boot: u32) {
        if let Some(up) = self.agent(node, boot) {
            up.agent.opened();
            up.is_open = true;
        }
        self.settle(node);
    }

    pub(super) fn node_hears(&mut self, node: usize, boot: u32, bytes: &Bytes) {
        let Ok(message) = v1::ServerMessage::decode(bytes.clone()) else { return };
        self.trace(|| format!("n{} hears {}", node + 1, super::super::trace::server(&message)));
        let mut unordered = None;
        if let Some(v1::server_message::Message::Part(update)) = &message.message {
            self.remember(node, bytes);
            unordered = part_of(update).filter(|_| self.is_planted(Plant::OlderGeneration));
        }
        if let (Some(v1::server_message::Message::Welcome(_)), Some(host)) =
            (&message.message, self.hosts.get_mut(node))
        {
            host.reason = None;
        }
        self.observer.hears(node, boot, &message, self.now);
        if let Some(up) = self.agent(node, boot) {
            match unordered {
                Some(part) => up.agent.message_on_nothing(part, message),
                None => up.agent.message(message),
            }
        }
        self.settle(node);
    }

    fn remember(&mut self, node: usize, bytes: &Bytes) {
        if let Some(host) = self.hosts.get_mut(node) {
            if host.heard.len() >= HEARD_MAX {
                host.heard.remove(0);
            }
            host.heard.push(bytes.clone());
        }
    }

    /// The stream is gone: the agent comes back when it wants to.
    pub(super) fn node_lost(&mut self, node: usize, boot: u32, how: Lost) {
        let random = self.chance.u32();
        let Some(up) = self.agent(node, boot) else { return };
        let delay = up.agent.lost(how, random);
        self.reconnects(node, boot, delay);
    }

    fn reconnects(&mut self, node: usize, boot: u32, delay: u64) {
        let Some(up) = self.agent(node, boot) else { return };
        up.is_open = false;
        let conn = up.conn.take();
        self.trace(|| format!("n{} comes back in {delay} ms", node + 1));
        self.after(delay, Event::Connect { node, boot });
        if let Some(conn) = conn {
            self.node_left(conn);
        }
    }

    pub(super) fn node_tick(&mut self, node: usize, boot: u32) {
        if let Some(up) = self.agent(node, boot).filter(|up| !up.is_writing) {
            up.agent.tick();
            self.settle(node);
        }
    }

    // The disk.

    pub(super) fn written(&mut self, node: usize, boot: u32) {
        let fails = !self.is_calm && self.chance.happens(self.profile.disk_faults);
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(up) = host.up.as_mut().filter(|up| up.boot == boot) else { return };
        if let Some(unsynced) = &host.unsynced {
            // The planted bug: what was acknowledged long ago reaches the disk.
            host.disk.sync(unsynced);
            return;
        }
        up.is_writing = false;
        if !fails {
            up.agent.write(&mut host.disk);
        }
        if let Some(up) = self.agent(node, boot) {
            up.agent.written(if fails { Err("no space left on device".to_owned()) } else { Ok(()) });
        }
        self.settle(node);
        if let Some(conn) = self.agent(node, boot).and_then(|up| up.conn) {
            self.arrives(conn);
        }
    }

    // What follows on everything that a node does.

    pub(super) fn settle(&mut self, node: usize) {
        let Some(boot) = self.hosts.get(node).and_then(|host| host.up.as_ref()).map(|up| up.boot) else {
            return;
        };
        self.writes(node, boot);
        self.says(node, boot);
        let random = self.chance.u32();
        let Some(up) = self.agent(node, boot) else { return };
        if let Some((why, delay)) = up.agent.closed(random) {
            self.trace(|| format!("n{} closes its stream: {why}", node + 1));
            self.note_goodbye(node, &why);
            self.reconnects(node, boot, delay);
        }
        self.schedule(node, boot);
        self.probe(node, boot);
    }

    fn writes(&mut self, node: usize, boot: u32) {
        let latency = self.chance.between(1, if self.is_calm { 10 } else { self.profile.disk_ms });
        let is_early = self.is_planted(Plant::EarlyAck);
        loop {
            let Some(up) = self.agent(node, boot) else { return };
            if up.is_writing || up.agent.writes().is_none() {
                return;
            }
            up.is_writing = !is_early;
            self.after(latency, Event::Written { node, boot });
            if !is_early {
                return;
            }
            // The planted bug: the agent is told that it is durable before it is.
            let Some(host) = self.hosts.get_mut(node) else { return };
            let mut unsynced = host.unsynced.take().unwrap_or_else(|| host.disk.clone());
            if let Some(up) = host.up.as_mut() {
                up.agent.write(&mut unsynced);
                up.agent.written(Ok(()));
            }
            host.unsynced = Some(unsynced);
        }
    }

    fn says(&mut self, node: usize, boot: u32) {
        let Some(up) = self.agent(node, boot).filter(|up| !up.is_writing) else { return };
        let Some(conn) = up.conn else { return };
        for message in up.agent.outbox() {
            self.trace(|| format!("n{} says {}", node + 1, super::super::trace::node(&message)));
            if let Err(what) = self.observer.says(node, boot, &message, self.now) {
                return self.fail(format!("{what} (node {})", self.name(node)));
            }
            self.up(conn, message);
        }
    }

    fn schedule(&mut self, node: usize, boot: u32) {
        let now = self.now;
        let delay = self.chance.between(0, TURN_MS);
        let Some(up) = self.agent(node, boot) else { return };
        let is_told = up.agent.is_told();
        let turns = is_told && up.turn_at.is_none();
        if turns {
            up.turn_at = Some(now + delay);
        }
        let tick = up.agent.tick_at().map(|at| (up.started + at).max(now + 1));
        let ticks = tick.filter(|at| up.tick_at <= now || *at < up.tick_at);
        if let Some(at) = ticks {
            up.tick_at = at;
        }
        if turns {
            self.after(delay, Event::Turn { node, boot });
        }
        if let Some(at) = ticks {
            self.after(at - now, Event::NodeTick { node, boot });
        }
    }

    // The reconciler.

    pub(super) fn turn(&mut self, node: usize, boot: u32) {
        let Some(up) = self.agent(node, boot) else { return };
        up.turn_at = None;
        let wake = up.agent.turn();
        let errands = up.agent.errands();
        if let Some(wake) = wake {
            self.after(wake.max(1), Event::Turn { node, boot });
        }
        for errand in errands {
            self.errand(node, boot, errand);
        }
        self.settle(node);
    }

    fn errand(&mut self, node: usize, boot: u32, errand: Errand) {
        let quick = self.chance.between(1, 60);
        match errand {
            Errand::Install(planned, install) => {
                let is_there =
                    self.hosts.get(node).is_some_and(|host| host.disk.has(&planned.content_digest));
                let is_well = is_there || self.is_calm || !self.chance.happens(self.profile.install_faults);
                let most = if self.is_calm { 300 } else { self.profile.download_ms };
                let delay = if is_there { 1 } else { self.chance.between(20, most) };
                let version = planned.version;
                self.trace(|| format!("n{} installs {version}", node + 1));
                self.after(delay, Event::Installed { node, boot, version, install, is_well });
            }
            Errand::Keep(version, tool) => {
                self.trace(|| format!("n{} keeps {version} {tool}", node + 1));
                self.keep_tool(node, boot, &version, &tool);
            }
            Errand::StopTool(version, tool) => {
                self.tools_end(node, boot, &version);
                self.after(quick, Event::Stopped { node, boot, version, tool: Some(tool) });
            }
            Errand::Stop(version) => {
                self.trace(|| format!("n{} stops {version}", node + 1));
                self.tools_end(node, boot, &version);
                self.after(quick, Event::Stopped { node, boot, version, tool: None });
            }
            Errand::Remove(version, content) => {
                self.trace(|| format!("n{} removes {version}", node + 1));
                if let Some(host) = self.hosts.get_mut(node) {
                    host.disk.remove(&content);
                }
            }
            Errand::Sweep => {}
        }
    }

    pub(super) fn installed(
        &mut self,
        (node, boot): (usize, u32),
        version: &PluginVersion,
        install: &Install,
        is_well: bool,
    ) {
        let is_placed = self.chance.happens(500);
        let random = self.chance.u32();
        let Some(release) = self.scene.release(version) else { return };
        if self.agent(node, boot).is_none() {
            return;
        }
        // One that was cancelled at the last moment may be in place all the same.
        let places = is_well && (!install.is_cancelled() || is_placed);
        if let Some(host) = self.hosts.get_mut(node).filter(|_| places) {
            host.disk.place(release.content, &release.manifest);
        }
        let result = if places { Ok(release.manifest.as_str()) } else { Err("it broke off") };
        self.trace(|| format!("n{} installed {version}: {}", node + 1, result.err().unwrap_or("well")));
        if let Some(up) = self.agent(node, boot) {
            up.agent.installed((version, release.content), install, result, random);
        }
        self.told(node, boot);
    }

    pub(super) fn stopped(&mut self, node: usize, boot: u32, version: &PluginVersion, tool: Option<&ToolId>) {
        if let Some(up) = self.agent(node, boot) {
            match tool {
                Some(tool) => up.agent.tool_stopped(version, tool),
                None => up.agent.version_stopped(version),
            }
        }
        self.told(node, boot);
    }

    /// The reconciler was told how something ended.
    fn told(&mut self, node: usize, boot: u32) {
        let delay = self.chance.between(0, TURN_MS);
        self.after(delay, Event::Turn { node, boot });
        self.settle(node);
    }
}

fn part_of(update: &v1::PartUpdate) -> Option<Part> {
    let statement = v1::HeadStatement::decode(update.head.as_ref()?.statement.as_slice()).ok()?;
    proto::convert::part("part", statement.part).ok()
}
