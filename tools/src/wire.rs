//! What both transports share of the protocol: the eras, the opening, what each request carries.
//!
//! Source: MCP 2026-07-28 (modern: metadata in each request, no sessions) and the handshake revisions
//! before it. What agents can be asked for is told by [`Offers`] in a handshake, by each call later on.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::{HeaderParam, Reason};
use crate::dialog::{Listener, LogLevel, Offers};
use crate::envelope;
use crate::error::{Error, RpcError};

/// The modern revision that we speak.
pub const MODERN: &str = "2026-07-28";
/// The handshake revisions that we speak, newest first. The oldest differs over HTTP only, by its
/// transport (a GET first).
pub const HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The first error codes of the modern era; servers before it used those above.
const MODERN_ERRORS: std::ops::RangeInclusive<i64> = -32099..=-32020;
/// `UnsupportedProtocolVersion`.
const UNSUPPORTED_VERSION: i64 = -32022;

pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

pub(crate) const LIST_CHANGED: &str = "notifications/tools/list_changed";
pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Which family of revisions a tool speaks; found at its start, the same until it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28: each request carries its metadata.
    Modern,
    /// `initialize` first, revisions to 2025-11-25.
    Handshake,
}

/// What a tool said about itself when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) era: Era,
    pub(crate) version: Box<str>,
    /// Whether it announces changes of its list.
    pub(crate) list_changed: bool,
    /// Whether it logs by the protocol, so that it can be told how much.
    pub(crate) logging: bool,
}

/// The hook that is asked at the moment of writing: `false` writes nothing.
pub(crate) type Gate = std::sync::Arc<dyn Fn() -> bool + Send + Sync>;

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The gate said no.
    Refused,
    Failed(Error),
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Unanswered> for Error {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            // Only calls have a gate that can refuse.
            Unanswered::Refused => Self::Cancelled,
            Unanswered::Failed(error) => error,
        }
    }
}

/// One request to a tool.
pub(crate) struct Ask {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    /// The whole params object.
    pub(crate) params: String,
    /// Who hears how far it is, where that is asked for.
    pub(crate) progress: Option<std::sync::Arc<dyn Listener>>,
    /// Of a call, whose `name` is set.
    pub(crate) listener: Option<std::sync::Arc<dyn Listener>>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) cancel: CancellationToken,
    pub(crate) reason: Reason,
    /// Asked at the moment of writing; absent for what is no call.
    pub(crate) gate: Option<Gate>,
    /// For headers of the modern era: the function's name, and values of arguments.
    pub(crate) name: Option<Box<str>>,
    pub(crate) header_params: Vec<(HeaderParam, Box<RawValue>)>,
    /// Whether the tool is told when we stop waiting (never of an opening).
    pub(crate) cancellable: bool,
    pub(crate) repeated: bool,
}

impl Ask {
    pub(crate) fn new(id: u64, method: &'static str, params: String, deadline: Option<Duration>) -> Self {
        Self {
            id,
            method,
            params,
            progress: None,
            listener: None,
            deadline,
            cancel: CancellationToken::new(),
            reason: None,
            gate: None,
            name: None,
            header_params: Vec::new(),
            cancellable: true,
            repeated: false,
        }
    }

    /// The message; the id is also the progress token.
    pub(crate) fn message(&self) -> String {
        envelope::request(&self.id.into(), self.method, Some(&self.params))
    }
}

/// What tells a tool that a request of ours is given up.
pub(crate) fn cancelled(id: u64, reason: &Reason) -> String {
    let reason = reason.as_ref().and_then(|reason| reason.get());
    let params = match reason {
        Some(reason) => format!(r#"{{"requestId":{id},"reason":{reason}}}"#),
        None => format!(r#"{{"requestId":{id}}}"#),
    };
    envelope::notification("notifications/cancelled", Some(&params))
}

/// Our own params with the `_meta` that an era wants.
pub(crate) fn with_era(params: &str, era: Era) -> String {
    match meta(None, era, None, &OfAgent::default()) {
        Some(meta) => envelope::with_member(params, "_meta", &meta),
        None => params.to_owned(),
    }
}

/// What a call tells of its agent.
#[derive(Default)]
pub(crate) struct OfAgent<'a> {
    pub(crate) capabilities: Option<&'a str>,
    pub(crate) log_level: Option<LogLevel>,
}

/// The `_meta` of a request, made of the caller's; the protocol's own members are never the caller's.
pub(crate) fn meta(
    given: Option<&RawValue>,
    era: Era,
    progress_token: Option<u64>,
    agent: &OfAgent<'_>,
) -> Option<String> {
    let token = progress_token.map(|token| token.to_string());
    let version = envelope::quoted(MODERN);
    let client = client_info();
    let modern = era == Era::Modern;
    let level = agent.log_level.filter(|_| modern).map(|level| envelope::quoted(level.name()));
    let changes = [
        ("progressToken", token.as_deref()),
        (VERSION_KEY, modern.then_some(version.as_str())),
        (CAPABILITIES_KEY, modern.then_some(agent.capabilities.unwrap_or("{}"))),
        (LOG_LEVEL_KEY, level.as_deref()),
        (CLIENT_KEY, modern.then_some(client.as_str())),
    ];
    if given.is_none() && token.is_none() && !modern {
        return None;
    }
    Some(envelope::with_members(given.map_or("{}", RawValue::get), &changes))
}

fn client_info() -> String {
    format!(r#"{{"name":"pintle","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

/// Params of `initialize`.
pub(crate) fn initialize_params(offers: Offers) -> String {
    let (version, capabilities) = (HANDSHAKE[0], offers.capabilities());
    format!(
        r#"{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{}}}"#,
        client_info()
    )
}

/// Params of `server/discover`.
pub(crate) fn discover_params() -> String {
    with_era("{}", Era::Modern)
}

/// Params of `subscriptions/listen`.
pub(crate) fn listen_params() -> String {
    with_era(r#"{"notifications":{"toolsListChanged":true}}"#, Era::Modern)
}

/// What the answer to `server/discover` says about the era.
pub(crate) enum Probe {
    Modern(Peer),
    /// Another era, or silence: try the handshake.
    Handshake,
    /// Modern, but of revisions that we do not speak.
    Unknown(Box<str>),
}

/// Judges a good answer to `server/discover`.
pub(crate) fn discovered(result: &RawValue) -> Probe {
    let Some(members) = envelope::members(result) else { return Probe::Handshake };
    let Some(versions) = members.get("supportedVersions").and_then(strings) else { return Probe::Handshake };
    if versions.iter().any(|version| version == MODERN) {
        let list_changed = announces(members.get("capabilities"));
        return Probe::Modern(Peer {
            era: Era::Modern,
            version: MODERN.into(),
            list_changed,
            logging: false,
        });
    }
    other_versions(&versions)
}

/// Whether only a server of the modern era answers so.
pub(crate) const fn is_modern(error: &RpcError) -> bool {
    error.code >= *MODERN_ERRORS.start() && error.code <= *MODERN_ERRORS.end()
}

/// Judges a bad answer to `server/discover`: any error that is not of the modern era means the other.
pub(crate) fn not_discovered(error: &RpcError) -> Probe {
    if !is_modern(error) {
        return Probe::Handshake;
    }
    let supported = envelope::members(&error.raw)
        .and_then(|members| members.get("data"))
        .and_then(envelope::members)
        .and_then(|data| data.get("supported"))
        .and_then(strings);
    match supported {
        Some(versions) if error.code == UNSUPPORTED_VERSION => other_versions(&versions),
        _ => Probe::Unknown(format!("error {}: {}", error.code, error.message).into()),
    }
}

fn other_versions(versions: &[Cow<'_, str>]) -> Probe {
    if versions.iter().any(|version| HANDSHAKE.contains(&version.as_ref())) {
        return Probe::Handshake;
    }
    Probe::Unknown(crate::show::line(&versions.join(", "), 200).into())
}

/// Judges the answer to `initialize`; `Err` names the revision that the tool insists on.
pub(crate) fn initialized(result: &RawValue) -> Result<Peer, Box<str>> {
    let members = envelope::members(result).unwrap_or_default();
    let version = members.get("protocolVersion").and_then(envelope::text).unwrap_or_default();
    if !HANDSHAKE.contains(&version.as_ref()) {
        return Err(crate::show::line(&version, 100).into());
    }
    let capabilities = members.get("capabilities");
    let list_changed = announces(capabilities);
    let logging = capabilities.and_then(envelope::members).is_some_and(|it| it.get("logging").is_some());
    Ok(Peer { era: Era::Handshake, version: version.into(), list_changed, logging })
}

fn announces(capabilities: Option<&RawValue>) -> bool {
    capabilities
        .and_then(envelope::members)
        .and_then(|capabilities| capabilities.get("tools"))
        .and_then(envelope::members)
        .and_then(|tools| tools.get("listChanged"))
        .is_some_and(|value| value.get() == "true")
}

fn strings(raw: &RawValue) -> Option<Vec<Cow<'_, str>>> {
    let values: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    values.into_iter().map(envelope::text).collect()
}

/// The outcome of an answer, owned.
pub(crate) fn outcome(outcome: Result<&RawValue, &RawValue>) -> Result<Box<RawValue>, Error> {
    match outcome {
        Ok(result) => Ok(result.to_owned()),
        Err(error) => Err(Error::Rpc(RpcError::from_raw(error))),
    }
}

/// The moment a wait ends; without a deadline one that never comes within a run.
pub(crate) fn end_of(deadline: Option<Duration>) -> Instant {
    const YEAR: Duration = Duration::from_hours(365 * 24);
    Instant::now() + deadline.unwrap_or(YEAR).min(YEAR)
}
