//! One call from its parameters to the answer's text.

use std::sync::Arc;

use domain::guard::{Denial, Permit, Slot};
use domain::refusal::{Code, Refusal};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::envelope::{self, Id};
use tools::{Call, CallError, RawProgress, RawResult};

use super::protocol::{Era, INVALID_PARAMS};
use super::upstream::BeforeWrite;
use super::{Shared, admit, mark};
use crate::arguments;

/// How often a permit that was taken back at the moment of writing is asked for anew: a listing in
/// between explains one, a tool that lists all the time is `relisting`.
const ADMISSIONS: usize = 3;

/// A call as its client asked for it.
pub(super) struct Asked {
    pub(super) id: Id,
    pub(super) era: Era,
    /// Model name or function ID.
    pub(super) name: Box<str>,
    pub(super) arguments: Option<Box<RawValue>>,
    pub(super) meta: Option<Box<RawValue>>,
    /// The client's own token, if it wants progress.
    pub(super) token: Option<Box<RawValue>>,
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
        let token = meta.and_then(envelope::members).and_then(|meta| meta.get("progressToken"));
        let arguments = params.get("arguments").filter(|arguments| arguments.get() != "null");
        Ok(Self {
            id,
            era,
            name: name.into(),
            arguments: arguments.map(ToOwned::to_owned),
            meta: meta.map(ToOwned::to_owned),
            token: token.filter(|token| Id::from_raw(token).is_some()).map(ToOwned::to_owned),
        })
    }

    /// What `read` says, as an error object.
    pub(super) fn error(sentence: &str) -> String {
        envelope::error_object(INVALID_PARAMS, sentence)
    }
}

/// Why a call has no result of its tool.
enum Stop {
    Refused(Arc<Refusal>, Option<Arc<Slot>>),
    Failed {
        sentence: String,
        may_have_run: bool,
        slot: Arc<Slot>,
    },
    /// The tool's own error object.
    Error(Box<RawValue>),
}

/// Calls, and gives the answer's text; `None` if `cancel` came first. Dropped, the call is cancelled.
pub(super) async fn run(
    shared: Arc<Shared>,
    asked: Asked,
    progress: Option<mpsc::Sender<RawProgress>>,
    cancel: CancellationToken,
) -> Option<String> {
    let started = Instant::now();
    let outcome = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        outcome = attempt(&shared, &asked, progress) => Some(outcome),
    };
    let (answer, ended) = match outcome {
        None => (None, "cancelled"),
        Some(Ok(answer)) => (Some(answer), "completed"),
        Some(Err(Stop::Refused(refusal, slot))) => {
            (Some(mark::refusal(&asked.id, &refusal, slot.as_ref(), asked.era)), refusal.code.as_str())
        }
        Some(Err(Stop::Failed { sentence, may_have_run, slot })) => {
            (Some(mark::failure(&asked.id, &sentence, may_have_run, &slot, asked.era)), "failed")
        }
        Some(Err(Stop::Error(error))) => {
            (Some(envelope::failure(Some(&asked.id), &envelope::repair_surrogates(error.get()))), "failed")
        }
    };
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::trace!(function.name = &*asked.name, call.outcome = ended, duration_ms, "call ended");
    answer
}

async fn attempt(
    shared: &Arc<Shared>,
    asked: &Asked,
    progress: Option<mpsc::Sender<RawProgress>>,
) -> Result<String, Stop> {
    let config = &shared.config;
    let Some(_room) = shared.limits.call() else {
        let refusal = Refusal::busy("This node", count(config.calls), "gateway.calls");
        return Err(Stop::Refused(Arc::new(refusal), None));
    };
    let end = Instant::now() + config.call_deadline;
    let mut repeated = false;
    let mut admissions = 0;
    loop {
        let permit = admit::admit(shared, &asked.name).await;
        let permit = permit.map_err(|denial| stop(shared, &asked.name, &denial))?;
        let slot = Arc::clone(permit.slot());
        let mut call = prepare(shared, asked, &slot)?;
        let Some(_place) = shared.limits.tool(&slot.id.tool).await else {
            let tool = format!("`{}`", slot.id.tool);
            let refusal = Refusal::busy(&tool, count(config.calls_per_tool), "gateway.calls_per_tool");
            return Err(Stop::Refused(Arc::new(refusal), Some(slot)));
        };
        call.progress = progress.clone();
        call.deadline = end.saturating_duration_since(Instant::now());
        call.repeated = repeated;
        let hash = permit.hash();
        let outcome = shared.upstream.call(&slot, call, gate(shared, permit)).await;
        match outcome {
            Ok(RawResult(result)) => {
                let marked = mark::result(&asked.id, &result, &slot, hash, asked.era);
                return marked.ok_or_else(|| failed(&slot, "read its answer: the result is no object", true));
            }
            Err(CallError::Refused(denial)) => {
                admissions += 1;
                if denial.wait.is_none() || admissions >= ADMISSIONS {
                    return Err(Stop::Refused(denial.refusal, Some(slot)));
                }
            }
            Err(CallError::Failed(tools::Error::SessionLost { .. })) if !repeated => {
                repeated = true;
                admit::relist(shared, &asked.name).await;
            }
            Err(CallError::Failed(error)) => return Err(fault(shared, slot, &error)),
        }
    }
}

/// The permit, made again in the newest table when the request is about to go.
fn gate(shared: &Arc<Shared>, permit: Permit) -> BeforeWrite {
    let upstream = Arc::clone(&shared.upstream);
    Arc::new(move || upstream.table().still(&permit, upstream.now_ms()))
}

/// The call of a function, once its arguments fit the approved schema.
fn prepare(shared: &Shared, asked: &Asked, slot: &Arc<Slot>) -> Result<Call, Stop> {
    let mut call = Call::new(&slot.id.function, asked.arguments.clone());
    call.meta.clone_from(&asked.meta);
    // A function whose text is not here yet is approved by its hash; there is no schema to go by.
    let Some(listing) = &slot.listing else { return Ok(call) };
    let schema = shared.schemas.of(listing, &shared.upstream.table());
    if let Err(fault) = schema.check(asked.arguments.as_deref()) {
        let refusal = Refusal::bad_arguments(&slot.id, &fault.place, &fault.expected);
        return Err(Stop::Refused(Arc::new(refusal), Some(Arc::clone(slot))));
    }
    call.header_params.clone_from(&schema.header_params);
    let real_texts = shared.upstream.real_texts(slot);
    if let (false, Some(arguments)) = (real_texts.is_empty(), &asked.arguments) {
        let real = arguments::put_back(arguments, &real_texts);
        call.arguments = RawValue::from_string(real).ok().or(call.arguments);
    }
    Ok(call)
}

fn stop(shared: &Shared, name: &str, denial: &Denial) -> Stop {
    let slot = shared.upstream.table().slot(name).cloned();
    Stop::Refused(Arc::clone(&denial.refusal), slot)
}

/// What went wrong at the tool: with the code of a refusal where one says the same.
fn fault(shared: &Shared, slot: Arc<Slot>, error: &tools::Error) -> Stop {
    let code = match error {
        tools::Error::Rpc(error) => return Stop::Error(error.raw.clone()),
        tools::Error::TimedOut { .. } => {
            let limit_ms = u64::try_from(shared.config.call_deadline.as_millis()).unwrap_or(u64::MAX);
            let refusal = Refusal::timed_out(&slot.id, limit_ms, "gateway.call_deadline");
            return Stop::Refused(Arc::new(refusal), Some(slot));
        }
        tools::Error::Stopped => Code::NotRunning,
        tools::Error::Unreachable { sent: false, .. } => Code::Unreachable,
        tools::Error::Address { .. } => Code::Address,
        tools::Error::Redirected { .. } => Code::Redirected,
        tools::Error::Unauthorized { .. } => Code::SecretUnavailable,
        _ => return failed(&slot, &crate::sentence(error), error.may_have_run()),
    };
    let sentence = format!("`{}` was not called: failed to {}.", slot.id, crate::sentence(error));
    Stop::Refused(Arc::new(Refusal::new(code, sentence)), Some(slot))
}

fn failed(slot: &Arc<Slot>, reason: &str, may_have_run: bool) -> Stop {
    let known =
        if may_have_run { " Whether it had done its work is not known." } else { " Nothing was done." };
    let sentence = format!("`{}` gave no result: failed to {reason}.{known}", slot.id);
    Stop::Failed { sentence, may_have_run, slot: Arc::clone(slot) }
}

fn count(limit: usize) -> u64 {
    u64::try_from(limit).unwrap_or(u64::MAX)
}
