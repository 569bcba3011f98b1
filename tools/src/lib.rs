//! Tools as processes and endpoints: start, list raw, call, stop; MCP as a client, both eras.
//!
//! Everything that is forwarded or hashed stays raw JSON ([`envelope`]); no typed SDK is used. Over stdio,
//! streamable HTTP and the older HTTP+SSE, revision 2026-07-28 and the handshake revisions before it. Judging listings,
//! permits, restarts with back-off and policy are the node's; reading manifests is `plugin`'s.

pub mod envelope;
pub mod shim;

mod call;
mod confine;
mod dialog;
mod error;
mod http;
mod list;
mod show;
mod spec;
mod start;
mod stdio;
mod tool;
mod waiters;
mod wire;

pub use call::{Call, CallError, HeaderParam, RESULT_DEPTH, RawProgress, RawResult, Reason};
pub use confine::{Confined, Confinement, supported as confines};
pub use dialog::{Back, ELICITATION, Listener, LogLevel, Offers, Question, ROOTS, Reply, SAMPLING, Said};
pub use error::{AddressRefusal, EndpointFault, Error, RpcError};
pub use list::RawList;
pub use spec::{
    AddressRule, CommandSpec, EgressProxy, Headers, Limits, Opening, ProcessLimits, ToolSpec, UrlSpec,
};
pub use start::StartError;
pub use stdio::Process;
pub use tool::{Events, Noise, Tool, ToolEvent};
pub use wire::{Era, HANDSHAKE, MODERN};
