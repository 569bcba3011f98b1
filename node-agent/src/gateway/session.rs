//! Sessions of the handshake revisions: a bounded number, each forgotten when it was unused for long.
//!
//! A session only knows what its client can be asked, which calls may be cancelled by whom, which
//! questions wait for an answer of it, and what its client was last listed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::LogLevel;
use tools::envelope::Id;

use super::capability::Capabilities;
use super::{Config, Shared};

/// Locks that sessions share; a handful keeps two calls from meeting at one.
const SHARDS: usize = 16;
/// Between two looks for unused sessions.
const SWEEP: Duration = Duration::from_mins(1);

/// Messages that wait for a slow reader of a session's stream.
const OUTBOX: usize = 64;

/// A number for one agent more.
pub(super) fn next_agent() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What a client says to a question, by our id.
pub(super) enum FromAgent {
    Answer(u64, Result<Box<RawValue>, Box<RawValue>>),
    /// Raw params of `notifications/progress`.
    Progress(u64, Box<RawValue>),
}

/// All sessions, by their id.
pub(super) struct Sessions {
    shards: [Mutex<HashMap<Box<str>, Arc<Session>>>; SHARDS],
    count: AtomicUsize,
    most: usize,
    idle: Duration,
    started: Instant,
}

/// One client's session.
pub(super) struct Session {
    pub(super) id: Box<str>,
    /// The revision agreed on.
    pub(super) version: &'static str,
    /// Tells agents apart; never used again.
    pub(super) number: u64,
    /// What its client can be asked.
    pub(super) capabilities: Capabilities,
    /// A [`LogLevel`], above all of them before its client named one.
    log_level: AtomicU8,
    /// Questions that wait for its client's answer, by our ids.
    questions: Mutex<HashMap<u64, mpsc::Sender<FromAgent>>>,
    next_question: AtomicU64,
    /// Where messages for its newest stream go.
    outbox: Mutex<Option<mpsc::Sender<String>>>,
    /// Revision of the list that its client was served last; 0 for none.
    pub(super) listed: AtomicU64,
    /// Cancelled when it ends; its calls and streams hang on it. When the node stops, calls may end.
    pub(super) ended: CancellationToken,
    /// Rises with each stream that is opened: the newest takes the place of the one before.
    pub(super) stream: watch::Sender<u64>,
    calls: Mutex<Vec<UnderWay>>,
    next_call: AtomicU64,
    /// Calls and streams under way.
    busy: AtomicUsize,
    used_ms: AtomicU64,
    started: Instant,
}

impl Sessions {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            shards: Default::default(),
            count: AtomicUsize::new(0),
            most: config.sessions,
            idle: config.session_idle,
            started: Instant::now(),
        }
    }

    /// A new session; the one that was unused for longest makes room. `None` if all are in use.
    pub(super) fn open(&self, version: &'static str, capabilities: Capabilities) -> Option<Arc<Session>> {
        if self.count.load(Ordering::Relaxed) >= self.most && !self.make_room() {
            return None;
        }
        let session = Arc::new(Session {
            id: hex::encode(rand::random::<[u8; 16]>()).into(),
            version,
            number: next_agent(),
            capabilities,
            log_level: AtomicU8::new(u8::MAX),
            questions: Mutex::default(),
            next_question: AtomicU64::new(1),
            outbox: Mutex::default(),
            listed: AtomicU64::new(0),
            ended: CancellationToken::new(),
            stream: watch::Sender::new(0),
            calls: Mutex::default(),
            next_call: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            used_ms: AtomicU64::new(0),
            started: self.started,
        });
        session.touch();
        self.shard(&session.id).insert(session.id.clone(), Arc::clone(&session));
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(session)
    }

    /// The session of that id, now used.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.shard(id).get(id).cloned()?;
        session.touch();
        Some(session)
    }

    /// Ends a session, its calls and its stream; whether there was one.
    pub(super) fn end(&self, id: &str) -> bool {
        let Some(session) = self.shard(id).remove(id) else { return false };
        self.count.fetch_sub(1, Ordering::Relaxed);
        session.ended.cancel();
        true
    }

    /// Ends what was unused for too long.
    fn sweep(&self) {
        let idle_ms = u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX);
        self.end_if(|session, now_ms| {
            now_ms.saturating_sub(session.used_ms.load(Ordering::Relaxed)) > idle_ms
        });
    }

    fn make_room(&self) -> bool {
        self.sweep();
        if self.count.load(Ordering::Relaxed) < self.most {
            return true;
        }
        let mut oldest: Option<Arc<Session>> = None;
        for shard in &self.shards {
            for session in lock(shard).values().filter(|session| session.is_idle()) {
                let used = |session: &Session| session.used_ms.load(Ordering::Relaxed);
                if oldest.as_ref().is_none_or(|oldest| used(session) < used(oldest)) {
                    oldest = Some(Arc::clone(session));
                }
            }
        }
        oldest.is_some_and(|session| self.end(&session.id))
    }

    fn end_if(&self, is_over: impl Fn(&Session, u64) -> bool) {
        let now_ms = elapsed_ms(self.started);
        for shard in &self.shards {
            let over: Vec<Box<str>> = lock(shard)
                .values()
                .filter(|session| session.is_idle() && is_over(session, now_ms))
                .map(|session| session.id.clone())
                .collect();
            for id in over {
                self.end(&id);
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder of the number of shards")]
    fn shard(&self, id: &str) -> MutexGuard<'_, HashMap<Box<str>, Arc<Session>>> {
        let last = id.bytes().last().unwrap_or_default();
        lock(&self.shards[usize::from(last) % SHARDS])
    }
}

impl Session {
    /// Notes a call under way, until the value is dropped; its token is cancelled by [`Self::cancel`].
    pub(super) fn begin(self: &Arc<Self>, id: &Id) -> Under {
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        let cancel = self.ended.child_token();
        let reason = Arc::default();
        let call = UnderWay { number, id: id.clone(), cancel: cancel.clone(), reason: Arc::clone(&reason) };
        lock(&self.calls).push(call);
        Under { use_: self.use_(), number, cancel, reason }
    }

    /// Cancels the call of that id, if it is under way. Ids keep their JSON type: `1` is not `"1"`.
    pub(super) fn cancel(&self, id: &Id, reason: Option<&RawValue>) {
        for call in lock(&self.calls).iter().filter(|call| call.id == *id) {
            if let Some(reason) = reason {
                call.reason.set(reason.to_owned()).ok();
            }
            call.cancel.cancel();
        }
    }

    /// The least severe message that its client wants to be told, if it said so.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        LogLevel::from_rank(self.log_level.load(Ordering::Relaxed))
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        self.log_level.store(level as u8, Ordering::Relaxed);
    }

    /// A new id for a question; what its client says to it goes to `reply`.
    pub(super) fn ask(&self, reply: mpsc::Sender<FromAgent>) -> u64 {
        let number = self.next_question.fetch_add(1, Ordering::Relaxed);
        lock(&self.questions).insert(number, reply);
        number
    }

    /// Forgets a question; what comes for it goes nowhere.
    pub(super) fn asks_no_more(&self, number: u64) {
        lock(&self.questions).remove(&number);
    }

    /// Its client's answer to a question, if it is open.
    pub(super) fn answered(&self, id: &Id, outcome: Result<&RawValue, &RawValue>) {
        let Some(number) = id.as_u64() else { return };
        let reply = lock(&self.questions).remove(&number);
        if let Some(reply) = reply {
            let outcome = outcome.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
            // There is room for as many as are open; a call that has ended wants none.
            reply.try_send(FromAgent::Answer(number, outcome)).ok();
        }
    }

    /// Its client's progress on a question, if it is open.
    pub(super) fn progressed(&self, id: &Id, params: &RawValue) {
        let Some(number) = id.as_u64() else { return };
        if let Some(reply) = lock(&self.questions).get(&number)
            && reply.capacity() > reply.max_capacity() / 2
        {
            reply.try_send(FromAgent::Progress(number, params.to_owned())).ok();
        }
    }

    /// The messages for the newest stream, which takes the place of the one before.
    pub(super) fn open_outbox(&self) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(OUTBOX);
        *lock(&self.outbox) = Some(sender);
        receiver
    }

    /// Sends a message on the newest stream; whether there is one with room.
    pub(super) fn say(&self, message: String) -> bool {
        lock(&self.outbox).as_ref().is_some_and(|outbox| outbox.try_send(message).is_ok())
    }

    /// Keeps the session from being idle, until the value is dropped.
    pub(super) fn use_(self: &Arc<Self>) -> Use {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Use(Arc::clone(self))
    }

    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }

    fn touch(&self) {
        self.used_ms.store(elapsed_ms(self.started), Ordering::Relaxed);
    }
}

/// What a session keeps of a call under way.
struct UnderWay {
    number: u64,
    id: Id,
    cancel: CancellationToken,
    reason: Arc<OnceLock<Box<RawValue>>>,
}

/// A call under way.
pub(super) struct Under {
    use_: Use,
    number: u64,
    /// Cancelled by the client, or by the end of the session.
    pub(super) cancel: CancellationToken,
    /// Why, if its client said so.
    pub(super) reason: Arc<OnceLock<Box<RawValue>>>,
}

impl Drop for Under {
    fn drop(&mut self) {
        lock(&self.use_.0.calls).retain(|call| call.number != self.number);
    }
}

/// A session in use.
pub(super) struct Use(Arc<Session>);

impl Drop for Use {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}

/// Ends unused sessions from time to time.
pub(super) async fn sweep(shared: Arc<Shared>) {
    // Often enough for a short setting, and never all the time.
    let pause = SWEEP.min(shared.config.session_idle).max(Duration::from_millis(10));
    loop {
        tokio::select! {
            () = shared.shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => shared.sessions.sweep(),
        }
    }
}

fn elapsed_ms(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
