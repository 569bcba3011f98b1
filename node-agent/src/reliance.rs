//! Whether this node may go by its plugin set at this moment, and until when without hearing more.
//!
//! `domain::fresh` decides; here the clock is read, what was decided is told to the supervisor and the
//! reconciler, and the time is made durable now and then, so that a lease cannot be stretched by starting
//! again and again. Told by the link what it hears.

mod mark;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::fresh::{self, Clock, Contact, Has, Mark, rely};
use domain::plugin_set::Policy;
use domain::time::Timestamp;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::reconciler::PluginSet;
use crate::supervisor::Supervisor;

/// How often the time is made durable, at least and at most: what a restart may cost a lease, and what it
/// costs a disk. A lease has it eight times while it lasts.
const WRITE_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// The node's word on what it goes by.
pub(crate) struct Reliance {
    inner: Mutex<Inner>,
    set: Arc<watch::Sender<Arc<PluginSet>>>,
    supervisor: Arc<Supervisor>,
    changed: Notify,
    file: PathBuf,
}

struct Inner {
    clock: Clock,
    contact: Option<Contact>,
    has: Has,
    said: Option<fresh::Reliance>,
    /// When the mark was written, and whether that failed the last time.
    written: Option<Timestamp>,
    unwritten: bool,
    /// The node was expelled: nothing is written down any more.
    over: bool,
}

impl Reliance {
    /// Reads what an earlier run stored in the ledger's folder. Blocks.
    pub(crate) fn open(
        ledger: &Path,
        set: Arc<watch::Sender<Arc<PluginSet>>>,
        supervisor: Arc<Supervisor>,
    ) -> Self {
        let file = ledger.join("clock");
        let mark = mark::read(&file);
        let inner = Inner {
            clock: Clock::start(mark.as_ref(), crate::now(), monotonic_ms()),
            contact: mark.map(|mark| mark.contact),
            has: Has::Nothing,
            said: None,
            written: None,
            unwritten: false,
            over: false,
        };
        Self { inner: Mutex::new(inner), set, supervisor, changed: Notify::new(), file }
    }

    /// Every part is here, from an earlier boot.
    pub(crate) fn is_stored(&self) {
        self.change(|inner, _| inner.has = Has::Stored);
    }

    /// Every part was confirmed, or received and made durable, in this boot.
    pub(crate) fn is_confirmed(&self) {
        self.change(|inner, _| inner.has = Has::Confirmed);
    }

    /// What was confirmed in this boot has to be confirmed again.
    pub(crate) fn is_doubted(&self) {
        self.change(|inner, _| {
            if inner.has == Has::Confirmed {
                inner.has = Has::Stored;
            }
        });
    }

    /// The node was expelled: its time is not made durable again.
    pub(crate) fn end(&self) {
        self.inner().over = true;
    }

    /// The control plane said its time, and for how long that counts as fresh.
    pub(crate) fn hear(&self, server: Timestamp, fresh_ms: u64) {
        self.change(|inner, now_ms| {
            let first = inner.contact.is_none() || inner.has != Has::Confirmed;
            inner.clock.hear(server, now_ms);
            inner.contact = Some(Contact { at: inner.clock.now(now_ms), fresh_ms });
            if first {
                inner.written = None;
            }
        });
        self.changed.notify_one();
    }

    /// Looks whenever time alone or a policy changes something, and makes the time durable; until `stop`.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut sets = self.set.subscribe();
        loop {
            sets.borrow_and_update();
            let until = self.change(|_, _| ());
            let write = self.write_due();
            tokio::select! {
                () = stop.cancelled() => {
                    self.write();
                    return;
                }
                changed = sets.changed() => if changed.is_err() { return },
                () = self.changed.notified() => {}
                () = tokio::time::sleep(until.unwrap_or(Duration::MAX).min(write)) => {}
            }
            if self.write_due().is_zero() {
                self.write();
            }
        }
    }

    /// Changes something and tells what follows; how long that holds by itself.
    fn change(&self, change: impl FnOnce(&mut Inner, u64)) -> Option<Duration> {
        let now_ms = monotonic_ms();
        let mut inner = self.inner();
        change(&mut inner, now_ms);
        let now = inner.clock.now(now_ms);
        let policy = self.set.borrow().policy.clone();
        let (reliance, until) = rely(inner.has, inner.contact.as_ref(), &policy, now);
        if inner.said.replace(reliance) != Some(reliance) {
            log(reliance);
        }
        // While `inner` is locked, so that of two words the later is the last.
        self.supervisor.rely(reliance);
        self.set.send_if_modified(|set| {
            let differs = set.held != reliance.has_set();
            if differs {
                Arc::make_mut(set).held = reliance.has_set();
            }
            differs
        });
        until.map(|until| Duration::from_millis(u64::try_from(until.millis_since(now)).unwrap_or_default()))
    }

    /// How long until the mark is to be written.
    fn write_due(&self) -> Duration {
        let every = write_every(&self.set.borrow().policy);
        let inner = self.inner();
        let Some(written) = inner.written else {
            return if inner.contact.is_some() { Duration::ZERO } else { every };
        };
        let passed = inner.clock.now(monotonic_ms()).millis_since(written);
        every.saturating_sub(Duration::from_millis(u64::try_from(passed).unwrap_or_default()))
    }

    fn write(&self) {
        let (mark, failed_before) = {
            let mut inner = self.inner();
            let Some(contact) = inner.contact.filter(|_| !inner.over) else { return };
            let high_water = inner.clock.now(monotonic_ms());
            inner.written = Some(high_water);
            let ahead_of_wall_ms = high_water.millis_since(crate::now());
            (Mark { high_water, ahead_of_wall_ms, contact }, inner.unwritten)
        };
        let written = tokio::task::block_in_place(|| mark::write(&self.file, &mark));
        self.inner().unwritten = written.is_err();
        if let (Err(error), false) = (written, failed_before) {
            tracing::warn!(reason = %crate::sentence(&error), "the time cannot be made durable; an offline lease counts from what was");
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_every(policy: &Policy) -> Duration {
    let lease = policy.offline_lease_ms.map_or(WRITE_EVERY.1, |lease| Duration::from_millis(lease / 8));
    lease.clamp(WRITE_EVERY.0, WRITE_EVERY.1)
}

fn log(reliance: fresh::Reliance) {
    match reliance {
        fresh::Reliance::Waits => tracing::info!("this node waits for its plugin set"),
        fresh::Reliance::Leases { until } => {
            tracing::warn!(until = %until, "this node goes by the plugin set that it stored, under its edge's offline lease");
        }
        fresh::Reliance::Holds => tracing::info!("the plugin set of this node is held"),
        fresh::Reliance::Stale { since, refuses } => {
            tracing::warn!(since = %since, refuses, "the plugin set is stale: nothing was heard of the control plane for too long");
        }
    }
}

/// Milliseconds of a clock that nobody sets and that goes on while the machine sleeps.
fn monotonic_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let millis = now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000);
    u64::try_from(millis).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use domain::guard::view::{SetState, View};
    use domain::id::EdgeName;

    use super::*;
    use crate::guard::Guard;
    use crate::supervisor::Settings;

    fn reliance(ledger: &Path) -> (Arc<Reliance>, Arc<watch::Sender<Arc<PluginSet>>>) {
        let guard = Guard::new(View {
            edge: EdgeName::parse("eu-1").unwrap(),
            set: SetState::Waiting { server: "server:7401".into(), since: crate::now() },
            trust: Arc::default(),
            policy: Policy::default(),
            plugins: BTreeMap::new(),
            texts: BTreeMap::new(),
        });
        let settings = Settings {
            path: String::new(),
            offers: tools::Offers::default(),
            credentials: crate::credentials::Credentials::default(),
            egress: crate::Egress::default(),
            limits: tools::Limits::default(),
            shim: None,
            listeners: Vec::new(),
            work: ledger.to_owned(),
            logs: ledger.to_owned(),
        };
        let supervisor = Arc::new(Supervisor::new(Arc::new(guard), Arc::default(), Arc::default(), settings));
        let set = Arc::new(watch::Sender::new(Arc::new(PluginSet::default())));
        (Arc::new(Reliance::open(ledger, Arc::clone(&set), supervisor)), set)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_time_of_a_node_that_was_expelled_is_not_written_again() {
        for is_expelled in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (reliance, _set) = reliance(folder.path());
            reliance.is_confirmed();
            reliance.hear(crate::now(), 60_000);
            if is_expelled {
                reliance.end();
                reliance.hear(crate::now(), 60_000);
            }
            let stop = CancellationToken::new();
            stop.cancel();
            Arc::clone(&reliance).run(stop).await;
            assert_eq!(folder.path().join("clock").exists(), !is_expelled);
        }
    }

    #[tokio::test]
    async fn a_doubted_node_waits_until_its_set_is_confirmed_again() {
        let folder = tempfile::tempdir().unwrap();
        let (reliance, set) = reliance(folder.path());
        reliance.hear(crate::now(), 60_000);
        reliance.is_doubted();
        assert!(!set.borrow().held, "nothing was there");
        reliance.is_confirmed();
        assert!(set.borrow().held);
        reliance.is_doubted();
        reliance.hear(crate::now(), 60_000);
        assert!(!set.borrow().held, "a contact alone confirms nothing");
        reliance.is_confirmed();
        assert!(set.borrow().held);
    }
}
