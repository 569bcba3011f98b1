//! Why a list or a call did not come to an answer, and what may be done about it.

use std::time::Duration;

use domain::origin::{AddressFault, ClassFault, MAX_REDIRECTS, RedirectFault, ShownUrl};
use serde_json::value::RawValue;

use crate::envelope;

/// What went wrong between us and a running tool.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The tool's process is gone, or its output was closed.
    #[error("reach the tool: its process {status}{}", stderr_note(.stderr))]
    Gone {
        /// For example `ended with exit code 3`.
        status: Box<str>,
        /// The last lines of its stderr, made visible; may be empty.
        stderr: Box<str>,
        /// Whether the request, or a part of it, had been written.
        sent: bool,
    },
    /// The tool was stopped by us.
    #[error("reach the tool: it was stopped")]
    Stopped {
        /// Whether the request, or a part of it, had been written.
        sent: bool,
    },
    /// No connection to the endpoint, or it was cut.
    #[error("reach {origin}: {reason}")]
    Unreachable {
        /// `scheme://host[:port]`.
        origin: Box<str>,
        /// What the network said.
        reason: Box<str>,
        /// Whether the request may have arrived; then it is not repeated.
        sent: bool,
    },
    /// The host's address may not be connected to.
    #[error("connect to {host} at {address}: {fault}")]
    Address {
        /// As the URL names it.
        host: Box<str>,
        /// Resolved.
        address: std::net::IpAddr,
        /// Which rule it breaks.
        fault: AddressRefusal,
    },
    /// The endpoint sent us where we do not follow; the sentence names the URL.
    #[error(transparent)]
    Redirected(Box<RedirectFault>),
    /// The endpoint sent us on and on.
    #[error("follow {from}: it sent us on {MAX_REDIRECTS} times and then to {to}; use the last URL")]
    TooManyRedirects {
        /// The URL asked first.
        from: ShownUrl,
        /// The last `Location`.
        to: ShownUrl,
    },
    /// The endpoint wants credentials, or other ones.
    #[error("use {url}: it answers {status}, so the connection needs (other) credentials")]
    Unauthorized {
        /// The URL asked.
        url: ShownUrl,
        /// 401 or 403.
        status: u16,
        /// Header `WWW-Authenticate`.
        challenge: Option<Box<str>>,
    },
    /// Another bad HTTP status.
    #[error("use {url}: it answers {status}{}", body_note(.body))]
    Status {
        /// The URL asked.
        url: ShownUrl,
        /// HTTP status.
        status: u16,
        /// The start of the body, made visible.
        body: Box<str>,
        /// Header `Retry-After`, where it gives seconds.
        retry_after: Option<Duration>,
        /// The JSON-RPC error in the body, if there is one.
        rpc: Option<Box<RpcError>>,
    },
    /// Not an MCP endpoint.
    #[error("use {url}: it answers with {content_type}, so this is not an MCP endpoint")]
    NotMcp {
        /// The URL asked.
        url: ShownUrl,
        /// Header `Content-Type`.
        content_type: Box<str>,
    },
    /// The event stream ended before the answer.
    #[error("read the answer of {url}: its stream ended before it")]
    StreamEnded {
        /// The URL asked.
        url: ShownUrl,
    },
    /// The endpoint forgot our session; a new one is open. The request did not run: list again, then
    /// repeat it once with [`crate::Call::repeated`].
    #[error("use the session with {url}: the server forgot it, a new one is open")]
    SessionLost {
        /// The URL asked.
        url: ShownUrl,
    },
    /// A server of the 2024-11-05 transport names no place for messages, or one that nothing is sent to.
    #[error("use {url}: the server {fault}")]
    Endpoint {
        /// The URL asked.
        url: ShownUrl,
        /// What is wrong with it.
        fault: EndpointFault,
    },
    /// The new session in place of a lost one could not be opened.
    #[error("open a new session: {0}")]
    Reopen(Box<str>),
    /// An answer came that could not be read.
    #[error("read the tool's answer")]
    Unreadable(#[source] envelope::Error),
    /// An answer over the limit; it was thrown away as it came.
    #[error("read the tool's answer: it is {bytes} bytes or more, over the limit of {limit}")]
    TooLong {
        /// Bytes seen until it ended or was cut.
        bytes: u64,
        /// The limit.
        limit: usize,
    },
    /// A result nested deeper than readers bear.
    #[error(
        "read the tool's answer: the result is nested too deeply, {depth} levels, over the limit of {limit}"
    )]
    TooDeep {
        /// Levels.
        depth: usize,
        /// The limit.
        limit: usize,
    },
    /// The tool answered with a JSON-RPC error.
    #[error("get a result: the tool answers error {}: {}", .0.code, .0.message)]
    Rpc(RpcError),
    /// The result's type is none that we know (2026-07-28: then the result is invalid).
    #[error("read the tool's answer: its result type `{0}` is unknown")]
    ResultType(Box<str>),
    /// The tool wants something of the agent first (modern era): its raw result with `inputRequests`,
    /// `requestState` or both. The call is made again with [`crate::Call::responses`].
    #[error("get a result: the tool asks for more input first")]
    InputRequired(Box<RawValue>),
    /// Cancelled by the caller.
    #[error("wait for the tool: cancelled")]
    Cancelled,
    /// The deadline passed.
    #[error("get an answer within {} ms", .after.as_millis())]
    TimedOut {
        /// The limit.
        after: Duration,
        /// Whether the request had been written; then it may have run.
        sent: bool,
    },
    /// A page is no list, or the list passes a limit.
    #[error(transparent)]
    List(#[from] domain::listing::ListFault),
}

impl Error {
    /// Whether a server may answer so that speaks other revisions than when it was opened: it is to be opened
    /// anew then, not asked again.
    pub const fn may_be_of_another_era(&self) -> bool {
        match self {
            Self::Reopen(_) | Self::Status { status: 400 | 404 | 405, .. } => true,
            Self::Rpc(error) => {
                matches!(error.status, Some(400 | 404 | 405)) || crate::wire::is_modern(error)
            }
            _ => false,
        }
    }

    /// The same of a request of which nothing was written.
    pub(crate) fn unsent(mut self) -> Self {
        if let Self::Gone { sent, .. } | Self::Stopped { sent } | Self::Unreachable { sent, .. } = &mut self {
            *sent = false;
        }
        self
    }

    /// Whether the request may have reached the tool, and so may have run.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Address { .. }
            | Self::Redirected(_)
            | Self::TooManyRedirects { .. }
            | Self::Unauthorized { .. }
            | Self::Endpoint { .. }
            | Self::Reopen(_)
            | Self::SessionLost { .. } => false,
            Self::Gone { sent, .. }
            | Self::Stopped { sent }
            | Self::Unreachable { sent, .. }
            | Self::TimedOut { sent, .. } => *sent,
            _ => true,
        }
    }
}

/// Why there is nowhere to POST to, to fit behind "the server".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointFault {
    /// It stayed silent.
    #[error("named no place for messages within {} s (an `endpoint` event)", .after.as_secs())]
    None {
        /// The limit.
        after: Duration,
    },
    /// Another origin than the URL's.
    #[error("wants messages sent to a place at {origin} instead of {wanted}, and nothing is sent there")]
    OtherOrigin {
        /// What it names.
        origin: Box<str>,
        /// The URL's.
        wanted: Box<str>,
    },
    /// Its own listening address.
    #[error(
        "advertises {origin}, the address that it listens on, instead of {wanted}; give the server its public URL"
    )]
    Unspecified {
        /// What it names.
        origin: Box<str>,
        /// The URL's.
        wanted: Box<str>,
    },
    /// A URL with a user name.
    #[error("wants messages sent to `{named}`, a URL with a user name, and nothing is sent there")]
    User {
        /// What it names.
        named: ShownUrl,
    },
    /// Nothing that can be posted to.
    #[error("wants messages sent to `{named}`, which is no http or https URL")]
    NoUrl {
        /// What it names.
        named: ShownUrl,
    },
}

/// Why an address is not connected to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefusal {
    /// No tool is called there.
    #[error(transparent)]
    Never(AddressFault),
    /// Another class than the pinned one (reported as a move), or one that policy does not allow.
    #[error(transparent)]
    Class(ClassFault),
    /// The node's own listener.
    #[error("it is a listener of this node itself")]
    OwnListener,
}

/// A JSON-RPC error as the tool sent it.
#[derive(Debug, Clone)]
pub struct RpcError {
    /// Member `code`; 0 where it is missing or no whole number.
    pub code: i64,
    /// Member `message`, made visible; empty where it is missing.
    pub message: Box<str>,
    /// The whole object, to be passed on.
    pub raw: Box<RawValue>,
    /// The HTTP status that it came with, if that was a bad one.
    pub status: Option<u16>,
}

impl RpcError {
    /// Reads the error object.
    pub fn from_raw(raw: &RawValue) -> Self {
        let members = envelope::members(raw).unwrap_or_default();
        let code = members.get("code").and_then(|code| code.get().parse().ok()).unwrap_or_default();
        let message = members.get("message").and_then(envelope::text).unwrap_or_default();
        Self { code, message: crate::show::line(&message, 500).into(), raw: raw.to_owned(), status: None }
    }
}

fn stderr_note(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; the end of its stderr: {stderr}") }
}

fn body_note(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}
