//! Settings of the endpoint, each with its reason.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tools::Offers;

/// Settings of the MCP endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen. Default: loopback, port 7410.
    pub listen: SocketAddr,
    /// Hosts that clients may name besides loopback names and the address itself (against DNS
    /// rebinding); without port.
    pub allowed_hosts: Vec<String>,
    /// Origins, as `scheme://host[:port]`, of pages that may use the endpoint besides loopback ones.
    pub allowed_origins: Vec<String>,
    /// Bytes of one request. Default 16 MiB: as much as common clients accept back, so arguments
    /// may be as large as results.
    pub body_bytes: usize,
    /// For a request's head and for its body to arrive. Default 30 s: local clients send at once.
    pub read_wait: Duration,
    /// Connections at once. Default 1,024: half of the file descriptors that systems commonly give.
    pub connections: usize,
    /// Streams that announce changes, at once. Default 512, so that connections are left for calls.
    pub streams: usize,
    /// Calls under way, those that wait included. Default 512: each holds its request and result.
    pub calls: usize,
    /// Calls under way per tool (`gateway.calls_per_tool`). Default 32: as a single process bears.
    pub calls_per_tool: usize,
    /// Calls of one tool that may wait for another to end. Default 32: one round more.
    pub queue_per_tool: usize,
    /// How long they wait. Default 5 s: longer is no answer to an agent.
    pub queue_wait: Duration,
    /// Calls of one tool in a row that fail before the next is held back (`gateway.breaker_failures`); 0 holds none
    /// back. Default 5: more than a server that is being started again costs an agent that tries again.
    pub breaker_failures: u32,
    /// How long they are held back at first, doubled by each that is let through and fails, up to a minute
    /// (`gateway.breaker_wait`). Default 5 s: a server is started again within it.
    pub breaker_wait: Duration,
    /// For a whole call (`gateway.call_deadline`). Default 300 s: builds and searches take minutes.
    pub call_deadline: Duration,
    /// How long a list or a call waits for the plugin set, or for a tool that starts. Default 10 s:
    /// a node that starts again holds its set within that.
    pub set_wait: Duration,
    /// How long a call waits for a new listing of its tool. Default 10 s.
    pub relist_wait: Duration,
    /// Entries of one page of the list. Default 1,000.
    pub page_entries: usize,
    /// Bytes of one page, but for a single larger entry. Default 4 MiB: a quarter of what common
    /// clients read.
    pub page_bytes: usize,
    /// How long clients of 2026-07-28 may keep a list. Default 10 s: an approval is seen as fast
    /// by those that do not subscribe.
    pub list_ttl: Duration,
    /// Sessions of the handshake revisions. Default 10,000: some kilobytes each.
    pub sessions: usize,
    /// When an unused session ends. Default 24 h: agents idle overnight, and many do not open
    /// another by themselves.
    pub session_idle: Duration,
    /// Whether a handshake client that goes away cancels its calls. Default no: those revisions
    /// say that a lost connection is no cancellation. From 2026-07-28 on it always is one.
    pub cancel_on_disconnect: bool,
    /// What tools of the handshake revisions are told that agents can be asked for (`gateway.offers`).
    /// Default: forms, URLs and sampling; no roots, which such tools keep for all agents.
    pub offers: Offers,
    /// Questions of tools that agents have not answered (`gateway.questions`). Default 256: half of the
    /// calls, so that people who think do not keep all others waiting.
    pub questions: usize,
    /// Questions of one call at once (`gateway.questions_per_call`). Default 8: as many as a person bears.
    pub questions_per_call: usize,
    /// Bytes of one question (`gateway.question_bytes`). Default 1 MiB: a prompt with a picture.
    pub question_bytes: usize,
    /// How long an answer is waited for (`gateway.answer_wait`). Default 240 s: a minute less than a call
    /// has, so that the tool hears why.
    pub answer_wait: Duration,
    /// How often a tool may ask in place of a result (`gateway.rounds`). Default 16: a wizard's pages.
    pub rounds: u32,
    /// Between two signs of life on a silent stream. Default 15 s: proxies cut after 30 s or more.
    pub keep_alive: Duration,
    /// For calls under way when the node stops. Default 5 s.
    pub stop_wait: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7410)),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            body_bytes: 16 << 20,
            read_wait: Duration::from_secs(30),
            connections: 1_024,
            streams: 512,
            calls: 512,
            calls_per_tool: 32,
            queue_per_tool: 32,
            queue_wait: Duration::from_secs(5),
            breaker_failures: 5,
            breaker_wait: Duration::from_secs(5),
            call_deadline: Duration::from_mins(5),
            set_wait: Duration::from_secs(10),
            relist_wait: Duration::from_secs(10),
            page_entries: 1_000,
            page_bytes: 4 << 20,
            list_ttl: Duration::from_secs(10),
            sessions: 10_000,
            session_idle: Duration::from_hours(24),
            cancel_on_disconnect: false,
            offers: Offers::default(),
            questions: 256,
            questions_per_call: 8,
            question_bytes: 1 << 20,
            answer_wait: Duration::from_mins(4),
            rounds: 16,
            keep_alive: Duration::from_secs(15),
            stop_wait: Duration::from_secs(5),
        }
    }
}
