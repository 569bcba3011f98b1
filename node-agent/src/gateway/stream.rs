//! Streams of events: a call with its progress, and announcements that the list changed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures::stream::unfold;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tools::RawProgress;
use tools::envelope;

use super::protocol::PROGRESS;
use super::session::Use;
use super::{Shared, answer};

/// Progress messages kept for a slow reader; older ones say nothing that the newest does not.
pub(super) const PROGRESS_KEPT: usize = 64;

/// A call's answer to come; `None` if its client cancelled it.
pub(super) type Answer = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

struct CallStream {
    answer: Option<Answer>,
    progress: mpsc::Receiver<RawProgress>,
    /// Progress that was there when the answer came, and the answer.
    last: std::collections::VecDeque<Bytes>,
    token: Box<RawValue>,
    keep_alive: Duration,
    _cancel: Option<DropGuard>,
}

/// Answers a call with a stream: its progress, then its answer, then the end.
///
/// The call runs within the stream, so that a client that goes away drops both.
pub(super) fn call(
    answer: Answer,
    progress: mpsc::Receiver<RawProgress>,
    token: Box<RawValue>,
    keep_alive: Duration,
    cancel: Option<DropGuard>,
) -> Response {
    let last = std::collections::VecDeque::new();
    let state = CallStream { answer: Some(answer), progress, last, token, keep_alive, _cancel: cancel };
    answer::events(unfold(state, |mut state| async move { Some((state.next().await?, state)) }))
}

impl CallStream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(event) = self.last.pop_front() {
            return Some(event);
        }
        let answer = self.answer.as_mut()?;
        tokio::select! {
            biased;
            Some(progress) = self.progress.recv() => Some(event(&progress, &self.token)),
            answer = answer => {
                self.answer = None;
                while let Ok(progress) = self.progress.try_recv() {
                    self.last.push_back(event(&progress, &self.token));
                }
                self.last.extend(answer.map(|answer| answer::event(&answer)));
                self.last.pop_front()
            }
            () = tokio::time::sleep(self.keep_alive) => Some(answer::comment()),
        }
    }
}

fn event(progress: &RawProgress, token: &RawValue) -> Bytes {
    answer::event(&envelope::notification(PROGRESS, Some(&progress.with_token(token))))
}

/// What a stream of announcements says.
pub(super) struct Announce {
    /// Said at once.
    pub(super) first: Option<String>,
    /// Said at each real change of the list.
    pub(super) changed: Option<String>,
    /// Said when the node ends the stream in order.
    pub(super) last: Option<String>,
    /// The revision of the list that the client knows.
    pub(super) known: u64,
    /// A session's: what ends the stream early, and what keeps the session in use.
    pub(super) session: Option<OfSession>,
}

/// What ties a stream to its session.
pub(super) struct OfSession {
    pub(super) ended: CancellationToken,
    pub(super) replaced: watch::Receiver<u64>,
    pub(super) _use: Use,
}

struct AnnounceStream {
    shared: Arc<Shared>,
    announce: Announce,
    revisions: watch::Receiver<u64>,
    over: bool,
    _room: OwnedSemaphorePermit,
}

/// Announces until the client goes away, the session ends, or the node stops.
pub(super) fn announce(shared: &Arc<Shared>, announce: Announce, room: OwnedSemaphorePermit) -> Response {
    let revisions = shared.lists.revisions();
    let state = AnnounceStream { shared: Arc::clone(shared), announce, revisions, over: false, _room: room };
    answer::events(unfold(state, |mut state| async move { Some((state.next().await?, state)) }))
}

impl AnnounceStream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.announce.first.take() {
            return Some(answer::event(&first));
        }
        if self.over {
            return None;
        }
        loop {
            let revision = *self.revisions.borrow_and_update();
            if revision != self.announce.known {
                self.announce.known = revision;
                if let Some(changed) = &self.announce.changed {
                    return Some(answer::event(changed));
                }
            }
            tokio::select! {
                biased;
                () = self.shared.shutdown.cancelled() => {
                    self.over = true;
                    return self.announce.last.take().map(|last| answer::event(&last));
                }
                () = ended(&mut self.announce.session) => return None,
                changed = self.revisions.changed() => changed.ok()?,
                () = tokio::time::sleep(self.shared.config.keep_alive) => return Some(answer::comment()),
            }
        }
    }
}

/// Waits for the end of the session, or for its next stream; for ever without one.
async fn ended(session: &mut Option<OfSession>) {
    match session {
        None => std::future::pending().await,
        Some(session) => tokio::select! {
            () = session.ended.cancelled() => {}
            _ = session.replaced.changed() => {}
        },
    }
}
