//! What the tasks of one stdio tool share: noise, stderr, the way out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::tail::Tail;
use crate::dialog::{Board, Offers};
use crate::envelope;
use crate::error::Error;
use crate::tool::{Events, Noise, ToolEvent};
use crate::waiters::{Outcome, Waiters};
use crate::wire;

pub(super) struct Shared {
    next_id: AtomicU64,
    pub(super) waiters: Waiters,
    noise: Mutex<Noise>,
    pub(super) tail: Mutex<Tail>,
    events: Events,
    pub(super) board: Arc<Board>,
    phase: Mutex<Phase>,
    /// Whether the tool may send requests of its own (handshake era).
    pub(super) replies: AtomicBool,
    /// Cancelled to stop the tool.
    pub(super) stop: CancellationToken,
    /// Cancelled when stdout has ended.
    pub(super) output_ended: CancellationToken,
    /// Cancelled when the process is gone and everybody was told.
    pub(super) done: CancellationToken,
    /// Replies and cancellations, which nobody waits for.
    aside: mpsc::Sender<String>,
    subscription: Mutex<Subscription>,
}

/// Whose the end of the process is to report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The start's, as its error.
    Opening,
    /// An event's.
    Open,
    Ended,
}

/// The subscription to changes of the list (modern era).
#[derive(Default)]
struct Subscription {
    /// The request that holds it open.
    id: u64,
    /// Whether an earlier one was acknowledged: then announcements may have been missed in between.
    was_open: bool,
}

impl Shared {
    pub(super) fn new(events: Events, aside: mpsc::Sender<String>, offers: Offers) -> Self {
        Self {
            next_id: AtomicU64::new(1),
            waiters: Waiters::default(),
            noise: Mutex::default(),
            tail: Mutex::default(),
            events,
            board: Arc::new(Board::new(offers)),
            phase: Mutex::new(Phase::Opening),
            replies: AtomicBool::new(true),
            stop: CancellationToken::new(),
            output_ended: CancellationToken::new(),
            done: CancellationToken::new(),
            aside,
            subscription: Mutex::default(),
        }
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn emit(&self, event: ToolEvent) {
        (self.events)(event);
    }

    /// Ends a wait; late answers go nowhere.
    pub(super) fn settle(&self, id: u64, outcome: Outcome) {
        self.waiters.settle(id, outcome);
        // What the tool says from here on is of no call that it has answered.
        self.board.ended(id);
    }

    /// The start is done. False if the process has ended meanwhile.
    pub(super) fn open(&self) -> bool {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = *phase == Phase::Opening;
        if alive {
            *phase = Phase::Open;
        }
        alive
    }

    /// The process has ended by itself: tells all who wait, and whoever listens.
    pub(super) fn ended(&self, status: Box<str>) {
        let stderr = self.tail().end();
        let before = {
            let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *phase, Phase::Ended)
        };
        if before == Phase::Open {
            self.emit(ToolEvent::Exited { status: status.clone(), stderr: stderr.clone() });
        }
        self.waiters.close(&Error::Gone { status, stderr, sent: true });
    }

    /// Why nothing is answered any more; waits until that is known.
    pub(super) async fn why_closed(&self) -> Error {
        self.done.cancelled().await;
        self.waiters.closed().unwrap_or(Error::Stopped { sent: true })
    }

    /// Sends a message that nobody waits for. A tool that floods us with requests and does not read what
    /// we say misses some of it.
    pub(super) fn say(&self, message: String) {
        self.aside.try_send(message).ok();
    }

    /// Notes which request holds the subscription open.
    pub(super) fn listening(&self, id: u64) {
        self.subscription.lock().unwrap_or_else(PoisonError::into_inner).id = id;
    }

    /// The subscription is open. From the second time on something may have been missed.
    pub(super) fn acknowledged(&self, params: &RawValue) {
        let meta = envelope::members(params).and_then(|members| members.get("_meta"));
        let id = meta.and_then(envelope::members).and_then(|meta| meta.get(wire::SUBSCRIPTION_KEY));
        let id = id.and_then(envelope::Id::from_raw).and_then(|id| id.as_u64());
        let mut subscription = self.subscription.lock().unwrap_or_else(PoisonError::into_inner);
        if id == Some(subscription.id) {
            let again = std::mem::replace(&mut subscription.was_open, true);
            drop(subscription);
            if again {
                self.emit(ToolEvent::Reconnected);
            }
        }
    }

    /// The tool ends the subscription, or withdraws a question; it may not cancel anything else.
    pub(super) fn cancelled_by_tool(&self, params: &RawValue) {
        let id = envelope::members(params).and_then(|members| members.get("requestId"));
        let id = id.and_then(envelope::Id::from_raw).and_then(|id| id.as_u64());
        let open = self.subscription.lock().unwrap_or_else(PoisonError::into_inner).id;
        if open != 0 && id == Some(open) {
            self.settle(open, Err(Error::Cancelled));
        } else {
            self.board.withdraw(params);
        }
    }

    pub(super) fn add_noise(&self, line: &[u8]) {
        let mut noise = self.noise.lock().unwrap_or_else(PoisonError::into_inner);
        noise.lines += 1;
        if noise.first.is_empty() {
            let head = line.get(..line.len().min(1000)).unwrap_or_default();
            noise.first = crate::show::line(&written_out(head), 200).into();
        }
    }

    pub(super) fn noise(&self) -> Noise {
        self.noise.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes as text, those that are no UTF-8 written out.
fn written_out(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    out
}
