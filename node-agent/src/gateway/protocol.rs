//! Names and numbers of the protocol that the endpoint needs.
//!
//! Source: MCP 2026-07-28 and the handshake revisions 2025-03-26 to 2025-11-25.

use tools::envelope::{Id, quoted};

/// The revision without sessions.
pub(crate) const MODERN: &str = tools::MODERN;
/// Revisions with `initialize` that have this transport, newest first.
pub(crate) const HANDSHAKE: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// The one revision that has batches; also that of requests without a version.
pub(crate) const BATCHES: &str = "2025-03-26";

pub(crate) const VERSION_HEADER: &str = "mcp-protocol-version";
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";
pub(crate) const METHOD_HEADER: &str = "mcp-method";
pub(crate) const NAME_HEADER: &str = "mcp-name";
/// Sent by our own bridge: its client speaks stdio, where no argument is mirrored into a header.
pub(crate) const BRIDGE_HEADER: &str = "pintle-bridge";

pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// Our own members of `_meta`; a server's are removed from its listings.
pub(crate) const PLUGIN_KEY: &str = "dev.pintle/plugin";
pub(crate) const LISTING_KEY: &str = "dev.pintle/listing";
pub(crate) const REFUSAL_KEY: &str = "dev.pintle/refusal";
pub(crate) const FAILED_KEY: &str = "dev.pintle/failed";

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
/// A tool's word of 2025-11-25 that a URL has to be visited first; later revisions ask in place of a result.
pub(crate) const URL_REQUIRED: i64 = -32042;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

pub(crate) const LIST_CHANGED: &str = "notifications/tools/list_changed";
pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
pub(crate) const LOG: &str = "notifications/message";
pub(crate) const ELICITED: &str = "notifications/elicitation/complete";
pub(crate) const PROGRESS: &str = "notifications/progress";
pub(crate) const CANCELLED: &str = "notifications/cancelled";

/// Which family of revisions a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2026-07-28: each request carries its metadata.
    Modern,
    /// `initialize` first, then a session.
    Handshake,
}

/// The revisions that we speak, as a JSON array.
pub(crate) fn supported() -> String {
    let mut all = vec![quoted(MODERN)];
    all.extend(HANDSHAKE.map(quoted));
    format!("[{}]", all.join(","))
}

/// Who we are, as the protocol's `Implementation`.
pub(crate) const SERVER_INFO: &str =
    concat!(r#"{"name":"pintle","title":"Pintle","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// What we carry, and nothing that we do not.
pub(crate) const CAPABILITIES: &str = r#"{"logging":{},"tools":{"listChanged":true}}"#;

/// `_meta` of messages on a subscription.
pub(crate) fn subscription_meta(id: &Id) -> String {
    format!(r#"{{"{SUBSCRIPTION_KEY}":{id}}}"#)
}
