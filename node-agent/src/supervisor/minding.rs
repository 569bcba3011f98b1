//! What is made of a tool's starts, lists and ends, and when the next is due. Nothing here awaits or
//! touches a process: the [`keeper`](super::keeper) does, and the simulation.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::guard::view::RunState;
use domain::origin::RedirectFault;
use domain::plugin_set::Kind;
use domain::reconcile::jittered_ms;
use domain::refusal::{Code, Refusal};
use tools::{EndpointFault, Error, RawList, StartError};

use super::judged::Newest;
use super::spec::Bundle;
use super::{Key, Supervisor};
use crate::guard::RealTexts;

/// The first delay before a tool is started or listed again after a failure.
const AGAIN_FIRST_MS: u64 = 500;

/// The longest such delay: a fault that ended is noticed within 30 s (30-nodes, L1).
const AGAIN_MOST_MS: u64 = 20_000;

/// A tool that ran for so long starts its next failures' delays anew.
const STEADY_MS: u64 = 60_000;

/// The longest interval that a server's `ttlMs` makes (20-listings, 4).
const TTL_MOST: Duration = Duration::from_hours(1);

/// One tool that is kept.
pub(crate) struct Minding {
    pub(crate) sup: Arc<Supervisor>,
    pub(crate) bundle: Bundle,
    pub(crate) key: Key,
    /// Which start of it this is.
    pub(crate) instance: u64,
    begun_ms: u64,
    failures: u32,
    list_failures: u32,
    /// The list that was asked for last: when, after how many notices, and whether because the one before
    /// it was empty.
    asked: (u64, u64),
    is_repeated: bool,
    newest: Newest,
}

/// A start that failed.
#[derive(Debug)]
pub(crate) struct NotStarted {
    reason: Arc<str>,
    run: RunState,
    /// How long its server wants not to be asked.
    after: Option<Duration>,
}

/// What follows on a list that ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterList {
    /// It was empty, which counts only when it is so twice: ask again at once.
    Repeat,
    /// Ask again when so much time has passed, or for a reason.
    Wait(Duration),
}

impl Minding {
    pub(crate) fn new(sup: Arc<Supervisor>, bundle: Bundle, key: Key) -> Self {
        Self {
            sup,
            bundle,
            key,
            instance: 0,
            begun_ms: 0,
            failures: 0,
            list_failures: 0,
            asked: (0, 0),
            is_repeated: false,
            newest: Newest::default(),
        }
    }

    /// A start begins: nothing of it is called before it was listed.
    pub(crate) fn begin(&mut self) {
        self.begun_ms = self.sup.runtime.now_ms();
        self.list_failures = 0;
        self.is_repeated = false;
        self.instance = self.sup.starting(&self.key);
    }

    /// It is up and will be listed.
    pub(crate) fn up(&self, confined: Option<tools::Confined>) {
        self.sup.up(&self.key, confined);
    }

    /// It is asked for its list now.
    pub(crate) fn ask(&mut self) {
        self.asked = (self.sup.runtime.now_ms(), self.sup.notices(&self.key));
    }

    /// The list ended so. `place` is the class of the address it is reached at and the connection it is reached with,
    /// each empty if there is none.
    pub(crate) fn answered(
        &mut self,
        outcome: Result<RawList, Error>,
        place: (&str, &str),
        real_texts: &ArcSwap<RealTexts>,
        random: u32,
    ) -> AfterList {
        let is_empty = matches!(&outcome, Ok(raw) if raw.list.entries.is_empty());
        if is_empty && !std::mem::replace(&mut self.is_repeated, true) {
            return AfterList::Repeat;
        }
        self.is_repeated = false;
        AfterList::Wait(match outcome {
            Ok(raw) => {
                let broken = raw.broken.as_ref().map(|error| crate::sentence(error).into());
                let ignored = self.bundle.ignored(&self.key.1);
                let judged = self.newest.judge(&raw.list, broken, &ignored, place);
                let whole = judged.complete;
                // Before any call that this list allows.
                real_texts.store(judged.real_texts());
                self.sup.listed(&self.key, self.instance, self.asked, judged);
                self.list_failures = if whole { 0 } else { self.list_failures + 1 };
                if whole { self.interval(raw.ttl, random) } else { again_after(self.list_failures, random) }
            }
            Err(error) => {
                self.list_failures += 1;
                let reason = crate::sentence(&error);
                tracing::warn!(plugin.version = %self.key.0, tool.id = %self.key.1, reason = %reason, "a tool cannot be listed");
                self.sup.not_listed(&self.key, self.instance, &reason, self.whole_tool(&error));
                wanted(&error).unwrap_or_default().max(again_after(self.list_failures, random))
            }
        })
    }

    /// It is started from something else now: at once, and with no failures.
    pub(crate) const fn changed(&mut self) {
        self.failures = 0;
    }

    /// It ended by itself. Says when to start it again.
    pub(crate) fn ended(&mut self, reason: &Arc<str>, random: u32) -> Duration {
        let run = RunState::NotRunning { since: self.sup.runtime.wall(), reason: Arc::clone(reason) };
        tracing::warn!(plugin.version = %self.key.0, tool.id = %self.key.1, reason = %reason, "a tool ended");
        self.failed(reason, run, random)
    }

    /// It does not start. Says when to try again.
    pub(crate) fn not_started(&mut self, why: NotStarted, random: u32) -> Duration {
        let NotStarted { reason, run, after } = why;
        tracing::warn!(plugin.version = %self.key.0, tool.id = %self.key.1, reason = %reason, "a tool does not start");
        self.failed(&reason, run, random).max(after.unwrap_or_default())
    }

    fn failed(&mut self, reason: &str, run: RunState, random: u32) -> Duration {
        self.sup.down(&self.key, self.instance, run, reason);
        let ran_ms = self.sup.runtime.now_ms().saturating_sub(self.begun_ms);
        self.failures = if ran_ms >= STEADY_MS { 1 } else { self.failures + 1 };
        again_after(self.failures, random)
    }

    /// What it means that it cannot be started from what the manifest says.
    pub(crate) fn no_spec(&self, reason: &str) -> NotStarted {
        let reason: Arc<str> = reason.into();
        let run = RunState::NotRunning { since: self.sup.since(&self.key), reason: Arc::clone(&reason) };
        NotStarted { reason, run, after: None }
    }

    /// What it means that there is nothing to reach it with.
    pub(crate) fn no_credentials(&self, reason: &str) -> NotStarted {
        let sentence = format!("{} of {} was not called: {reason}.", self.key.1, self.key.0);
        let run = RunState::Refused(Refusal::new(Code::SecretUnavailable, sentence));
        NotStarted { reason: reason.into(), run, after: None }
    }

    /// What an error at its start means.
    pub(crate) fn start_error(&self, error: &StartError) -> NotStarted {
        let reason = crate::sentence(error);
        if self.kind() != Kind::Url {
            return self.no_spec(&reason);
        }
        let reason: Arc<str> = reason.into();
        let (whole, after) = match error {
            StartError::Opening(error) => (self.whole_tool(error), wanted(error)),
            _ => (None, None),
        };
        let since = self.sup.since(&self.key);
        let run = whole.unwrap_or_else(|| RunState::Unreachable { since, reason: Arc::clone(&reason) });
        NotStarted { reason, run, after }
    }

    fn interval(&self, ttl: Option<Duration>, random: u32) -> Duration {
        let kind = self.kind();
        let policy = Duration::from_millis(self.sup.guard.read(|view| view.policy.listing_interval_ms(kind)));
        let interval = ttl.map_or(policy, |ttl| ttl.min(TTL_MOST).max(policy));
        let spread = f64::from(random) / f64::from(u32::MAX);
        if kind == Kind::Url { interval.mul_f64(0.8 + 0.4 * spread) } else { interval }
    }

    fn kind(&self) -> Kind {
        let mut tools = self.bundle.tools();
        tools.find(|(id, ..)| **id == self.key.1).map_or(Kind::Command, |(_, kind, _)| kind)
    }

    /// What an error means for every function of the tool.
    fn whole_tool(&self, error: &Error) -> Option<RunState> {
        let tool = &self.key.1;
        let refusal = match error {
            Error::Address { host, address, fault } => {
                Refusal::address(tool, host, &address.to_string(), &fault.to_string())
            }
            Error::Redirected(fault) => match &**fault {
                RedirectFault::OtherOrigin { from, to } => {
                    Refusal::redirected(tool, &from.to_string(), &to.to_string())
                }
                other => Refusal::new(Code::Redirected, format!("{tool} was not called: {other}.")),
            },
            Error::Endpoint { fault: EndpointFault::OtherOrigin { origin, wanted }, .. } => {
                Refusal::redirected(tool, wanted, origin)
            }
            Error::Unauthorized { status, .. } => {
                let version = &self.key.0;
                let sentence = format!(
                    "{tool} of {version} was not called: its server answers {status}, so it wants other credentials than \
                     those it was shown. Ask an operator to look at its connection: pintle connection list"
                );
                Refusal::new(Code::SecretUnavailable, sentence)
            }
            _ => return None,
        };
        Some(RunState::Refused(refusal))
    }
}

/// How its process ended, for people.
pub(crate) fn exit_reason(status: &str, stderr: &str) -> Arc<str> {
    let tail = if stderr.is_empty() { String::new() } else { format!("; its last words: {stderr}") };
    format!("its process {status}{tail}").into()
}

/// How long a server wants not to be asked (`Retry-After`).
fn wanted(error: &Error) -> Option<Duration> {
    match error {
        Error::Status { retry_after: Some(after), .. } => Some((*after).min(TTL_MOST)),
        _ => None,
    }
}

fn again_after(failures: u32, random: u32) -> Duration {
    // At least half of the first delay: a server that fails at once is not asked at once.
    Duration::from_millis(AGAIN_FIRST_MS / 2 + jittered_ms(AGAIN_FIRST_MS, AGAIN_MOST_MS, failures, random))
}
