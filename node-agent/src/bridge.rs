//! From stdio, or from a command of ours, to a node's MCP endpoint.
//!
//! [`run`] is `pintle mcp`: an MCP server on stdin and stdout for clients that know no HTTP. [`call`]
//! and [`list`] are `pintle call` and its like. Lives here: lines, headers, sessions, reconnecting.
//! Not here: any judgement; messages pass as they are, and the endpoint decides.

mod endpoint;
mod event;
mod header;
mod lines;
mod once;
mod relay;
mod request;
mod session;

use std::io;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tools::RpcError;

use endpoint::Endpoint;
pub use once::{CallOutcome, call, list};

/// Why a node's endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL or the token cannot be used.
    #[error("use {url} as a node's MCP endpoint: {reason}")]
    Settings {
        /// As given.
        url: Box<str>,
        /// What is wrong.
        reason: Box<str>,
    },
    /// Nobody answers.
    #[error("reach the node at {url}; is its node agent running?")]
    Unreachable {
        /// The endpoint.
        url: Box<str>,
        /// What the network said.
        #[source]
        source: reqwest::Error,
    },
    /// The token is another one.
    #[error(
        "use the node at {url}: it does not take this token; it is in the file mcp.token of the node's data folder"
    )]
    Token {
        /// The endpoint.
        url: Box<str>,
    },
    /// An HTTP status that tells nothing else.
    #[error("use the node at {url}: it answers {status}")]
    Status {
        /// The endpoint.
        url: Box<str>,
        /// HTTP status.
        status: u16,
    },
    /// The node forgot the session, and opens no other.
    #[error("use the session with {url}: the node forgot it")]
    SessionLost {
        /// The endpoint.
        url: Box<str>,
    },
    /// The answer broke off, or is none.
    #[error("read the answer of {url}: {reason}")]
    Answer {
        /// The endpoint.
        url: Box<str>,
        /// What is wrong.
        reason: Box<str>,
    },
    /// The node, or the tool behind it, answered with a JSON-RPC error.
    #[error("get a result: error {}: {}", .0.code, .0.message)]
    Rpc(RpcError),
    /// The arguments of a call are no JSON.
    #[error("read the arguments as JSON")]
    Arguments(#[source] serde_json::Error),
    /// Standard input or output failed.
    #[error("pass messages on")]
    Stdio(#[source] io::Error),
}

impl Error {
    /// Whether nobody listens at the URL.
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// Where the client's lines come from.
pub type Input = Box<dyn AsyncRead + Unpin + Send>;
/// Where the lines for the client go.
pub type Output = Box<dyn AsyncWrite + Unpin + Send>;

/// Passes messages between lines and the endpoint, in whichever era the client speaks, until
/// `stdin` ends (calls under way get two seconds more) or `stdout` is closed.
///
/// A node that starts again is waited for, and its client's session is opened again.
///
/// # Errors
/// The URL or the token cannot be used at all, or standard input or output failed; what goes wrong
/// with a message is its answer.
pub fn run(url: &str, token: &str, stdin: Input, stdout: Output) -> BoxFuture<'static, Result<(), Error>> {
    let endpoint = Endpoint::new(url, token);
    Box::pin(async move { relay::run(endpoint?, stdin, stdout).await })
}
