//! Connections: each carries messages in their order, late, or loses all from some moment on.

use std::collections::VecDeque;

use bytes::Bytes;
use control_plane::simulation::SimulatedStream;
use node_agent::simulation::Lost;
use prost::Message as _;
use proto::v1;

use super::World;
use super::event::Event;

/// How long a node waits for the answer to the opening of a stream.
const OPENING_MS: u64 = 20_000;

/// What comes to a node.
#[derive(Clone, Debug)]
pub(super) enum Down {
    /// The server took the stream.
    Took,
    /// It did not.
    Refused(String),
    /// A message.
    Message(Bytes),
    /// The server ended the stream.
    End,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) node: usize,
    pub(super) boot: u32,
    pub(super) server: usize,
    pub(super) stream: Option<SimulatedStream>,
    pub(super) up: VecDeque<(u64, v1::NodeMessage)>,
    down: VecDeque<(u64, Down)>,
    last_up: u64,
    last_down: u64,
    /// Nothing comes through any more, and nobody is told.
    pub(super) is_lost: bool,
    /// More milliseconds for each message from now on.
    pub(super) slower: u64,
    pub(super) has_work_due: bool,
    pub(super) work_began: u64,
    pub(super) tick_at: u64,
}

impl World<'_> {
    fn latency(&mut self) -> u64 {
        let most = if self.is_calm { 20 } else { self.profile.latency_ms };
        self.chance.between(1, most)
    }

    pub(super) fn connect(&mut self, node: usize, boot: u32) {
        let servers = self.replicas.len() as u64;
        let server = usize::try_from(self.chance.below(servers)).unwrap_or_default();
        let latency = self.latency();
        let Some(up) = self.agent(node, boot) else { return };
        if up.conn.is_some() {
            return;
        }
        let hello = up.agent.hello();
        if self.keeps_frames {
            self.keep_frame("up", &hello.encode_to_vec());
        }
        if let Err(what) = self.observer.says(node, boot, &hello, self.now) {
            return self.fail(format!("{what} (node {})", self.name(node)));
        }
        self.numbered += 1;
        let conn = self.numbered;
        if let Some(up) = self.agent(node, boot) {
            up.conn = Some(conn);
        }
        let is_parted = self.parted.contains(&(node, server));
        let made = Conn {
            node,
            boot,
            server,
            stream: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            last_up: 0,
            last_down: 0,
            is_lost: is_parted,
            slower: 0,
            has_work_due: false,
            work_began: 0,
            tick_at: 0,
        };
        self.conns.insert(conn, made);
        self.trace(|| format!("n{} opens stream {conn} to s{}", node + 1, server + 1));
        if is_parted {
            let late = self.chance.between(500, 10_000);
            self.after(late, Event::Broken { conn, is_node: true });
        } else {
            self.after(latency, Event::Reach { conn, hello: Box::new(hello) });
        }
        self.after(OPENING_MS, Event::OpeningLate { node, boot, conn });
    }

    pub(super) fn opening_late(&mut self, node: usize, boot: u32, conn: u64) {
        if self.agent(node, boot).is_some_and(|up| up.conn == Some(conn) && !up.is_open) {
            self.trace(|| format!("n{} gives up opening stream {conn}", node + 1));
            self.node_lost(node, boot, Lost::Connect);
        }
    }

    /// The opening of a stream reaches a server.
    pub(super) fn reach(&mut self, id: u64, hello: v1::NodeMessage) {
        let Some(conn) = self.conns.get(&id) else { return };
        let (node, server) = (conn.node, conn.server);
        if conn.is_lost {
            return;
        }
        let Some(machine) = self.scene.machines.get(node) else { return };
        let accepted = self.accept(server, &machine.identity.node);
        match accepted {
            Ok(stream) => {
                if let Some(conn) = self.conns.get_mut(&id) {
                    conn.stream = Some(stream);
                    conn.up.push_front((self.now, hello));
                }
                self.down(id, Down::Took);
                // An older stream of the node may have been told to end.
                self.pump_all(server);
            }
            Err(reason) => self.down(id, Down::Refused(reason)),
        }
    }

    /// Sends something to the node.
    pub(super) fn down(&mut self, id: u64, what: Down) {
        if let Down::Message(bytes) = &what {
            self.keep_frame("down", bytes);
        }
        let latency = self.latency();
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.is_lost) else { return };
        conn.last_down = conn.last_down.max(self.now + latency + conn.slower);
        conn.down.push_back((conn.last_down, what));
        let delay = conn.last_down - self.now;
        self.after(delay, Event::ToNode { conn: id });
    }

    /// Sends something to the server.
    pub(super) fn up(&mut self, id: u64, message: v1::NodeMessage) {
        if self.keeps_frames {
            self.keep_frame("up", &message.encode_to_vec());
        }
        let latency = self.latency();
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.is_lost) else { return };
        conn.last_up = conn.last_up.max(self.now + latency + conn.slower);
        conn.up.push_back((conn.last_up, message));
        let delay = conn.last_up - self.now;
        self.after(delay, Event::ToServer { conn: id });
    }

    /// Something reaches the node: it takes what it can take now.
    pub(super) fn arrives(&mut self, id: u64) {
        loop {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            let (node, boot, now) = (conn.node, conn.boot, self.now);
            let is_due = conn.down.front().is_some_and(|(at, _)| *at <= now);
            if !is_due || !self.takes(node, boot, id) {
                return;
            }
            let front = self.conns.get_mut(&id).and_then(|conn| conn.down.pop_front());
            let Some((_, what)) = front else { return };
            match what {
                Down::Took => self.node_opened(node, boot),
                Down::Message(bytes) => self.node_hears(node, boot, &bytes),
                Down::Refused(reason) => {
                    self.trace(|| format!("n{} is refused stream {id}: {reason}", node + 1));
                    self.node_lost(node, boot, Lost::Connect);
                }
                Down::End => {
                    self.trace(|| format!("n{} sees stream {id} end", node + 1));
                    self.node_lost(node, boot, Lost::Stream);
                }
            }
            if self.failure.is_some() {
                return;
            }
        }
    }

    /// One side learns that the connection is gone.
    pub(super) fn broken(&mut self, id: u64, is_node: bool) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if is_node {
            let (node, boot) = (conn.node, conn.boot);
            if self.agent(node, boot).is_some_and(|up| up.conn == Some(id)) {
                let how = if self.agent(node, boot).is_some_and(|up| up.is_open) {
                    Lost::Stream
                } else {
                    Lost::Connect
                };
                self.trace(|| format!("n{} sees stream {id} break", node + 1));
                self.node_lost(node, boot, how);
            }
        } else {
            conn.stream = None;
            self.drop_if_over(id);
        }
    }

    /// The node let go of a connection; the server learns of it, or does not.
    pub(super) fn node_left(&mut self, id: u64) {
        let latency = self.latency();
        let is_told = self.is_calm || self.chance.happens(800);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.down.clear();
        if conn.is_lost || !is_told {
            conn.is_lost = true;
        } else {
            let delay = (conn.last_up.max(self.now) - self.now) + latency;
            self.after(delay, Event::Broken { conn: id, is_node: false });
        }
        self.drop_if_over(id);
    }

    /// The server let go of a connection; the node learns of it, or does not.
    pub(super) fn server_left(&mut self, id: u64) {
        let latency = self.latency();
        let is_told = self.is_calm || self.chance.happens(700);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.stream = None;
        conn.up.clear();
        if conn.is_lost || !is_told {
            conn.is_lost = true;
        } else {
            let delay = (conn.last_down.max(self.now) - self.now) + latency;
            self.after(delay, Event::Broken { conn: id, is_node: true });
        }
        self.drop_if_over(id);
    }

    pub(super) fn drop_if_over(&mut self, id: u64) {
        let Some(conn) = self.conns.get(&id) else { return };
        let (node, boot) = (conn.node, conn.boot);
        let is_used = self.agent(node, boot).is_some_and(|up| up.conn == Some(id));
        if self.conns.get(&id).is_some_and(|conn| conn.stream.is_none()) && !is_used {
            self.conns.remove(&id);
        }
    }
}
