//! What breaks: each seed draws what can, and how often.

use super::World;
use super::event::Event;
use super::net::Down;
use crate::chance::Chance;

/// What a seed's fleet is like and what happens to it. Most kinds of fault are off in most seeds, so
/// that they are met alone as well as together.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) nodes: usize,
    pub(super) servers: usize,
    /// How long faults happen.
    pub(super) active_ms: u64,
    pub(super) latency_ms: u64,
    pub(super) disk_ms: u64,
    pub(super) download_ms: u64,
    pub(super) list_ms: u64,
    pub(super) people_every_ms: u64,
    pub(super) words_every_ms: u64,
    faults_every_ms: u64,
    // Per mille, of each time that it could happen.
    pub(super) lost_wakes: u64,
    pub(super) late_commits: u64,
    pub(super) kills_at_work: u64,
    pub(super) disk_faults: u64,
    pub(super) install_faults: u64,
    pub(super) start_faults: u64,
    pub(super) list_faults: u64,
    // Weights of what breaks by itself.
    weights: [u64; 9],
}

/// What breaks by itself, in the order of the weights.
#[derive(Clone, Copy, Debug)]
enum Break {
    Node,
    Server,
    Tool,
    Connection,
    HalfOpen,
    Stall,
    Parting,
    Again,
    Clock,
}

impl Break {
    const ALL: [Self; 9] = [
        Self::Node,
        Self::Server,
        Self::Tool,
        Self::Connection,
        Self::HalfOpen,
        Self::Stall,
        Self::Parting,
        Self::Again,
        Self::Clock,
    ];
}

impl Profile {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let mut often = |per_mille: u64, most: u64| {
            if chance.happens(per_mille) { chance.between(1, most) } else { 0 }
        };
        let weights = Break::ALL.map(|_| often(450, 10));
        let [lost_wakes, late_commits] = [often(400, 1_000), often(400, 300)];
        let [kills_at_work, disk_faults] = [often(250, 30), often(200, 150)];
        let [install_faults, start_faults, list_faults] = [often(300, 600), often(250, 400), often(300, 400)];
        Self {
            nodes: usize::try_from(chance.between(1, 4)).unwrap_or(1),
            servers: usize::try_from(chance.between(1, 3)).unwrap_or(1),
            active_ms: chance.between(15_000, 45_000),
            latency_ms: if chance.happens(200) { 1_500 } else { chance.between(5, 120) },
            disk_ms: if chance.happens(300) { 400 } else { 15 },
            download_ms: chance.between(100, 6_000),
            list_ms: if chance.happens(200) { 2_000 } else { 100 },
            people_every_ms: chance.between(1_000, 8_000),
            words_every_ms: chance.between(1_000, 10_000),
            faults_every_ms: chance.between(800, 6_000),
            lost_wakes,
            late_commits,
            kills_at_work,
            disk_faults,
            install_faults,
            start_faults,
            list_faults,
            weights,
        }
    }
}

impl World<'_> {
    /// Something breaks.
    pub(super) fn fault(&mut self) -> anyhow::Result<()> {
        if self.is_calm {
            return Ok(());
        }
        let again = self.chance.between(100, self.profile.faults_every_ms);
        self.after(again, Event::Fault);
        self.backup()?;
        let all: u64 = self.profile.weights.iter().sum();
        let mut left = self.chance.below(all);
        if all == 0 {
            return Ok(());
        }
        for (what, weight) in Break::ALL.into_iter().zip(self.profile.weights) {
            if left < weight {
                self.breaks(what);
                break;
            }
            left -= weight;
        }
        Ok(())
    }

    fn breaks(&mut self, what: Break) {
        let node = usize::try_from(self.chance.below(self.hosts.len() as u64)).unwrap_or_default();
        let server = usize::try_from(self.chance.below(self.replicas.len() as u64)).unwrap_or_default();
        match what {
            Break::Node => {
                self.crash_node(node);
                let delay = self.chance.between(50, 4_000);
                self.after(delay, Event::StartNode { node });
            }
            Break::Server => {
                self.crash_server(server);
                let delay = self.chance.between(50, 5_000);
                self.after(delay, Event::StartServer { server });
            }
            Break::Tool => self.crash_tool(node),
            Break::Connection => {
                if let Some(conn) = self.conn_of(node) {
                    self.trace(|| format!("stream {conn} breaks"));
                    let [one, two] = [self.chance.below(300), self.chance.below(300)];
                    self.after(one, Event::Broken { conn, is_node: true });
                    self.after(two, Event::Broken { conn, is_node: false });
                }
            }
            Break::HalfOpen => {
                if let Some(conn) = self.conn_of(node) {
                    self.trace(|| format!("stream {conn} is half-open"));
                    if let Some(conn) = self.conns.get_mut(&conn) {
                        conn.is_lost = true;
                    }
                }
            }
            Break::Stall => {
                let by = self.chance.between(200, 6_000);
                if let Some(conn) = self.conn_of(node) {
                    self.trace(|| format!("stream {conn} is {by} ms slower"));
                    if let Some(conn) = self.conns.get_mut(&conn) {
                        conn.slower = by;
                    }
                }
            }
            Break::Parting => self.part(node, server),
            Break::Again => self.say_again(node),
            Break::Clock => {
                let skew = i64::try_from(self.chance.below(1_200_000)).unwrap_or_default() - 600_000;
                if self.chance.happens(500) {
                    self.trace(|| format!("n{}'s wall clock is {skew} ms off", node + 1));
                    if let Some(host) = self.hosts.get_mut(node) {
                        host.skew_ms = skew;
                    }
                } else {
                    self.trace(|| format!("s{}'s wall clock is {skew} ms off", server + 1));
                    if let Some(replica) = self.replicas.get_mut(server) {
                        replica.skew_ms = skew;
                    }
                }
            }
        }
    }

    fn part(&mut self, node: usize, server: usize) {
        self.trace(|| format!("n{} and s{} are parted", node + 1, server + 1));
        self.parted.insert((node, server));
        for conn in self.conns.values_mut().filter(|conn| (conn.node, conn.server) == (node, server)) {
            conn.is_lost = true;
        }
        let delay = self.chance.between(500, 12_000);
        self.after(delay, Event::Heal { node, server });
    }

    /// Something that was said to a node on an earlier stream, or earlier on this one, is said again, as a
    /// server would whose memory is late.
    fn say_again(&mut self, node: usize) {
        let Some(conn) = self.conn_of(node) else { return };
        let Some(host) = self.hosts.get(node) else { return };
        let heard = host.heard.clone();
        if !host.up.as_ref().is_some_and(|up| up.agent.is_connected()) {
            return;
        }
        if let Some(bytes) = self.chance.pick(&heard).cloned() {
            self.trace(|| format!("something old is said again on stream {conn}"));
            self.down(conn, Down::Message(bytes));
        }
    }

    fn conn_of(&self, node: usize) -> Option<u64> {
        self.hosts.get(node)?.up.as_ref()?.conn
    }

    /// The database is copied, and later restored from that.
    fn backup(&mut self) -> anyhow::Result<()> {
        if self.copy.is_some() || !self.chance.happens(10) {
            return Ok(());
        }
        self.trace(|| "the database is copied".to_owned());
        self.copy = Some(self.database.copy()?);
        let delay = self.chance.between(1_000, 15_000);
        self.after(delay, Event::Restore);
        Ok(())
    }

    pub(super) fn restore(&mut self) -> anyhow::Result<()> {
        if self.is_calm {
            return Ok(());
        }
        let Some(copy) = self.copy.clone() else { return Ok(()) };
        for server in 0..self.replicas.len() {
            self.crash_server(server);
            let delay = self.chance.between(100, 3_000);
            self.after(delay, Event::StartServer { server });
        }
        self.conns.values_mut().for_each(|conn| conn.stream = None);
        self.database.restore(&copy)?;
        self.trace(|| "the database is restored from its copy".to_owned());
        self.was_restored = true;
        self.approved.clear();
        self.observer.restored();
        self.audit_length = self.database.audit_length()?;
        self.changes += 1;
        self.wakes = 0;
        Ok(())
    }
}
