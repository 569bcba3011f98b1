//! The task that keeps one tool: start, list, list again when there is a reason, start again. What is
//! made of each is [`minding`](super::minding)'s.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::guard::view::RunState;
use domain::origin::{AddressClass, ClassPolicy, Origin, class_of_address};
use domain::plugin_set::{OriginTrust, PlannedConnection};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::{Error, Headers, Opening, StartError, Tool, ToolEvent, ToolSpec};

use super::Supervisor;
use super::minding::{AfterList, Minding, NotStarted, exit_reason};
use super::opening::Memory;
use super::pace::Pace;
use crate::credentials::Wanted;
use crate::gateway::{Breaker, Terms};
use crate::guard::{Lists, RealTexts, Relist, Running};

/// How long calls under way may take to end before their tool is stopped.
const DRAIN: Duration = Duration::from_secs(30);

/// Between two fetches of what a tool is reached with.
const RENEW_LEAST: Duration = Duration::from_secs(5);

/// How often it is looked whether they have.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

pub(super) struct Keeping {
    pub(super) minding: Minding,
    pub(super) stop: CancellationToken,
    /// How it is opened next.
    pub(super) opening: Opening,
    /// How it was best opened the last time.
    pub(super) memory: Memory,
    /// Names what its server did not take of it when it was opened; empty if it took that.
    pub(super) refused: String,
}

/// A tool that is up.
struct Up {
    tool: Arc<Tool>,
    /// How its process ended.
    exited: watch::Receiver<Option<Arc<str>>>,
    requests: watch::Receiver<u64>,
    lists: watch::Sender<Lists>,
    real_texts: Arc<ArcSwap<RealTexts>>,
    breaker: Arc<Breaker>,
    /// What its server is shown of a connection.
    shown: Option<Shown>,
}

/// What a tool's server is shown.
struct Shown {
    headers: Headers,
    /// As the plan calls it.
    connection: Arc<str>,
    /// Of the connection.
    version: u64,
    /// Where its server is.
    origin: String,
    /// Names what it was given.
    name: String,
    /// When it ends.
    until: Option<Instant>,
}

/// What a remote tool is started from that can change without another version of it.
#[derive(PartialEq)]
struct Basis {
    /// Which addresses it may be at.
    addresses: (Option<AddressClass>, ClassPolicy),
    connection: Option<PlannedConnection>,
    /// Whether its endpoint waits for a person: nothing of the connection is shown there before that.
    waits: bool,
}

/// Why a tool that was up is not any more.
enum End {
    Stopped,
    Exited(Arc<str>),
    /// What it is started from changed.
    Changed,
    /// It may speak another revision by now.
    Other,
}

impl Keeping {
    pub(super) async fn keep(mut self) {
        let stop = self.stop.clone();
        // Before it is looked at what it is started from: nothing that changes after that is missed.
        let mut changed = self.sup().changed.subscribe();
        loop {
            self.minding.begin();
            let basis = self.basis();
            let started = tokio::select! {
                () = stop.cancelled() => return,
                started = self.start(basis.as_ref()) => started,
            };
            // Asked anew after a failure: what does not start any more may have been replaced.
            self.opening = started.as_ref().map_or(Opening::Probe, |up| up.tool.opening());
            self.memory.note(self.opening).await;
            let delay = match started {
                Ok(mut up) => match self.run(&mut up, basis.as_ref(), &mut changed).await {
                    End::Stopped => return,
                    End::Other => {
                        self.opening = Opening::Probe;
                        continue;
                    }
                    End::Changed => {
                        self.minding.changed();
                        continue;
                    }
                    End::Exited(reason) => self.minding.ended(&reason, rand::random()),
                },
                Err(why) => self.minding.not_started(why, rand::random()),
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
                () = self.other(basis.as_ref(), &mut changed) => self.minding.changed(),
            }
        }
    }

    /// Waits until it would be started from something else.
    async fn other(&self, basis: Option<&Basis>, changed: &mut watch::Receiver<u64>) {
        while changed.changed().await.is_ok() {
            if self.basis().as_ref() != basis {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    fn sup(&self) -> &Arc<Supervisor> {
        &self.minding.sup
    }

    /// `None` of a command, which another version alone changes.
    fn basis(&self) -> Option<Basis> {
        let Minding { sup, bundle, key, .. } = &self.minding;
        if !bundle.is_remote(&key.1) {
            return None;
        }
        let connection =
            bundle.connection(&key.1).and_then(|name| sup.settings.credentials.planned(key, name));
        Some(sup.guard.read(|view| {
            let rule = bundle.addresses(&key.1, &sup.settings, &view.trust, &view.policy);
            let tool = view.trust.versions.get(&key.0).and_then(|version| version.tools.get(&key.1));
            let origin = tool.and_then(|tool| tool.origin.as_ref());
            // Without a connection nothing depends on it but calls, which the guard decides.
            let waits = connection.is_some()
                && !matches!(origin, Some(OriginTrust::Pinned { .. } | OriginTrust::Connection));
            Basis { addresses: (rule.pinned, rule.policy), connection, waits }
        }))
    }

    async fn start(&mut self, basis: Option<&Basis>) -> Result<Up, NotStarted> {
        let (relist, requests, lists) = Relist::new();
        let (exit, exited) = watch::channel(None);
        let Minding { sup, bundle, key, instance, .. } = &self.minding;
        let (trust, policy) = sup.guard.read(|view| (Arc::clone(&view.trust), view.policy.clone()));
        let connection = basis.and_then(|basis| basis.connection.as_ref());
        if bundle.connection(&key.1).is_some() {
            let problem = match connection {
                Some(planned) => planned.problem.as_deref(),
                None => Some("its connection is not in the plan yet"),
            };
            if let Some(problem) = problem {
                return Err(self.minding.no_credentials(problem));
            }
        }
        let spec = bundle.spec(&key.1, (&sup.settings, connection), &trust, &policy);
        let mut spec = spec.map_err(|reason| self.minding.no_spec(&reason))?;
        spec.open_by(self.opening);
        // What was refused is said once: if the same is given again, it is told so the next time.
        let refused = std::mem::take(&mut self.refused);
        let shown = self.shown(&mut spec, basis, &refused).await?;
        let events = {
            let (sup, key, relist, instance) = (Arc::clone(sup), key.clone(), relist.clone(), *instance);
            Arc::new(move |event| match event {
                ToolEvent::ListChanged | ToolEvent::Reconnected => {
                    sup.notice(&key, instance);
                    relist.ask();
                }
                ToolEvent::Exited { status, stderr } => {
                    let reason = exit_reason(&status, &stderr);
                    // Before anybody who waits for an answer learns of it.
                    let since = sup.runtime.wall();
                    let run = RunState::NotRunning { since, reason: Arc::clone(&reason) };
                    sup.down(&key, instance, run, &reason);
                    exit.send_replace(Some(reason));
                }
                ToolEvent::Log(_) => {}
            })
        };
        let tool = match Tool::start(spec, events).await {
            Ok(tool) => Arc::new(tool),
            Err(error) => {
                if matches!(error, StartError::Opening(Error::Unauthorized { .. })) {
                    self.refused = shown.map(|shown| shown.name).unwrap_or_default();
                }
                return Err(self.minding.start_error(&error));
            }
        };
        self.minding.up(tool.confined());
        let (real_texts, breaker) = (Arc::default(), Arc::default());
        let running = Running {
            tool: Arc::clone(&tool),
            relist,
            terms: Terms { limits: bundle.calls(&key.1), breaker: Arc::clone(&breaker) },
            real_texts: Arc::clone(&real_texts),
        };
        sup.runtime.insert(&key.0, &key.1, &running);
        Ok(Up { tool, exited, requests, lists, real_texts, breaker, shown })
    }

    /// Has it shown what it is reached with, unless its endpoint waits for a person.
    async fn shown(
        &self,
        spec: &mut ToolSpec,
        basis: Option<&Basis>,
        refused: &str,
    ) -> Result<Option<Shown>, NotStarted> {
        let (Some(Basis { connection: Some(planned), waits: false, .. }), ToolSpec::Url(url)) = (basis, spec)
        else {
            return Ok(None);
        };
        let mut shown = Shown {
            headers: Headers::default(),
            connection: Arc::clone(&planned.name),
            version: planned.version,
            origin: Origin::of(&url.url).map(|origin| origin.to_string()).unwrap_or_default(),
            name: String::new(),
            until: None,
        };
        self.fetch(&mut shown, refused).await.map_err(|reason| self.minding.no_credentials(&reason))?;
        url.headers = shown.headers.clone();
        Ok(Some(shown))
    }

    /// Fetches what it is reached with. `refused` names what its server did not take.
    async fn fetch(&self, shown: &mut Shown, refused: &str) -> Result<(), String> {
        let Minding { sup, key, .. } = &self.minding;
        let wanted = Wanted { version: shown.version, origin: &shown.origin, refused };
        let fetched = sup.settings.credentials.fetch(key, &wanted).await?;
        shown.headers.replace(fetched.headers);
        shown.name = fetched.name;
        // Before it ends, and not at once again however soon that is.
        let before_end = |valid: Duration| Instant::now() + valid.mul_f64(0.8).max(RENEW_LEAST);
        shown.until = fetched.valid.map(before_end);
        Ok(())
    }

    /// Lists the tool until something ends it, and takes it down.
    async fn run(&mut self, up: &mut Up, basis: Option<&Basis>, changed: &mut watch::Receiver<u64>) -> End {
        let end = self.lists(up, basis, changed).await;
        let key = &self.minding.key;
        if !matches!(end, End::Exited(_)) {
            self.sup().pause(key);
        }
        self.sup().runtime.remove(&key.0, &key.1);
        if !matches!(end, End::Exited(_)) {
            drain(up).await;
        }
        up.tool.stop().await;
        end
    }

    async fn lists(&mut self, up: &mut Up, basis: Option<&Basis>, changed: &mut watch::Receiver<u64>) -> End {
        let stop = self.stop.clone();
        let mut pace = Pace::default();
        loop {
            pace.began(self.sup().runtime.now_ms());
            up.requests.borrow_and_update();
            up.lists.send_modify(|lists| lists.under_way = true);
            let mut exited = up.exited.clone();
            let delay = tokio::select! {
                () = stop.cancelled() => return End::Stopped,
                end = exit(&mut exited) => return End::Exited(end),
                after = self.list(up) => match after {
                    Some(delay) => delay,
                    None => return End::Other,
                },
            };
            up.lists.send_modify(|lists| *lists = Lists { ended: lists.ended + 1, under_way: false });
            let timer = tokio::time::sleep(delay);
            tokio::pin!(timer);
            let ends = up.shown.as_ref().and_then(|shown| shown.until);
            let mut is_asked = false;
            loop {
                tokio::select! {
                    () = stop.cancelled() => return End::Stopped,
                    end = exit(&mut exited) => return End::Exited(end),
                    _ = up.requests.changed(), if !is_asked => {
                        is_asked = true;
                        let wait_ms = pace.wait_ms(self.sup().runtime.now_ms());
                        let due = Instant::now() + Duration::from_millis(wait_ms);
                        let sooner = due.min(timer.deadline());
                        timer.as_mut().reset(sooner);
                    }
                    () = &mut timer => break,
                    () = at(ends) => {
                        self.renew(up, "").await;
                        break;
                    }
                    () = self.other(basis, changed) => return End::Changed,
                }
            }
        }
    }

    /// Lists once. Says when to list next; `None` if it is to be opened anew before that.
    async fn list(&mut self, up: &mut Up) -> Option<Duration> {
        loop {
            self.minding.ask();
            let mut outcome = up.tool.list().await;
            if matches!(outcome, Err(Error::Unauthorized { .. })) {
                // A token may have been taken back, or have ended early.
                let refused = up.shown.as_ref().map(|shown| shown.name.clone()).unwrap_or_default();
                if self.renew(up, &refused).await {
                    outcome = up.tool.list().await;
                }
            }
            if outcome.as_ref().is_ok_and(|raw| raw.list.complete) {
                up.breaker.listed();
            }
            let is_endpoint = self.minding.bundle.is_remote(&self.minding.key.1);
            let is_other = outcome.as_ref().is_err_and(|error| is_endpoint && error.may_be_of_another_era());
            let class = up.tool.connected_to().and_then(|at| class_of_address(at.ip()).ok());
            let class = class.map_or("", AddressClass::name);
            let connection = up.shown.as_ref().map_or("", |shown| &*shown.connection);
            match self.minding.answered(outcome, (class, connection), &up.real_texts, rand::random()) {
                AfterList::Repeat => {}
                AfterList::Wait(_) if is_other => return None,
                AfterList::Wait(delay) => return Some(delay),
            }
        }
    }

    /// Fetches anew what it is reached with; answers whether that is something else.
    async fn renew(&self, up: &mut Up, refused: &str) -> bool {
        let Some(shown) = up.shown.as_mut() else { return false };
        let before = shown.name.clone();
        if let Err(reason) = self.fetch(shown, refused).await {
            let key = &self.minding.key;
            tracing::warn!(plugin.version = %key.0, tool.id = %key.1, reason, "what a tool is reached with cannot be had");
            shown.until = Some(Instant::now() + RENEW_LEAST);
        }
        shown.name != before
    }
}

/// Waits until then; for ever, if there is no then.
async fn at(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then).await,
        None => std::future::pending().await,
    }
}

/// Waits until no call has the tool any more, up to a limit.
async fn drain(up: &Up) {
    let until = Instant::now() + DRAIN;
    while Arc::strong_count(&up.tool) > 1 && Instant::now() < until {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
}

async fn exit(exited: &mut watch::Receiver<Option<Arc<str>>>) -> Arc<str> {
    let reason = exited.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
    match reason {
        Some(reason) => reason,
        // The tool's reader is gone without a word.
        None => std::future::pending().await,
    }
}
