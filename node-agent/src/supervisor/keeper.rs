//! The task that keeps one tool: start, list, list again when there is a reason, start again. What is
//! made of each is [`minding`](super::minding)'s.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::guard::view::RunState;
use domain::origin::{AddressClass, ClassPolicy, class_of_address};
use domain::plugin_set::OriginTrust;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::{Error, Headers, Opening, Tool, ToolEvent, ToolSpec};

use super::Supervisor;
use super::minding::{AfterList, Minding, NotStarted, exit_reason};
use super::opening::Memory;
use super::pace::Pace;
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
    /// Which addresses it may be at, since it was started.
    addresses: Option<Pinned>,
    /// What it is reached with, since it was started.
    shown: Option<Shown>,
}

/// What a tool's server is shown.
struct Shown {
    /// Of the connection; 0 without secrets, since the endpoint waits for a person.
    version: u64,
    headers: Headers,
    /// Names what it was given.
    name: String,
    /// When it ends.
    until: Option<Instant>,
}

/// The part of an address rule that can change.
type Pinned = (Option<AddressClass>, ClassPolicy);

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
        loop {
            self.minding.begin();
            let started = tokio::select! {
                () = stop.cancelled() => return,
                started = self.start() => started,
            };
            // Asked anew after a failure: what does not start any more may have been replaced.
            self.opening = started.as_ref().map_or(Opening::Probe, |up| up.tool.opening());
            self.memory.note(self.opening).await;
            let delay = match started {
                Ok(mut up) => match self.run(&mut up).await {
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
            }
        }
    }

    fn sup(&self) -> &Arc<Supervisor> {
        &self.minding.sup
    }

    async fn start(&self) -> Result<Up, NotStarted> {
        let (relist, requests, lists) = Relist::new();
        let (exit, exited) = watch::channel(None);
        let Minding { sup, bundle, key, instance, .. } = &self.minding;
        let (trust, policy) = sup.guard.read(|view| (Arc::clone(&view.trust), view.policy.clone()));
        if let Some(problem) = self.unset() {
            return Err(self.minding.no_credentials(&problem));
        }
        let spec = bundle.spec(&key.1, &sup.settings, &trust, &policy);
        let mut spec = spec.map_err(|reason| self.minding.no_spec(&reason))?;
        spec.open_by(self.opening);
        let addresses = match &spec {
            ToolSpec::Url(url) => Some((url.addresses.pinned, url.addresses.policy)),
            ToolSpec::Command(_) => None,
        };
        let shown = self.shown(&mut spec).await?;
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
        let tool = Tool::start(spec, events).await.map_err(|error| self.minding.start_error(&error))?;
        let tool = Arc::new(tool);
        self.minding.up(tool.confined());
        let (real_texts, breaker) = (Arc::default(), Arc::default());
        let running = Running {
            tool: Arc::clone(&tool),
            relist,
            terms: Terms { limits: bundle.calls(&key.1), breaker: Arc::clone(&breaker) },
            real_texts: Arc::clone(&real_texts),
        };
        sup.runtime.insert(&key.0, &key.1, &running);
        Ok(Up { tool, exited, requests, lists, real_texts, breaker, addresses, shown })
    }

    /// Why there is nothing to reach it with, as the plan says.
    fn unset(&self) -> Option<String> {
        let Minding { sup, bundle, key, .. } = &self.minding;
        if !bundle.has_connection(&key.1) {
            return None;
        }
        match sup.settings.credentials.planned(key) {
            Some(planned) => planned.problem.map(|problem| problem.to_string()),
            None => Some("its connection is not in the plan yet".to_owned()),
        }
    }

    /// The version of the connection that it is to be shown; 0: none, while its endpoint waits for a person.
    fn wanted_version(&self) -> Option<u64> {
        let Minding { sup, bundle, key, .. } = &self.minding;
        if !bundle.has_connection(&key.1) {
            return None;
        }
        let is_pinned = sup.guard.read(|view| {
            let tool = view.trust.versions.get(&key.0).and_then(|version| version.tools.get(&key.1));
            let origin = tool.and_then(|tool| tool.origin.as_ref());
            matches!(origin, Some(OriginTrust::Pinned { .. } | OriginTrust::Connection))
        });
        let version = sup.settings.credentials.planned(key).map_or(0, |planned| planned.version);
        Some(if is_pinned { version } else { 0 })
    }

    /// Has it shown what it is reached with.
    async fn shown(&self, spec: &mut ToolSpec) -> Result<Option<Shown>, NotStarted> {
        let (Some(version), ToolSpec::Url(url)) = (self.wanted_version(), spec) else { return Ok(None) };
        let headers = Headers::default();
        let mut shown = Shown { version, headers: headers.clone(), name: String::new(), until: None };
        if version != 0 {
            self.fetch(&mut shown, "").await.map_err(|reason| self.minding.no_credentials(&reason))?;
        }
        url.headers = headers;
        Ok(Some(shown))
    }

    /// Fetches what it is reached with.
    async fn fetch(&self, shown: &mut Shown, refused: &str) -> Result<(), String> {
        let Minding { sup, key, .. } = &self.minding;
        let fetched = sup.settings.credentials.fetch(key, refused).await?;
        shown.headers.replace(fetched.headers);
        shown.name = fetched.name;
        // Before it ends, and not at once again however soon that is.
        let before_end = |valid: Duration| Instant::now() + valid.mul_f64(0.8).max(RENEW_LEAST);
        shown.until = fetched.valid.map(before_end);
        Ok(())
    }

    /// Lists the tool until something ends it, and takes it down.
    async fn run(&mut self, up: &mut Up) -> End {
        let end = self.lists(up).await;
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

    async fn lists(&mut self, up: &mut Up) -> End {
        let mut changed = self.sup().changed.subscribe();
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
                    _ = changed.changed() => {
                        if self.is_changed(up) {
                            return End::Changed;
                        }
                    }
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
                if !refused.is_empty() && self.renew(up, &refused).await {
                    outcome = up.tool.list().await;
                }
            }
            if outcome.as_ref().is_ok_and(|raw| raw.list.complete) {
                up.breaker.listed();
            }
            let is_endpoint = up.addresses.is_some();
            let is_other = outcome.as_ref().is_err_and(|error| is_endpoint && error.may_be_of_another_era());
            let class = up.tool.connected_to().and_then(|at| class_of_address(at.ip()).ok());
            let class = class.map_or("", AddressClass::name);
            match self.minding.answered(outcome, class, &up.real_texts, rand::random()) {
                AfterList::Repeat => {}
                AfterList::Wait(_) if is_other => return None,
                AfterList::Wait(delay) => return Some(delay),
            }
        }
    }

    /// Fetches anew what it is reached with; answers whether that is something else.
    async fn renew(&self, up: &mut Up, refused: &str) -> bool {
        let Some(shown) = up.shown.as_mut().filter(|shown| shown.version != 0) else { return false };
        let before = shown.name.clone();
        if let Err(reason) = self.fetch(shown, refused).await {
            let key = &self.minding.key;
            tracing::warn!(plugin.version = %key.0, tool.id = %key.1, reason, "what a tool is reached with cannot be had");
            shown.until = Some(Instant::now() + RENEW_LEAST);
        }
        shown.name != before
    }

    /// Whether the pin or the policy now allows other addresses than those it was started with.
    fn is_changed(&self, up: &Up) -> bool {
        let Some(started_with) = up.addresses else { return false };
        if self.wanted_version() != up.shown.as_ref().map(|shown| shown.version) {
            return true;
        }
        let Minding { sup, bundle, key, .. } = &self.minding;
        let rule = sup.guard.read(|view| bundle.addresses(&key.1, &sup.settings, &view.trust, &view.policy));
        (rule.pinned, rule.policy) != started_with
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
