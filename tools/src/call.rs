//! One call of a function: what goes to the tool, what comes back.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::dialog::{Listener, LogLevel};
use crate::envelope;
use crate::error::Error;

/// Levels a result may be nested; common JSON readers stop at 128, so deeper ones would be lost later
/// and without a reason.
pub const RESULT_DEPTH: usize = 120;

/// Where the `reason` of an agent's `notifications/cancelled` is put, raw, before its call is ended.
pub type Reason = Option<Arc<OnceLock<Box<RawValue>>>>;

/// A call of one function.
pub struct Call {
    /// The function's raw name, as its server lists it.
    pub name: Box<str>,
    /// A raw object; reaches the tool byte for byte (over stdio line ends between members become blanks).
    pub arguments: Option<Box<RawValue>>,
    /// Raw `_meta` to send along, such as trace context. Its `progressToken` and the protocol's own
    /// members are replaced by ours.
    pub meta: Option<Box<RawValue>>,
    /// Further members of the params as `,"name":value`, which no revision that we speak knows.
    pub others: Option<Box<str>>,
    /// Whether the tool is asked for progress, which the listener hears.
    pub progress: bool,
    /// Who hears what the tool says during the call, and can be asked. Without it the agent cannot be.
    pub listener: Option<Arc<dyn Listener>>,
    /// The agent's capabilities as a raw object: told to tools of the modern era with each call.
    pub capabilities: Option<Arc<str>>,
    /// How much the agent wants to be told; `None` leaves that to a tool of the handshake era, and tells
    /// one of the modern era to say nothing.
    pub log_level: Option<LogLevel>,
    /// Answers to what the tool asked in place of a result (modern era), raw, under its keys.
    pub responses: Option<Box<RawValue>>,
    /// The tool's own `requestState` of that, byte for byte.
    pub state: Option<Box<RawValue>>,
    /// Ends the call early; the tool is told. Dropping the future does the same.
    pub cancel: CancellationToken,
    /// Why it is ended early, where the agent says so by then: told to a tool that is told by a message.
    pub reason: Reason,
    /// Time for the whole call, waiting for the pipe included.
    pub deadline: Duration,
    /// Arguments that `x-mcp-header` of the approved schema sends as headers too (HTTP, modern era).
    pub header_params: Vec<HeaderParam>,
    /// Set on the one repetition after [`Error::SessionLost`]: no second new session is opened for it.
    pub repeated: bool,
}

impl Call {
    /// A call with a minute's deadline and nothing else.
    pub fn new(name: &str, arguments: Option<Box<RawValue>>) -> Self {
        Self {
            name: name.into(),
            arguments,
            meta: None,
            others: None,
            progress: false,
            listener: None,
            capabilities: None,
            log_level: None,
            responses: None,
            state: None,
            cancel: CancellationToken::new(),
            reason: None,
            deadline: Duration::from_mins(1),
            header_params: Vec::new(),
            repeated: false,
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("name", &self.name)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// An argument that is sent as header `Mcp-Param-<name>` too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParam {
    /// The value of `x-mcp-header`.
    pub name: Box<str>,
    /// Property names from the arguments' root.
    pub path: Vec<Box<str>>,
}

/// The params of one `notifications/progress`, raw; its `progressToken` is ours, see [`Self::with_token`].
#[derive(Debug, Clone)]
pub struct RawProgress(pub Box<RawValue>);

impl RawProgress {
    /// The params' text with the caller's own token in place of ours.
    pub fn with_token(&self, token: &RawValue) -> String {
        envelope::with_member(self.0.get(), "progressToken", token.get())
    }
}

/// The raw `result` of a call; halves of surrogate pairs are U+FFFD, all else as sent.
#[derive(Debug, Clone)]
pub struct RawResult(pub Box<RawValue>);

impl RawResult {
    /// Member `isError`.
    pub fn is_error(&self) -> bool {
        envelope::members(&self.0).and_then(|m| m.get("isError")).is_some_and(|e| e.get() == "true")
    }
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError<R> {
    /// The hook refused at the moment of writing; nothing reached the tool (over HTTP after a redirect:
    /// nothing more).
    #[error("call the function: refused at the moment of writing")]
    Refused(R),
    /// The tool, or the way to it.
    #[error(transparent)]
    Failed(#[from] Error),
}
