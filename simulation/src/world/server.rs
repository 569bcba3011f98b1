//! Servers: their fan-out's looks, their streams' work, their ends.

use control_plane::simulation::{Server, SimulatedStream, set_clock};
use domain::id::NodeId;

use super::World;
use super::event::Event;
use super::net::Down;
use crate::plant::Plant;

/// How often the fan-out looks when nothing wakes it.
const LOOK_EVERY_MS: u64 = 1_000;

/// Each how many of its looks the fan-out compares everything.
const ALL_EACH: u64 = 60;

/// One server.
#[derive(Debug, Default)]
pub(super) struct Replica {
    pub(super) server: Option<Server>,
    pub(super) incarnation: u32,
    started: u64,
    /// Its wall clock's error.
    pub(super) skew_ms: i64,
    looks: u64,
    /// The database's changes when it looked last, if no edge came into its memory since.
    seen: u64,
    /// For the planted bug: when the newest change that it has read was asked for.
    horizon: u64,
}

impl World<'_> {
    pub(super) fn start_server(&mut self, server: usize) -> anyhow::Result<()> {
        let now = self.now;
        let Some(replica) = self.replicas.get_mut(server).filter(|replica| replica.server.is_none()) else {
            return Ok(());
        };
        replica.incarnation += 1;
        replica.started = now;
        (replica.seen, replica.looks) = (0, 0);
        let incarnation = replica.incarnation;
        self.server_clock(server);
        let started = self.database.server()?;
        if let Some(replica) = self.replicas.get_mut(server) {
            replica.server = Some(started);
        }
        self.trace(|| format!("s{} starts", server + 1));
        let first = self.chance.between(1, LOOK_EVERY_MS);
        self.after(first, Event::Look { server, incarnation, is_regular: true });
        Ok(())
    }

    pub(super) fn server_clock(&self, server: usize) {
        if let Some(replica) = self.replicas.get(server) {
            set_clock(self.now - replica.started, self.server_wall(server));
        }
    }

    pub(super) fn server_wall(&self, server: usize) -> i64 {
        let skew = self.replicas.get(server).map_or(0, |replica| replica.skew_ms);
        self.scene.wall_ms + i64::try_from(self.now).unwrap_or_default() + skew
    }

    pub(super) fn crash_server(&mut self, server: usize) {
        let Some(replica) = self.replicas.get_mut(server) else { return };
        if replica.server.take().is_none() {
            return;
        }
        self.trace(|| format!("s{} is killed", server + 1));
        let streams: Vec<u64> =
            self.conns.iter().filter(|(_, conn)| conn.server == server).map(|(id, _)| *id).collect();
        for id in streams {
            self.server_left(id);
        }
    }

    pub(super) fn accept(&mut self, server: usize, node: &NodeId) -> Result<SimulatedStream, String> {
        self.server_clock(server);
        let Some(replica) = self.replicas.get_mut(server) else { return Err("no server".to_owned()) };
        // An edge may come into its memory.
        replica.seen = 0;
        let up = replica.server.as_ref().ok_or_else(|| "connection refused".to_owned())?;
        self.database.accept(up, node)
    }

    /// A look of the fan-out.
    pub(super) fn look(&mut self, server: usize, incarnation: u32, is_regular: bool) {
        let (changes, newest) = (self.changes, self.newest_asked);
        let is_cursor = self.is_planted(Plant::SkippedHead);
        self.server_clock(server);
        let Some(replica) = self.replicas.get_mut(server) else { return };
        let Some(up) = replica.server.as_ref().filter(|_| replica.incarnation == incarnation) else { return };
        replica.looks += u64::from(is_regular);
        let is_all = is_regular && replica.looks.is_multiple_of(ALL_EACH) && !is_cursor;
        // The planted bug: what was asked for before the newest change that was read is taken for read.
        let is_skipped = is_cursor && newest <= replica.horizon;
        // A look at a database in which nothing happened since the last finds nothing.
        let has_news = replica.seen != changes || is_all;
        if has_news && !is_skipped {
            if let Err(reason) = self.database.look(up, is_all) {
                self.fail(format!("S3: the fan-out cannot read the database: {reason}"));
                return;
            }
            replica.seen = changes;
            replica.horizon = replica.horizon.max(newest);
            self.pump_all(server);
        }
        if is_regular {
            self.after(LOOK_EVERY_MS, Event::Look { server, incarnation, is_regular });
        }
    }

    /// Something was done on the database: servers are woken, or are not.
    pub(super) fn touched(&mut self, asked_at: u64) {
        self.changes += 1;
        let wakes = self.database.wakes();
        if wakes == self.wakes {
            return;
        }
        self.wakes = wakes;
        self.newest_asked = asked_at;
        for server in 0..self.replicas.len() {
            let is_lost = !self.is_calm && self.chance.happens(self.profile.lost_wakes);
            let delay = self.chance.between(1, 15);
            let Some(replica) = self.replicas.get(server) else { continue };
            if !is_lost && replica.server.is_some() {
                let incarnation = replica.incarnation;
                self.after(delay, Event::Look { server, incarnation, is_regular: false });
            }
        }
    }

    pub(super) fn pump_all(&mut self, server: usize) {
        let is_of = |(_, conn): &(&u64, &super::Conn)| conn.server == server && conn.stream.is_some();
        let streams: Vec<u64> = self.conns.iter().filter(is_of).map(|(id, _)| *id).collect();
        for id in streams {
            self.pump(id);
        }
    }

    /// Lets a stream take what came and changed, and sends what it says.
    pub(super) fn pump(&mut self, id: u64) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (server, now) = (conn.server, self.now);
        let Some(mut stream) = conn.stream.take() else { return };
        self.server_clock(server);
        stream.look();
        if stream.due() <= self.monotonic(server) {
            stream.tick();
        }
        if let Some(conn) = self.conns.get_mut(&id) {
            while stream.reads() && conn.up.front().is_some_and(|(at, _)| *at <= now) {
                if let Some((_, message)) = conn.up.pop_front() {
                    stream.hear(message);
                }
            }
        }
        for bytes in stream.outbox() {
            self.down(id, Down::Message(bytes));
        }
        if stream.is_closing() {
            self.trace(|| format!("s{} ends stream {id}", server + 1));
            self.down(id, Down::End);
            drop(stream);
            return self.drop_if_over(id);
        }
        let (works, due) = (stream.works(), stream.due().saturating_sub(self.monotonic(server)).max(1));
        let latency = self.work_latency();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.stream = Some(stream);
        let begins = works && !std::mem::replace(&mut conn.has_work_due, works);
        if begins {
            conn.work_began = now;
        }
        let ticks = conn.tick_at <= now || now + due < conn.tick_at;
        if ticks {
            conn.tick_at = now + due;
        }
        if begins {
            self.after(latency, Event::Work { conn: id });
        }
        if ticks {
            self.after(due, Event::StreamTick { conn: id });
        }
    }

    fn monotonic(&self, server: usize) -> u64 {
        self.replicas.get(server).map_or(0, |replica| self.now - replica.started)
    }

    /// How long an operation takes until it is committed.
    pub(super) fn work_latency(&mut self) -> u64 {
        if !self.is_calm && self.chance.happens(self.profile.late_commits) {
            return self.chance.between(200, 4_000);
        }
        self.chance.between(1, 25)
    }

    /// The database does what a stream asked for; the server may be killed right after, or right before.
    pub(super) fn work(&mut self, id: u64) {
        let kills = !self.is_calm && self.chance.happens(self.profile.kills_at_work);
        let is_before = self.chance.happens(500);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.has_work_due = false;
        let (server, began) = (conn.server, conn.work_began);
        let Some(mut stream) = conn.stream.take() else { return };
        if !(kills && is_before) {
            self.server_clock(server);
            self.database.work(&mut stream, kills);
            self.touched(began);
        }
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.stream = Some(stream);
        }
        if kills {
            self.crash_server(server);
            let delay = self.chance.between(100, 5_000);
            self.after(delay, Event::StartServer { server });
            return;
        }
        self.pump_all(server);
    }
}
