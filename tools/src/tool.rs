//! A running tool: started, listed, called, stopped, over whichever transport and era it speaks.
//!
//! Not here: judging listings, permits, restarting with back-off; the node does that with what it is told
//! through [`ToolEvent`].

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;

use crate::call::{Call, CallError, RESULT_DEPTH, RawResult};
use crate::confine::Confined;
use crate::dialog::LogLevel;
use crate::envelope;
use crate::error::{EndpointFault, Error};
use crate::http::Http;
use crate::http::older::Older;
use crate::list::{self, RawList};
use crate::spec::{Limits, Opening, ToolSpec, UrlSpec};
use crate::start::StartError;
use crate::stdio::{Process, Stdio};
use crate::wire::{self, Ask, Era, Gate, OfAgent, Peer, Unanswered};

/// For a tool to take another log level; it has nothing to do for it.
const LOG_LEVEL_WAIT: Duration = Duration::from_secs(5);

/// What a tool does on its own.
#[derive(Debug, Clone)]
pub enum ToolEvent {
    /// It announced that its list changed.
    ListChanged,
    /// The way announcements come was interrupted and is open again (or the session is a new one): some
    /// may have been missed, so list again.
    Reconnected,
    /// Its process ended by itself; calls that waited have failed. Not sent after [`Tool::stop`].
    Exited {
        /// For example `ended with exit code 3`.
        status: Box<str>,
        /// The last lines of its stderr, made visible.
        stderr: Box<str>,
    },
    /// A log message of the protocol: the raw params of `notifications/message`.
    Log(Box<RawValue>),
}

/// Called by the reader at once, in the order read: when it returns, nothing that came later has been
/// handled. It must not block.
pub type Events = Arc<dyn Fn(ToolEvent) + Send + Sync>;

/// What came on stdout and was no message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noise {
    /// Lines ignored.
    pub lines: u64,
    /// The first of them, made visible and shortened.
    pub first: Box<str>,
}

/// A running tool of one plugin version. Dropped without [`Tool::stop`], its processes are killed.
#[derive(Debug)]
pub struct Tool {
    wire: Wire,
    limits: Limits,
    /// The most that an agent has asked to be told, as a [`LogLevel`]; above all of them before.
    log_level: AtomicU8,
}

#[derive(Debug)]
enum Wire {
    Stdio(Stdio),
    Http(Http),
    Older(Older),
}

impl Tool {
    /// Starts the process, or opens the endpoint, and finds out the era.
    ///
    /// # Errors
    /// The sentence says what to do, and for a process the end of its stderr.
    pub async fn start(spec: ToolSpec, events: Events) -> Result<Self, StartError> {
        match spec {
            ToolSpec::Command(spec) => {
                let limits = spec.limits;
                Ok(Self::new(Wire::Stdio(Stdio::start(spec, events).await?), limits))
            }
            ToolSpec::Url(spec) => {
                let limits = spec.limits;
                Ok(Self::new(open_url(spec, events).await?, limits))
            }
        }
    }

    const fn new(wire: Wire, limits: Limits) -> Self {
        Self { wire, limits, log_level: AtomicU8::new(u8::MAX) }
    }

    /// Asks for the whole list, page after page.
    ///
    /// # Errors
    /// Only where not even the first page came; a list that broke off later is [`RawList::broken`].
    pub async fn list(&self) -> Result<RawList, Error> {
        list::all_pages(self, &self.limits).await
    }

    /// Calls a function.
    ///
    /// `before_write` is the law "the permit is made again at the moment of writing". Over stdio it runs
    /// once, holding the pipe, right before the first byte. Over HTTP it runs on each leg, before anything
    /// is connected to and again when the connection is there and the body is about to go. If it refuses,
    /// nothing (more) is written. It must not block.
    ///
    /// # Errors
    /// [`CallError::Refused`] with the hook's value, or what went wrong; [`Error::may_have_run`] says
    /// whether the tool may have seen the call.
    pub async fn call<R, F>(&self, call: Call, before_write: F) -> Result<RawResult, CallError<R>>
    where
        R: Send + 'static,
        F: Fn() -> Result<(), R> + Send + Sync + 'static,
    {
        if let Some(level) = call.log_level {
            self.log_at(level).await;
        }
        let refusal = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&refusal);
        let gate: Gate = Arc::new(move || match before_write() {
            Ok(()) => true,
            Err(value) => {
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
                false
            }
        });
        match self.ask(self.call_ask(call, gate)).await {
            Ok(result) => self.result(&result).map_err(CallError::Failed),
            Err(Unanswered::Failed(error)) => Err(CallError::Failed(error)),
            Err(Unanswered::Refused) => {
                let value = refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(value.map_or(CallError::Failed(Error::Stopped { sent: false }), CallError::Refused))
            }
        }
    }

    /// Stops the tool: a process gets its stdin closed, then TERM, then KILL, its whole group; an
    /// endpoint's session is ended. Calls that still wait fail.
    pub async fn stop(&self) {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.stop().await,
            Wire::Http(http) => http.stop().await,
            Wire::Older(older) => older.stop().await,
        }
    }

    /// How it is best opened the next time.
    pub fn opening(&self) -> Opening {
        match (&self.wire, self.era()) {
            (Wire::Older(_), _) => Opening::Older,
            (_, Era::Handshake) => Opening::Handshake,
            (_, Era::Modern) => Opening::Probe,
        }
    }

    /// The era found at the start.
    pub fn era(&self) -> Era {
        self.peer().era
    }

    /// The revision agreed on.
    pub fn protocol_version(&self) -> Box<str> {
        self.peer().version
    }

    /// The address of the last connection to an endpoint.
    pub fn connected_to(&self) -> Option<SocketAddr> {
        match &self.wire {
            Wire::Stdio(_) => None,
            Wire::Http(http) => http.connected_to(),
            Wire::Older(older) => older.connected_to(),
        }
    }

    /// The process at the head of a command's group, while it runs.
    pub fn process(&self) -> Option<Process> {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.process(),
            Wire::Http(_) | Wire::Older(_) => None,
        }
    }

    /// What the kernel confines a command's processes to.
    pub fn confined(&self) -> Option<Confined> {
        match &self.wire {
            Wire::Stdio(stdio) => Some(stdio.confined()),
            Wire::Http(_) | Wire::Older(_) => None,
        }
    }

    /// What came on a command's stdout and was no message.
    pub fn noise(&self) -> Noise {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.noise(),
            Wire::Http(_) | Wire::Older(_) => Noise::default(),
        }
    }

    /// The end of a command's stderr (64 KiB), made visible, and how many bytes came in all.
    pub fn stderr(&self) -> (String, u64) {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.stderr(),
            Wire::Http(_) | Wire::Older(_) => (String::new(), 0),
        }
    }

    pub(crate) fn peer(&self) -> Peer {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.peer().clone(),
            Wire::Http(http) => http.peer(),
            Wire::Older(older) => older.peer(),
        }
    }

    pub(crate) fn next_id(&self) -> u64 {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.next_id(),
            Wire::Http(http) => http.next_id(),
            Wire::Older(older) => older.next_id(),
        }
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Result<Box<RawValue>, Unanswered> {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.ask(ask).await,
            Wire::Http(http) => http.ask(ask).await,
            Wire::Older(older) => older.ask(ask).await,
        }
    }

    fn call_ask(&self, call: Call, gate: Gate) -> Ask {
        let id = self.next_id();
        let token = (call.progress && call.listener.is_some()).then_some(id);
        let agent = OfAgent { capabilities: call.capabilities.as_deref(), log_level: call.log_level };
        let meta = wire::meta(call.meta.as_deref(), self.era(), token, &agent);
        let mut params = [r#"{"name":"#, &envelope::quoted(&call.name)].concat();
        let modern = self.era() == Era::Modern;
        for (name, value) in [
            (r#","arguments":"#, call.arguments.as_deref().map(RawValue::get)),
            (r#","inputResponses":"#, call.responses.as_deref().filter(|_| modern).map(RawValue::get)),
            (r#","requestState":"#, call.state.as_deref().filter(|_| modern).map(RawValue::get)),
            (r#","_meta":"#, meta.as_deref()),
        ] {
            if let Some(value) = value {
                params.push_str(name);
                params.push_str(value);
            }
        }
        params.push_str(call.others.as_deref().unwrap_or_default());
        params.push('}');
        let mut ask = Ask::new(id, "tools/call", params, Some(call.deadline));
        ask.header_params = header_values(call.header_params, call.arguments.as_deref());
        ask.progress = call.listener.clone().filter(|_| call.progress);
        ask.listener = call.listener;
        ask.cancel = call.cancel;
        ask.reason = call.reason;
        ask.gate = Some(gate);
        ask.name = Some(call.name);
        ask.repeated = call.repeated;
        ask
    }

    fn result(&self, result: &RawValue) -> Result<RawResult, Error> {
        let depth = envelope::depth(result.get());
        if depth > RESULT_DEPTH {
            return Err(Error::TooDeep { depth, limit: RESULT_DEPTH });
        }
        if self.era() == Era::Modern {
            let kind = envelope::members(result).and_then(|members| members.get("resultType"));
            match kind.and_then(envelope::text).as_deref() {
                None if kind.is_none() => {}
                Some("complete") => {}
                Some("input_required") => return Err(Error::InputRequired(repaired(result)?)),
                other => {
                    return Err(Error::ResultType(crate::show::line(other.unwrap_or("no text"), 100).into()));
                }
            }
        }
        Ok(RawResult(repaired(result)?))
    }

    /// A tool of the handshake era has one level for all agents: the lowest that one asked for.
    async fn log_at(&self, level: LogLevel) {
        let peer = self.peer();
        if !peer.logging || self.log_level.fetch_min(level as u8, Ordering::AcqRel) <= level as u8 {
            return;
        }
        let params = format!(r#"{{"level":"{}"}}"#, level.name());
        // One that declines logs as it likes.
        let _ = self.ask(Ask::new(self.next_id(), "logging/setLevel", params, Some(LOG_LEVEL_WAIT))).await;
    }
}

/// Opens an endpoint; where it refuses the streamable transport, by the older one (MCP 2025-11-25,
/// transports, "Backwards Compatibility"). Of two failures the first is told, but where a server of the
/// older one was found and cannot be used.
async fn open_url(spec: UrlSpec, events: Events) -> Result<Wire, StartError> {
    if spec.opening == Opening::Older {
        return Older::start(spec, events).await.map(Wire::Older);
    }
    match Http::start(spec.clone(), Arc::clone(&events)).await {
        Ok(http) => Ok(Wire::Http(http)),
        Err(first @ StartError::Opening(Error::Status { status: 400 | 404 | 405, .. })) => {
            match Older::start(spec, events).await {
                Ok(older) => Ok(Wire::Older(older)),
                Err(StartError::Opening(Error::Endpoint { fault: EndpointFault::None { .. }, .. })) => {
                    Err(first)
                }
                Err(told @ StartError::Opening(Error::Endpoint { .. })) => Err(told),
                Err(version @ StartError::Version { .. }) => Err(version),
                Err(_) => Err(first),
            }
        }
        Err(error) => Err(error),
    }
}

/// With halves of surrogate pairs replaced.
fn repaired(result: &RawValue) -> Result<Box<RawValue>, Error> {
    match envelope::repair_surrogates(result.get()) {
        std::borrow::Cow::Borrowed(_) => Ok(result.to_owned()),
        std::borrow::Cow::Owned(text) => RawValue::from_string(text)
            .map_err(|_| Error::Unreadable(envelope::Error::NotMessage("its result cannot be repaired"))),
    }
}

/// The annotated arguments that are there and not null.
fn header_values(
    params: Vec<crate::call::HeaderParam>,
    arguments: Option<&RawValue>,
) -> Vec<(crate::call::HeaderParam, Box<RawValue>)> {
    let value = |path: &[Box<str>]| {
        path.iter().try_fold(arguments?, |value, name| envelope::members(value)?.get(name))
    };
    params
        .into_iter()
        .filter_map(|param| {
            let value = value(&param.path).filter(|value| value.get() != "null")?.to_owned();
            Some((param, value))
        })
        .collect()
}
