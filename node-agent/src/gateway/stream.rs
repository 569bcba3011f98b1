//! Streams of events: a call with its progress, and announcements that the list changed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::call::Answered;
use super::post::said;
use super::session::Use;
use super::{Shared, answer};

/// Messages kept for a slow reader; more are refused to the tool.
pub(super) const MESSAGES_KEPT: usize = 64;

/// A call's answer to come; `None` if its client cancelled it.
pub(super) type Answer = Pin<Box<dyn Future<Output = Option<Answered>> + Send>>;

/// What is said before a call's answer.
pub(super) struct Said {
    /// Progress, questions and log messages, where the client can be told.
    pub(super) messages: Option<mpsc::Receiver<String>>,
    /// The first of them, if it came already.
    pub(super) first: Option<String>,
}

struct CallStream {
    answer: Option<Answer>,
    said: Said,
    /// What was there to be said when the answer came, and the answer.
    last: std::collections::VecDeque<Bytes>,
    keep_alive: Duration,
    _cancel: Option<DropGuard>,
}

/// Answers a call with a stream: its progress, then its answer, then the end.
///
/// A client that goes away drops the call. One that stays and does not read does not hold it up: the call
/// runs beside the stream, so that its tool is free when it has answered.
pub(super) fn call(
    answer: Answer,
    mut said: Said,
    keep_alive: Duration,
    cancel: Option<DropGuard>,
) -> Response {
    let last = said.first.take().map(|first| answer::event(&first)).into_iter().collect();
    let running = AbortOnDropHandle::new(tokio::spawn(answer));
    let answer: Answer = Box::pin(async move { running.await.ok().flatten() });
    let state = CallStream { answer: Some(answer), said, last, keep_alive, _cancel: cancel };
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
            Some(message) = said(&mut self.said.messages) => Some(answer::event(&message)),
            answer = answer => {
                self.answer = None;
                while let Some(Ok(message)) = self.said.messages.as_mut().map(mpsc::Receiver::try_recv) {
                    self.last.push_back(answer::event(&message));
                }
                self.last.extend(answer.map(|answer| answer::event(&answer.text)));
                self.last.pop_front()
            }
            () = tokio::time::sleep(self.keep_alive) => Some(answer::comment()),
        }
    }
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
    /// What tools have to say to its client, and no call's stream takes.
    pub(super) messages: mpsc::Receiver<String>,
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
                message = of_session(&mut self.announce.session) => {
                    return message.map(|message| answer::event(&message));
                }
                changed = self.revisions.changed() => changed.ok()?,
                () = tokio::time::sleep(self.shared.config.keep_alive) => return Some(answer::comment()),
            }
        }
    }
}

/// Waits for a message of the session; `None` at its end, or with its next stream. For ever without one.
async fn of_session(session: &mut Option<OfSession>) -> Option<String> {
    match session {
        None => std::future::pending().await,
        Some(session) => tokio::select! {
            biased;
            () = session.ended.cancelled() => None,
            Some(message) = session.messages.recv() => Some(message),
            _ = session.replaced.changed() => None,
        },
    }
}
