//! The MCP endpoint of a node: how agents list and call functions.
//!
//! Lives here: streamable HTTP at `/mcp`, revision 2026-07-28 and the handshake revisions back to
//! 2025-03-26 on one endpoint, as raw JSON. Not here: which calls are allowed ([`domain::guard`]),
//! what a tool is ([`tools`]), the bridge for stdio clients (`bridge`). Started by [`crate`]'s node.
//!
//! The way of a call: `access` lets the request in, `post` finds its era, `attempt` asks the table for
//! a permit, validates the arguments and calls, `mark` writes what goes back. What the tool says during
//! the call comes by `talk`, and is put to the agent by `ask` (a session's) or `hold` (2026-07-28).

mod access;
mod admit;
mod answer;
mod ask;
mod attempt;
mod breaker;
mod call;
mod capability;
mod config;
mod discover;
mod handshake;
mod hold;
mod input;
mod limit;
mod list;
mod live;
mod mark;
mod modern;
mod post;
pub(crate) mod protocol;
mod rounds;
mod seal;
mod serve;
mod session;
mod shown;
mod state;
mod stream;
mod talk;
mod token;
mod upstream;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use breaker::Breaker;
pub use config::Config;
pub use live::Live;
pub use token::Token;
pub use upstream::{BeforeWrite, CallFuture, CallLimits, Terms, Upstream};

use crate::arguments::Schemas;
use hold::Holding;
use limit::Limits;
use list::Lists;
use seal::Seal;
use session::Sessions;

/// The path of the endpoint.
pub const PATH: &str = "/mcp";

/// Why the endpoint cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not ours.
    #[error("listen for MCP clients on {address}")]
    Listen {
        /// The setting's value.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The token's file.
    #[error(transparent)]
    Token(#[from] token::TokenFault),
}

/// What all requests share.
struct Shared {
    config: Config,
    /// What the listener is bound to.
    address: SocketAddr,
    token: Token,
    upstream: Arc<dyn Upstream>,
    lists: Lists,
    limits: Limits,
    schemas: Schemas,
    sessions: Sessions,
    seal: Seal,
    holding: Holding,
    shutdown: CancellationToken,
}

/// A running MCP endpoint.
pub struct Gateway {
    shared: Arc<Shared>,
    tasks: TaskTracker,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Listens and serves until [`Gateway::stop`].
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(config: Config, token: Token, upstream: Arc<dyn Upstream>) -> Result<Self, Error> {
        let listen = |source| Error::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let shutdown = CancellationToken::new();
        let shared = Arc::new(Shared {
            lists: Lists::new(config.page_entries, config.page_bytes),
            limits: Limits::new(&config),
            schemas: Schemas::default(),
            sessions: Sessions::new(&config),
            seal: Seal::new(),
            holding: Holding::default(),
            config,
            address,
            token,
            upstream,
            shutdown,
        });
        let tasks = TaskTracker::new();
        tasks.spawn(list::watch(Arc::clone(&shared)));
        tasks.spawn(session::sweep(Arc::clone(&shared)));
        tasks.spawn(serve::serve(listener, Arc::clone(&shared), tasks.clone()));
        tracing::info!(mcp.address = %address, "MCP endpoint listens");
        Ok(Self { shared, tasks })
    }

    /// The address that it listens on; the port is the real one where the setting said 0.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The URL that agents use.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.shared.address)
    }

    /// Ends streams in order, lets calls under way finish for [`Config::stop_wait`], then cuts.
    pub async fn stop(self) {
        self.shared.shutdown.cancel();
        self.tasks.close();
        // Connections cut themselves after the wait; a little longer, and they are left behind.
        let wait = self.shared.config.stop_wait + std::time::Duration::from_secs(1);
        if tokio::time::timeout(wait, self.tasks.wait()).await.is_err() {
            tracing::warn!("MCP connections did not end in time");
        }
    }
}
