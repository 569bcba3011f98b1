//! The one task that reads a tool's stdout: each message is handled before the next is looked at.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use domain::time::Timestamp;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::lines::{Line, Lines};
use super::log::Log;
use super::shared::Shared;
use crate::envelope::{self, IdScan, Message, Scanned};
use crate::error::{Error, RpcError};
use crate::tool::ToolEvent;
use crate::wire;

/// Reads messages until stdout ends.
pub(super) async fn read<R: AsyncRead + Unpin>(stdout: R, limit: usize, shared: Arc<Shared>) {
    let mut lines = Lines::new(stdout, limit);
    // A read error is as good as the end.
    while let Ok(Some(line)) = lines.next().await {
        match line {
            Line::Whole(bytes) => handle(bytes, &shared),
            Line::TooLong { scanned, bytes } => spoilt(&scanned, &Error::TooLong { bytes, limit }, &shared),
        }
    }
    shared.output_ended.cancel();
}

/// Drains stderr for ever, so that a tool that logs never blocks.
///
/// The log is written in place: what it writes is bounded by the second and ends in the page cache.
pub(super) async fn drain<R: AsyncRead + Unpin>(mut stderr: R, shared: Arc<Shared>, log: Option<PathBuf>) {
    let mut log = log.map(|path| Log::open(&path, Instant::now()));
    let mut chunk = vec![0; 16 << 10];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        let bytes = chunk.get(..count).unwrap_or_default();
        shared.tail().push(bytes);
        if let Some(log) = &mut log {
            log.push(bytes, Instant::now(), wall());
        }
    }
    if let Some(log) = &mut log {
        log.end(Instant::now(), wall());
    }
}

/// The wall's clock, for people.
fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn handle(line: &[u8], shared: &Arc<Shared>) {
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let message = match envelope::parse(line) {
        Ok(message) => message,
        Err(error) => {
            let mut scan = IdScan::default();
            scan.feed(line);
            let scanned = scan.finish();
            if scanned.is_message {
                spoilt(&scanned, &Error::Unreadable(error), shared);
            } else {
                shared.add_noise(line);
            }
            return;
        }
    };
    match &message {
        Message::Response { id: Some(id), outcome } => {
            if let Some(id) = id.as_u64() {
                shared.settle(id, wire::outcome(*outcome));
            }
        }
        // It could not read a request of ours and does not know whose it was.
        Message::Response { id: None, outcome } => {
            if let (Err(error), Some(id)) = (outcome, shared.waiters.only_one()) {
                shared.settle(id, Err(Error::Rpc(RpcError::from_raw(error))));
            }
        }
        Message::Request { id, method, params } if shared.replies.load(Ordering::Acquire) => {
            if method == "ping" {
                shared.say(envelope::answer(id, "{}"));
            } else {
                let to = Arc::clone(shared);
                shared.board.ask(id, method, *params, None, move |message| to.say(message));
            }
        }
        // Modern servers may send none.
        Message::Request { .. } => {}
        Message::Notification { method, params } => match (method.as_ref(), params) {
            (wire::LIST_CHANGED, _) => shared.emit(ToolEvent::ListChanged),
            ("notifications/progress", Some(params)) => shared.waiters.progress(params),
            ("notifications/message", Some(params)) => {
                shared.board.log(params, None);
                shared.emit(ToolEvent::Log((*params).to_owned()));
            }
            ("notifications/elicitation/complete", Some(params)) => shared.board.elicited(params),
            (wire::ACKNOWLEDGED, Some(params)) => shared.acknowledged(params),
            ("notifications/cancelled", Some(params)) => shared.cancelled_by_tool(params),
            _ => {}
        },
    }
}

/// Fails at once the calls whose answers a spoilt message held; all others live on.
fn spoilt(scanned: &Scanned, error: &Error, shared: &Shared) {
    shared.waiters.spoil(scanned, error, |id| shared.board.ended(id));
}
