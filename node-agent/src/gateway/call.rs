//! One call from its parameters to the answer's text.

use std::sync::Arc;

use http::StatusCode;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::envelope::{self, Id, Object};
use tools::{LogLevel, Reason};

use super::attempt::{self, Done, From, Stop, attempt};
use super::capability::Capabilities;
use super::protocol::{CAPABILITIES_KEY, Era, INVALID_PARAMS, LOG_LEVEL_KEY, MISSING_CAPABILITY};
use super::rounds::Round;
use super::talk::{Agent, Ear};
use super::{Shared, ask, hold, input, mark};

/// A call as its client asked for it.
pub(super) struct Asked {
    pub(super) id: Id,
    pub(super) era: Era,
    /// Model name or function ID.
    pub(super) name: Box<str>,
    pub(super) arguments: Option<Box<RawValue>>,
    pub(super) meta: Option<Box<RawValue>>,
    /// Further members of the params as `,"name":value`.
    pub(super) others: Option<Box<str>>,
    /// Why it is cancelled, once its client says so.
    pub(super) reason: Reason,
    /// Who asks.
    pub(super) agent: Agent,
    /// Answers to what was asked of it, and our own state (2026-07-28).
    pub(super) retry: Option<Round>,
}

/// The text of an answer, and the status of one that is no stream.
pub(super) struct Answered {
    pub(super) text: String,
    pub(super) status: StatusCode,
}

impl Asked {
    /// Reads the parameters of `tools/call`.
    ///
    /// # Errors
    /// What is missing, as a sentence.
    pub(super) fn read(id: Id, era: Era, params: Option<&RawValue>) -> Result<Self, &'static str> {
        let params = params.and_then(envelope::members).ok_or("params with a `name` are expected")?;
        let name =
            params.get("name").and_then(envelope::text).ok_or("params.name is expected to be a string")?;
        let meta = params.get("_meta");
        let of_meta = meta.and_then(envelope::members);
        let token = of_meta.as_ref().and_then(|meta| meta.get("progressToken"));
        let arguments = params.get("arguments").filter(|arguments| arguments.get() != "null");
        let mut asked = Self {
            id,
            era,
            name: name.into(),
            arguments: arguments.map(ToOwned::to_owned),
            meta: meta.map(ToOwned::to_owned),
            others: others(&params),
            reason: None,
            agent: Agent::default(),
            retry: None,
        };
        asked.agent.token = token.filter(|token| Id::from_raw(token).is_some()).map(ToOwned::to_owned);
        if era == Era::Modern {
            let of_meta = of_meta.unwrap_or_default();
            asked.agent.capabilities = Capabilities::read(of_meta.get(CAPABILITIES_KEY));
            if let Some(level) = of_meta.get(LOG_LEVEL_KEY) {
                let level = envelope::text(level).and_then(|level| LogLevel::parse(&level));
                asked.agent.log_level = Some(level.ok_or("this log level is none of the protocol's")?);
            }
            let present =
                |name| params.get(name).filter(|value| value.get() != "null").map(ToOwned::to_owned);
            let (responses, state) = (present("inputResponses"), present("requestState"));
            asked.retry = (responses.is_some() || state.is_some()).then_some(Round { responses, state });
        }
        Ok(asked)
    }

    /// What `read` says, as an error object.
    pub(super) fn error(sentence: &str) -> String {
        envelope::error_object(INVALID_PARAMS, sentence)
    }
}

/// Members that a call has by some revision: those that are made anew for the tool, and `task`, since tasks are
/// not carried.
const KNOWN: [&str; 6] = ["name", "arguments", "_meta", "inputResponses", "requestState", "task"];

/// Members that no revision has, which are the tool's to know.
fn others(params: &Object<'_>) -> Option<Box<str>> {
    let is_other = |name: &RawValue| envelope::text(name).is_none_or(|name| !KNOWN.contains(&&*name));
    let others = params.iter().filter(|(name, _)| is_other(name));
    let text: String = others.flat_map(|(name, value)| [",", name.get(), ":", value.get()]).collect();
    (!text.is_empty()).then(|| text.into())
}

/// Calls, and gives the answer; `None` if `cancel` came first. Dropped, the call is cancelled.
pub(super) async fn run(shared: Arc<Shared>, asked: Asked, cancel: CancellationToken) -> Option<Answered> {
    let started = Instant::now();
    let asked = Arc::new(asked);
    let outcome = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        outcome = carried(&shared, &asked) => Some(outcome),
    };
    let (answer, ended) = match outcome {
        None => (None, "cancelled"),
        Some(outcome) => {
            let (answer, ended) = outcome.unwrap_or_else(|stop| stopped(&asked, stop));
            (Some(answer), ended)
        }
    };
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::trace!(function.name = &*asked.name, call.outcome = ended, duration_ms, "call ended");
    answer
}

/// An answer, and how the call ended in a word.
pub(super) type Ended = (Answered, &'static str);

/// The call in the way that its agent takes part in it.
async fn carried(shared: &Arc<Shared>, asked: &Arc<Asked>) -> Result<Ended, Stop> {
    let round = match &asked.retry {
        Some(Round { state: Some(_), .. }) => return hold::resume(shared, asked).await,
        // Answers without a state of ours continue no call: they are the tool's to judge.
        Some(Round { responses, .. }) => Round { responses: responses.clone(), state: None },
        None => Round { responses: None, state: None },
    };
    if !asked.agent.listens() {
        let from = From { ear: None, round };
        return match attempt(shared, asked, from).await {
            Err(Stop::Input(done)) => input::input(shared, asked, &done, 0),
            outcome => completed(asked, &outcome?),
        };
    }
    let (ear, heard) = Ear::new(&asked.agent);
    if asked.era == Era::Modern {
        return hold::begin(shared, asked, (ear, heard), round, 0).await;
    }
    let from = From { ear: Some(ear), round };
    let call = Box::pin(attempt(shared, asked, from));
    completed(asked, &ask::carry(shared, &asked.agent, heard, call).await?)
}

/// The answer with the tool's result.
pub(super) fn completed(asked: &Asked, done: &Done) -> Result<Ended, Stop> {
    let marked = mark::result(&asked.id, &done.result, &done.slot, done.hash, asked.era);
    let text = marked
        .ok_or_else(|| attempt::failed(&done.slot, "read its answer: the result is no object", true))?;
    Ok((Answered::good(text), "completed"))
}

impl Answered {
    pub(super) const fn good(text: String) -> Self {
        Self { text, status: StatusCode::OK }
    }
}

/// The status of a tool's own error: 2026-07-28 has one of its own for a capability that the agent lacks
/// (error codes, `MissingRequiredClientCapability`).
fn status(era: Era, error: &RawValue) -> StatusCode {
    let code = envelope::members(error).and_then(|error| error.get("code")).and_then(Id::from_raw);
    let is_missing = code.is_some_and(|code| code.as_json() == MISSING_CAPABILITY.to_string());
    if era == Era::Modern && is_missing { StatusCode::BAD_REQUEST } else { StatusCode::OK }
}

fn stopped(asked: &Asked, stop: Stop) -> Ended {
    let (text, ended) = match stop {
        Stop::Refused(refusal, slot) => {
            (mark::refusal(&asked.id, &refusal, slot.as_ref(), asked.era), refusal.code.as_str())
        }
        Stop::Failed { sentence, may_have_run, slot } => {
            (mark::failure(&asked.id, &sentence, may_have_run, &slot, asked.era), "failed")
        }
        Stop::Error(error) => {
            let text = envelope::failure(Some(&asked.id), &envelope::repair_surrogates(error.get()));
            return (Answered { text, status: status(asked.era, &error) }, "failed");
        }
        Stop::Invalid(sentence) => (envelope::failure(Some(&asked.id), &Asked::error(&sentence)), "invalid"),
        // `carried` has made an answer of it.
        Stop::Input(_) => (envelope::failure(Some(&asked.id), &Asked::error("input is required")), "failed"),
    };
    (Answered::good(text), ended)
}
