//! The task that keeps one tool: start, list, list again when there is a reason, start again.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::guard::view::RunState;
use domain::origin::{AddressClass, ClassPolicy, RedirectFault, class_of_address};
use domain::plugin_set::Kind;
use domain::reconcile::jittered_ms;
use domain::refusal::{Code, Refusal};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::{Error, RawList, StartError, Tool, ToolEvent, ToolSpec};

use super::judged::Judged;
use super::spec::Bundle;
use super::{Key, Supervisor};
use crate::guard::{Lists, RealTexts, Relist, Running};

/// The first delay before a tool is started or listed again after a failure.
const AGAIN_FIRST_MS: u64 = 500;

/// The longest such delay: a fault that ended is noticed within 30 s (30-nodes, L1).
const AGAIN_MOST_MS: u64 = 20_000;

/// A tool that ran for so long starts its next failures' delays anew.
const STEADY: Duration = Duration::from_mins(1);

/// How long calls under way may take to end before their tool is stopped.
const DRAIN: Duration = Duration::from_secs(30);

/// How often it is looked whether they have.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// The longest interval that a server's `ttlMs` makes (20-listings, 4).
const TTL_MOST: Duration = Duration::from_hours(1);

pub(super) struct Keeping {
    pub(super) sup: Arc<Supervisor>,
    pub(super) bundle: Bundle,
    pub(super) key: Key,
    pub(super) stop: CancellationToken,
}

/// A tool that is up.
struct Up {
    tool: Arc<Tool>,
    instance: u64,
    /// How its process ended.
    exited: watch::Receiver<Option<Arc<str>>>,
    requests: watch::Receiver<u64>,
    lists: watch::Sender<Lists>,
    real_texts: Arc<ArcSwap<RealTexts>>,
    /// Which addresses it may be at, since it was started.
    addresses: Option<Pinned>,
}

/// The part of an address rule that can change.
type Pinned = (Option<AddressClass>, ClassPolicy);

/// Why a tool that was up is not any more.
enum End {
    Stopped,
    Exited(Arc<str>),
    /// What it is started from changed.
    Changed,
}

impl Keeping {
    pub(super) async fn keep(self) {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let instance = self.sup.starting(&self.key);
            let started = tokio::select! {
                () = self.stop.cancelled() => return,
                started = self.start(instance) => started,
            };
            match started {
                Ok(mut up) => match self.run(&mut up).await {
                    End::Stopped => return,
                    End::Changed => {
                        failures = 0;
                        continue;
                    }
                    End::Exited(reason) => {
                        let since = crate::now();
                        let run = RunState::NotRunning { since, reason: Arc::clone(&reason) };
                        self.sup.down(&self.key, instance, run, &reason);
                        tracing::warn!(plugin.version = %self.key.0, tool.id = %self.key.1, reason = %reason, "a tool ended");
                    }
                },
                Err((reason, run)) => {
                    tracing::warn!(plugin.version = %self.key.0, tool.id = %self.key.1, reason = %reason, "a tool does not start");
                    self.sup.down(&self.key, instance, run, &reason);
                }
            }
            failures = if began.elapsed() >= STEADY { 1 } else { failures + 1 };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(again_after(failures)) => {}
            }
        }
    }

    async fn start(&self, instance: u64) -> Result<Up, (Arc<str>, RunState)> {
        let (relist, requests, lists) = Relist::new();
        let (exit, exited) = watch::channel(None);
        let (trust, policy) = self.sup.guard.read(|view| (Arc::clone(&view.trust), view.policy.clone()));
        let spec = self.bundle.spec(&self.key.1, &self.sup.settings, &trust, &policy);
        let spec = spec.map_err(|reason| self.not_running(&reason))?;
        let addresses = match &spec {
            ToolSpec::Url(url) => Some((url.addresses.pinned, url.addresses.policy)),
            ToolSpec::Command(_) => None,
        };
        let events = {
            let (sup, key, relist) = (Arc::clone(&self.sup), self.key.clone(), relist.clone());
            Arc::new(move |event| match event {
                ToolEvent::ListChanged | ToolEvent::Reconnected => {
                    sup.notice(&key, instance);
                    relist.ask();
                }
                ToolEvent::Exited { status, stderr } => {
                    let tail =
                        if stderr.is_empty() { String::new() } else { format!("; its last words: {stderr}") };
                    let reason: Arc<str> = format!("its process {status}{tail}").into();
                    // Before anybody who waits for an answer learns of it.
                    sup.down(
                        &key,
                        instance,
                        RunState::NotRunning { since: crate::now(), reason: Arc::clone(&reason) },
                        &reason,
                    );
                    exit.send_replace(Some(reason));
                }
                ToolEvent::Log(_) => {}
            })
        };
        let tool = Tool::start(spec, events).await.map_err(|error| self.not_started(&error))?;
        let tool = Arc::new(tool);
        self.sup.up(&self.key, tool.confined());
        let real_texts = Arc::default();
        let running = Running { tool: Arc::clone(&tool), relist, real_texts: Arc::clone(&real_texts) };
        self.sup.runtime.insert(&self.key.0, &self.key.1, &running);
        Ok(Up { tool, instance, exited, requests, lists, real_texts, addresses })
    }

    /// Lists the tool until something ends it, and takes it down.
    async fn run(&self, up: &mut Up) -> End {
        let end = self.lists(up).await;
        if !matches!(end, End::Exited(_)) {
            self.sup.pause(&self.key);
        }
        self.sup.runtime.remove(&self.key.0, &self.key.1);
        if !matches!(end, End::Exited(_)) {
            self.drain(up).await;
        }
        up.tool.stop().await;
        end
    }

    async fn lists(&self, up: &mut Up) -> End {
        let mut changed = self.sup.changed.subscribe();
        let mut failures = 0;
        loop {
            up.requests.borrow_and_update();
            up.lists.send_modify(|lists| lists.under_way = true);
            let stop = self.stop.clone();
            let mut exited = up.exited.clone();
            let delay = tokio::select! {
                () = stop.cancelled() => return End::Stopped,
                end = exit(&mut exited) => return End::Exited(end),
                delay = self.list(up, &mut failures) => delay,
            };
            up.lists.send_modify(|lists| *lists = Lists { ended: lists.ended + 1, under_way: false });
            let timer = tokio::time::sleep(delay);
            tokio::pin!(timer);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return End::Stopped,
                    end = exit(&mut exited) => return End::Exited(end),
                    _ = up.requests.changed() => break,
                    () = &mut timer => break,
                    _ = changed.changed() => {
                        if self.is_changed(up) {
                            return End::Changed;
                        }
                    }
                }
            }
        }
    }

    /// Lists once; an empty list is asked for again before it counts. Says when to list next.
    async fn list(&self, up: &Up, failures: &mut u32) -> Duration {
        let mut asked = (self.sup.runtime.now_ms(), self.sup.notices(&self.key));
        let mut outcome = up.tool.list().await;
        if matches!(&outcome, Ok(raw) if raw.list.entries.is_empty()) {
            asked = (self.sup.runtime.now_ms(), self.sup.notices(&self.key));
            outcome = up.tool.list().await;
        }
        match outcome {
            Ok(raw) => {
                let judged = self.judge(up, &raw);
                let whole = judged.complete;
                // Before any call that this list allows.
                up.real_texts.store(Arc::new(judged.real_texts()));
                self.sup.listed(&self.key, up.instance, asked, judged);
                *failures = if whole { 0 } else { *failures + 1 };
                if whole { self.interval(raw.ttl) } else { again_after(*failures) }
            }
            Err(error) => {
                *failures += 1;
                let reason = crate::sentence(&error);
                tracing::warn!(plugin.version = %self.key.0, tool.id = %self.key.1, reason = %reason, "a tool cannot be listed");
                self.sup.not_listed(&self.key, up.instance, &reason, self.whole_tool(&error));
                match error {
                    Error::Status { retry_after: Some(after), .. } => after.min(TTL_MOST),
                    _ => again_after(*failures),
                }
            }
        }
    }

    fn judge(&self, up: &Up, raw: &RawList) -> Judged {
        let broken = raw.broken.as_ref().map(|error| crate::sentence(error).into());
        let class = up.tool.connected_to().and_then(|at| class_of_address(at.ip()).ok());
        let class = class.map_or("", AddressClass::name);
        Judged::new(&raw.list, broken, &self.bundle.ignored(&self.key.1), class)
    }

    fn interval(&self, ttl: Option<Duration>) -> Duration {
        let kind = self.kind();
        let policy = Duration::from_millis(self.sup.guard.read(|view| view.policy.listing_interval_ms(kind)));
        let interval = ttl.map_or(policy, |ttl| ttl.min(TTL_MOST).max(policy));
        if kind == Kind::Url { interval.mul_f64(0.8 + 0.4 * rand::random::<f64>()) } else { interval }
    }

    /// Whether the pin or the policy now allows other addresses than those it was started with.
    fn is_changed(&self, up: &Up) -> bool {
        let Some(started_with) = up.addresses else { return false };
        let rule = self
            .sup
            .guard
            .read(|view| self.bundle.addresses(&self.key.1, &self.sup.settings, &view.trust, &view.policy));
        (rule.pinned, rule.policy) != started_with
    }

    fn kind(&self) -> Kind {
        let mut tools = self.bundle.tools();
        tools.find(|(id, ..)| **id == self.key.1).map_or(Kind::Command, |(_, kind, _)| kind)
    }

    /// Waits until no call has the tool any more, up to a limit.
    async fn drain(&self, up: &Up) {
        let until = Instant::now() + DRAIN;
        while Arc::strong_count(&up.tool) > 1 && Instant::now() < until {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }

    fn not_running(&self, reason: &str) -> (Arc<str>, RunState) {
        let reason: Arc<str> = reason.into();
        let run = RunState::NotRunning { since: self.sup.since(&self.key), reason: Arc::clone(&reason) };
        (reason, run)
    }

    fn not_started(&self, error: &StartError) -> (Arc<str>, RunState) {
        let reason = crate::sentence(error);
        if self.kind() != Kind::Url {
            return self.not_running(&reason);
        }
        let reason: Arc<str> = reason.into();
        let whole = match error {
            StartError::Opening(error) => self.whole_tool(error),
            _ => None,
        };
        let since = self.sup.since(&self.key);
        (Arc::clone(&reason), whole.unwrap_or(RunState::Unreachable { since, reason }))
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
                    Refusal::redirected(tool, &from.to_string(), to.as_str())
                }
                other => Refusal::new(Code::Redirected, format!("{tool} was not called: {other}.")),
            },
            _ => return None,
        };
        Some(RunState::Refused(refusal))
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

fn again_after(failures: u32) -> Duration {
    // At least the first delay: a server that fails at once is not asked at once.
    Duration::from_millis(
        AGAIN_FIRST_MS / 2 + jittered_ms(AGAIN_FIRST_MS, AGAIN_MOST_MS, failures, rand::random()),
    )
}
