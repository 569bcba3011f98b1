//! What can happen.

use domain::id::{PluginVersion, ToolId};
use node_agent::simulation::Install;
use proto::v1;

use super::people::Deed;
use super::tools::ToolEvent;

/// Something that happens at its time. What belongs to a boot, a connection or a start that is over by
/// then is passed over.
#[derive(Debug)]
pub(crate) enum Event {
    /// A node opens a stream.
    Connect { node: usize, boot: u32 },
    /// A node waited long enough for the answer to that.
    OpeningLate { node: usize, boot: u32, conn: u64 },
    /// The opening reaches the server.
    Reach { conn: u64, hello: Box<v1::NodeMessage> },
    /// A message reaches the server.
    ToServer { conn: u64 },
    /// A message reaches the node.
    ToNode { conn: u64 },
    /// One side learns that the connection broke.
    Broken { conn: u64, is_node: bool },
    /// The database has done what a stream asked for.
    Work { conn: u64 },
    /// A stream's session looks at the clock.
    StreamTick { conn: u64 },
    /// A node's session looks at the clock.
    NodeTick { node: usize, boot: u32 },
    /// The disk has a part.
    Written { node: usize, boot: u32 },
    /// The reconciler's task runs.
    Turn { node: usize, boot: u32 },
    /// An install ended.
    Installed { node: usize, boot: u32, version: PluginVersion, install: Install, is_well: bool },
    /// A tool, or all of a version, is down.
    Stopped { node: usize, boot: u32, version: PluginVersion, tool: Option<ToolId> },
    /// Something of a tool is due.
    Tool { node: usize, boot: u32, version: PluginVersion, tool: ToolId, turn: u64, what: ToolEvent },
    /// A server's fan-out looks.
    Look { server: usize, incarnation: u32, is_regular: bool },
    /// A person thinks of something.
    Person,
    /// A person asks a server for it.
    Asked(Deed),
    /// The server has done it.
    Done { deed: Deed, asked_at: u64, wall_ms: i64, by: (usize, u32) },
    /// Something breaks.
    Fault,
    /// A tool server changes.
    Words,
    /// A server starts.
    StartServer { server: usize },
    /// A node starts.
    StartNode { node: usize },
    /// A node and a server reach each other again.
    Heal { node: usize, server: usize },
    /// The database is restored from its copy.
    Restore,
    /// Faults end.
    Calm,
    /// Everything must have settled.
    Settled,
    /// A person approves everything.
    Approve,
    /// That must be in force.
    InForce,
}
