//! One call at its tool: permit, arguments, room, the request, and again where that is allowed.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use domain::breaker::{Open, Rules};
use domain::digest::ListingHash;
use domain::guard::{Denial, Permit, Slot};
use domain::refusal::{Code, Refusal};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tools::{Call, CallError, Listener, RawResult};

use super::breaker::{Breaker, Clock, Entered, Verdict};
use super::call::Asked;
use super::protocol::{Era, URL_REQUIRED};
use super::rounds::{self, Round};
use super::talk::Ear;
use super::upstream::{BeforeWrite, CallLimits};
use super::{Config, Shared, admit};
use crate::arguments;

/// How often a permit that was taken back at the moment of writing is asked for anew: a listing in
/// between explains one, a tool that lists all the time is `relisting`.
const ADMISSIONS: usize = 3;

/// Before a call that did not get through to its endpoint is tried once more: a connection that was closed
/// just then, or a server that is being started again.
const AGAIN: Duration = Duration::from_millis(250);

/// A tool's result, and by which listing it was called.
pub(super) struct Done {
    pub(super) result: Box<RawValue>,
    pub(super) slot: Arc<Slot>,
    pub(super) hash: ListingHash,
}

/// Why a call has no result of its tool.
pub(super) enum Stop {
    Refused(Arc<Refusal>, Option<Arc<Slot>>),
    Failed {
        sentence: String,
        may_have_run: bool,
        slot: Arc<Slot>,
    },
    /// The tool's own error object.
    Error(Box<RawValue>),
    /// It asks an agent of 2026-07-28 first.
    Input(Done),
    /// What the agent sent back is of no use.
    Invalid(String),
}

/// Who makes a call, besides what was asked.
pub(super) struct From {
    /// Who hears the tool, where the agent can.
    pub(super) ear: Option<Arc<Ear>>,
    /// Answers to what the tool asked before.
    pub(super) round: Round,
}

impl From {
    fn put_into(&self, call: &mut Call) {
        call.listener = self.ear.clone().map(|ear| ear as Arc<dyn Listener>);
        call.responses.clone_from(&self.round.responses);
        call.state.clone_from(&self.round.state);
    }

    /// Whether the tool asked the agent for something so far.
    fn was_asked(&self) -> bool {
        self.ear.as_ref().is_some_and(|ear| ear.was_asked())
    }
}

/// Calls the function, as often as it takes.
///
/// # Errors
/// Why there is no result.
pub(super) async fn attempt(shared: &Arc<Shared>, asked: &Asked, mut from: From) -> Result<Done, Stop> {
    let config = &shared.config;
    let Some(_room) = shared.limits.call() else {
        let refusal = Refusal::busy("This node", count(config.calls), "gateway.calls");
        return Err(Stop::Refused(Arc::new(refusal), None));
    };
    let begun = Instant::now();
    let mut repeated = false;
    let mut admissions = 0;
    let mut count_of_rounds = 0;
    let clock = || shared.upstream.now_ms();
    loop {
        let permit = admit::admit(shared, &asked.name).await;
        let permit = permit.map_err(|denial| stop(shared, &asked.name, &denial))?;
        let slot = Arc::clone(permit.slot());
        let mut call = prepare(shared, asked, &slot)?;
        let terms = shared.upstream.terms(&slot);
        let bounds = Bounds::of(shared, &slot, terms.limits);
        let (entered, _place) = enter(shared, &slot, &bounds, &terms.breaker, &clock).await?;
        from.put_into(&mut call);
        call.progress = asked.agent.token.is_some();
        call.deadline = bounds.deadline.0.saturating_sub(begun.elapsed());
        call.repeated = repeated;
        let hash = permit.hash();
        if let Some(ear) = &from.ear {
            ear.note((Arc::clone(&slot), hash));
        }
        let outcome = shared.upstream.call(&slot, call, gate(shared, permit)).await;
        let is_again = !repeated && is_worth_repeating(&outcome);
        // Who is tried once more tells then how it ended.
        let verdict = if is_again { Verdict::Neither } else { Verdict::of(&outcome, from.was_asked()) };
        entered.ended(verdict, rules(config));
        match outcome {
            Ok(RawResult(result)) => return Ok(Done { result, slot, hash }),
            Err(CallError::Failed(tools::Error::InputRequired(result))) => {
                let done = Done { result, slot, hash };
                if asked.era == Era::Modern {
                    return Err(Stop::Input(done));
                }
                count_of_rounds += 1;
                from.round = next_round(shared, &from, done, count_of_rounds).await?;
                admissions = 0;
            }
            Err(CallError::Refused(denial)) => {
                admissions += 1;
                if denial.wait.is_none() || admissions >= ADMISSIONS {
                    return Err(Stop::Refused(denial.refusal, Some(slot)));
                }
            }
            Err(CallError::Failed(error)) if is_again => {
                repeated = true;
                match error {
                    tools::Error::SessionLost { .. } | tools::Error::Reopen(_) => {
                        admit::relist(shared, &asked.name).await;
                    }
                    tools::Error::Unreachable { .. } => tokio::time::sleep(AGAIN).await,
                    // What became of the tool is in the table, which is asked again.
                    _ => {}
                }
            }
            Err(CallError::Failed(tools::Error::Rpc(error)))
                if asked.era == Era::Modern && error.code == URL_REQUIRED =>
            {
                return Err(match rounds::of_urls(&error.raw) {
                    Some(result) => Stop::Input(Done { result, slot, hash }),
                    None => Stop::Error(error.raw),
                });
            }
            Err(CallError::Failed(error)) => return Err(fault(slot, &error, &bounds)),
        }
    }
}

/// A place at the tool, unless its calls are held back.
async fn enter<'b>(
    shared: &Shared,
    slot: &Arc<Slot>,
    bounds: &Bounds,
    breaker: &'b Breaker,
    clock: &'b Clock<'b>,
) -> Result<(Entered<'b>, OwnedSemaphorePermit), Stop> {
    let (tool, config) = (&slot.id.tool, &shared.config);
    let held_back = |open: Open| {
        // Named as in "setting `gateway.breaker_failures`" and "setting `gateway.breaker_wait`".
        let settings = ["gateway.breaker_failures", "gateway.breaker_wait"];
        let refusal = Refusal::held_back(tool, &open, config.breaker_failures, settings);
        Stop::Refused(Arc::new(refusal), Some(Arc::clone(slot)))
    };
    let entered = breaker.enter(clock).map_err(held_back)?;
    let (calls, setting) = &bounds.calls;
    let Some(place) = shared.limits.tool(tool, *calls).await else {
        let refusal = Refusal::busy(&format!("`{tool}`"), count(*calls), setting);
        return Err(Stop::Refused(Arc::new(refusal), Some(Arc::clone(slot))));
    };
    // It may have waited for the place.
    entered.still().map_err(held_back)?;
    Ok((entered, place))
}

fn rules(config: &Config) -> Rules {
    let wait_ms = u64::try_from(config.breaker_wait.as_millis()).unwrap_or(u64::MAX);
    Rules { failures: config.breaker_failures, wait_ms }
}

/// What an agent of the handshake revisions answers to what the tool asks first.
async fn next_round(shared: &Shared, from: &From, done: Done, rounds: u32) -> Result<Round, Stop> {
    if rounds > shared.config.rounds {
        return Err(too_many_rounds(shared, &done.slot));
    }
    rounds::ask_on_stream(from.ear.as_ref(), &done.result).await.map_err(|reason| {
        let sentence = format!("`{}` gave no result: it asked for more first, and {reason}.", done.slot.id);
        Stop::Failed { sentence, may_have_run: true, slot: done.slot }
    })
}

/// A tool that asks on and on.
pub(super) fn too_many_rounds(shared: &Shared, slot: &Arc<Slot>) -> Stop {
    let sentence = format!(
        "`{}` gave no result: it asked for more input {} times, which is the limit (setting `gateway.rounds`).",
        slot.id, shared.config.rounds
    );
    Stop::Failed { sentence, may_have_run: true, slot: Arc::clone(slot) }
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
    call.others.clone_from(&asked.others);
    call.reason.clone_from(&asked.reason);
    call.capabilities = asked.agent.capabilities.raw();
    call.log_level = asked.agent.log_level;
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

/// A denial, with whose function it is about.
pub(super) fn stop(shared: &Shared, name: &str, denial: &Denial) -> Stop {
    let slot = shared.upstream.table().slot(name).cloned();
    Stop::Refused(Arc::clone(&denial.refusal), slot)
}

/// Limits of one tool's calls, the smaller of the node's and the manifest's, each with the setting's name.
struct Bounds {
    calls: (usize, Cow<'static, str>),
    deadline: (Duration, Cow<'static, str>),
}

impl Bounds {
    fn of(shared: &Shared, slot: &Slot, own: CallLimits) -> Self {
        let named = |what: &str| Cow::Owned(format!("limits.{}.{what}", slot.id.tool));
        let (calls, deadline) = (shared.config.calls_per_tool, shared.config.call_deadline);
        Self {
            calls: match own.calls.filter(|own| *own < calls) {
                Some(own) => (own, named("calls")),
                None => (calls, "gateway.calls_per_tool".into()),
            },
            deadline: match own.deadline.filter(|own| *own < deadline) {
                Some(own) => (own, named("deadline")),
                None => (deadline, "gateway.call_deadline".into()),
            },
        }
    }
}

/// Whether a call surely was not sent, for a reason that may be over at once. Nothing else is repeated.
fn is_worth_repeating<R>(outcome: &Result<RawResult, CallError<R>>) -> bool {
    let Err(CallError::Failed(error)) = outcome else { return false };
    let may_pass = matches!(
        error,
        tools::Error::SessionLost { .. }
            | tools::Error::Reopen(_)
            | tools::Error::Gone { .. }
            | tools::Error::Stopped { .. }
            | tools::Error::Unreachable { .. }
    );
    may_pass && !error.may_have_run()
}

/// What went wrong at the tool: with the code of a refusal where one says the same.
fn fault(slot: Arc<Slot>, error: &tools::Error, bounds: &Bounds) -> Stop {
    let code = match error {
        tools::Error::Rpc(error) => return Stop::Error(error.raw.clone()),
        tools::Error::TimedOut { sent, .. } => {
            let (limit, setting) = &bounds.deadline;
            let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            let refusal = if *sent { Refusal::timed_out } else { Refusal::not_taken };
            let refusal = refusal(&slot.id, limit_ms, setting);
            return Stop::Refused(Arc::new(refusal), Some(slot));
        }
        tools::Error::TooLong { .. } => {
            let reason = format!("{} (setting `tools.message_bytes`)", crate::sentence(error));
            return failed(&slot, &reason, true);
        }
        tools::Error::Stopped { sent: false } | tools::Error::Gone { sent: false, .. } => Code::NotRunning,
        tools::Error::Unreachable { sent: false, .. } => Code::Unreachable,
        tools::Error::Address { .. } => Code::Address,
        tools::Error::Redirected { .. } => Code::Redirected,
        tools::Error::Unauthorized { .. } => Code::SecretUnavailable,
        _ => return failed(&slot, &crate::sentence(error), error.may_have_run()),
    };
    let sentence = format!("`{}` was not called: failed to {}.", slot.id, crate::sentence(error));
    Stop::Refused(Arc::new(Refusal::new(code, sentence)), Some(slot))
}

/// A call that came to no result.
pub(super) fn failed(slot: &Arc<Slot>, reason: &str, may_have_run: bool) -> Stop {
    let known =
        if may_have_run { " Whether it had done its work is not known." } else { " Nothing was done." };
    let sentence = format!("`{}` gave no result: failed to {reason}.{known}", slot.id);
    Stop::Failed { sentence, may_have_run, slot: Arc::clone(slot) }
}

fn count(limit: usize) -> u64 {
    u64::try_from(limit).unwrap_or(u64::MAX)
}
