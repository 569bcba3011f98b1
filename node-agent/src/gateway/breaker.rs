//! The breaker of one tool: what its calls ask before they go, and tell when they end. Calls of a tool that
//! answers touch two atomics and nothing else; [`domain::breaker`] decides the rest, behind a lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::breaker::{self, Failure, Open, Pass, Rules};
use tools::{CallError, Error, RawResult};

/// The breaker of a running tool; a tool that is started gets a new one.
#[derive(Debug)]
pub struct Breaker {
    /// Copies of what the state says, written where it changes.
    calm: AtomicBool,
    counted: AtomicU64,
    state: Mutex<breaker::Breaker>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { calm: AtomicBool::new(true), counted: AtomicU64::new(0), state: Mutex::default() }
    }
}

/// Milliseconds of the node's monotonic clock.
pub(super) type Clock<'b> = dyn Fn() -> u64 + Sync + 'b;

impl Breaker {
    /// Lets a call through, or says why not.
    ///
    /// # Errors
    /// Calls are held back.
    pub(super) fn enter<'b>(&'b self, clock: &'b Clock<'b>) -> Result<Entered<'b>, Open> {
        let pass = if self.is_calm() {
            breaker::Breaker::pass(self.counted.load(Ordering::Acquire))
        } else {
            self.change(|state| state.admit(clock()))?
        };
        Ok(Entered { breaker: self, clock, pass, is_told: false })
    }

    /// The tool was listed completely.
    pub(crate) fn listed(&self) {
        if !self.is_calm() {
            self.change(breaker::Breaker::listed);
        }
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Acquire)
    }

    fn change<T>(&self, change: impl FnOnce(&mut breaker::Breaker) -> T) -> T {
        let mut state = self.lock();
        let outcome = change(&mut state);
        self.counted.store(state.counted(), Ordering::Release);
        self.calm.store(state.is_calm(), Ordering::Release);
        outcome
    }

    /// Each change is one call of the state's, so that a writer that panicked left nothing half done.
    fn lock(&self) -> MutexGuard<'_, breaker::Breaker> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was let through. Dropped without [`Entered::ended`], it was given up.
pub(super) struct Entered<'b> {
    breaker: &'b Breaker,
    clock: &'b Clock<'b>,
    pass: Pass,
    is_told: bool,
}

impl Entered<'_> {
    /// Whether it may still go, after a wait.
    ///
    /// # Errors
    /// Calls are held back since.
    pub(super) fn still(&self) -> Result<(), Open> {
        if self.breaker.is_calm() {
            return Ok(());
        }
        self.breaker.lock().still(self.pass, (self.clock)())
    }

    /// Tells how it ended.
    pub(super) fn ended(mut self, verdict: Verdict, rules: Rules) {
        match verdict {
            Verdict::Answered if self.breaker.is_calm() => {}
            Verdict::Answered => self.breaker.change(breaker::Breaker::answered),
            Verdict::Failed(failure) => {
                let (now_ms, wall) = ((self.clock)(), crate::now());
                self.breaker.change(|state| state.failed(rules, self.pass, &failure, now_ms, wall));
            }
            Verdict::Neither => return,
        }
        self.is_told = true;
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if !self.is_told && !self.breaker.is_calm() {
            self.breaker.change(|state| state.given_up(self.pass, (self.clock)()));
        }
    }
}

/// What the end of a call says about its tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It answered, be it with an error of its own.
    Answered,
    /// It, or the way to it, failed.
    Failed(Failure),
    /// Nothing: the call was cancelled, refused on our side, or did not get as far.
    Neither,
}

impl Verdict {
    /// `asked` is whether the tool asked the agent for something meanwhile: then it may be the agent that did
    /// not answer in time.
    pub(super) fn of<R>(outcome: &Result<RawResult, CallError<R>>, asked: bool) -> Self {
        let error = match outcome {
            Ok(_) => return Self::Answered,
            Err(CallError::Refused(_)) => return Self::Neither,
            Err(CallError::Failed(error)) => error,
        };
        let is_shared = match error {
            Error::TimedOut { sent: true, .. } if !asked => false,
            // By its status, what stands before a tool says that the tool is gone.
            Error::Gone { .. }
            | Error::Unreachable { .. }
            | Error::StreamEnded { .. }
            | Error::Status { status: 500..=599, .. } => true,
            Error::TimedOut { .. }
            | Error::Stopped { .. }
            | Error::Cancelled
            | Error::SessionLost { .. }
            | Error::Reopen(_)
            | Error::Endpoint { .. }
            | Error::Address { .. } => return Self::Neither,
            _ => return Self::Answered,
        };
        Self::Failed(Failure { reason: crate::sentence(error).into(), is_shared })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RULES: Rules = Rules { failures: 2, wait_ms: 1_000 };

    fn verdict(error: Error, asked: bool) -> Verdict {
        Verdict::of::<()>(&Err(CallError::Failed(error)), asked)
    }

    fn gone() -> Error {
        Error::Gone { status: "ended".into(), stderr: "".into(), sent: true }
    }

    #[test]
    fn what_the_tool_or_the_way_to_it_did_not_answer_is_a_failure_and_what_it_answers_is_none() {
        let status = |status| Error::Status {
            url: "http://a.example/".into(),
            status,
            body: "".into(),
            retry_after: None,
            rpc: None,
        };
        let unreachable = |sent| Error::Unreachable { origin: "".into(), reason: "".into(), sent };
        let late = |sent| Error::TimedOut { after: Duration::from_secs(1), sent };
        for error in [late(true), gone(), unreachable(true), unreachable(false), status(502)] {
            assert!(matches!(verdict(error.clone(), false), Verdict::Failed(_)), "{error}");
        }
        assert!(matches!(verdict(late(true), false), Verdict::Failed(failure) if !failure.is_shared));
        for error in [Error::Cancelled, Error::Stopped { sent: true }, late(false)] {
            assert_eq!(verdict(error.clone(), false), Verdict::Neither, "{error}");
        }
        assert_eq!(verdict(late(true), true), Verdict::Neither, "it may be the agent that is late");
        assert!(matches!(verdict(gone(), true), Verdict::Failed(_)));
        for error in [status(404), status(429), Error::TooDeep { depth: 200, limit: 120 }] {
            assert_eq!(verdict(error.clone(), false), Verdict::Answered, "{error}");
        }
        assert_eq!(Verdict::of(&Err(CallError::Refused(())), false), Verdict::Neither);
    }

    #[test]
    fn a_call_that_is_given_up_lets_the_next_one_through() {
        let breaker = Breaker::default();
        let now = AtomicU64::new(0);
        let clock = || now.load(Ordering::Relaxed);
        for _ in 0..2 {
            breaker.enter(&clock).unwrap().ended(verdict(gone(), false), RULES);
        }
        now.store(999, Ordering::Relaxed);
        assert!(breaker.enter(&clock).is_err());
        now.store(1_000, Ordering::Relaxed);
        let probe = breaker.enter(&clock).unwrap();
        assert!(breaker.enter(&clock).is_err() && probe.still().is_ok());
        drop(probe);
        breaker.enter(&clock).unwrap().ended(Verdict::Neither, RULES);
        breaker.enter(&clock).unwrap().ended(Verdict::Answered, RULES);
        assert!(breaker.is_calm() && breaker.enter(&clock).is_ok());
    }

    #[test]
    fn a_call_that_waited_while_others_failed_does_not_go() {
        let breaker = Breaker::default();
        let waiting = breaker.enter(&|| 0).unwrap();
        for _ in 0..2 {
            breaker.enter(&|| 0).unwrap().ended(verdict(gone(), false), RULES);
        }
        assert!(waiting.still().is_err());
        breaker.listed();
        assert!(waiting.still().is_ok());
    }
}
