//! A tool's stdin. One whole line at a time, also when who writes it stops waiting in the middle.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::wire::Gate;

/// A line this long does not keep its memory for the small ones after it.
const KEEP: usize = 1 << 20;

/// Why a line was not written.
#[derive(Debug)]
pub(super) enum Unwritten {
    Refused,
    /// Stdin was closed, by us or by the tool.
    Closed,
}

pub(super) struct Pipe {
    open: Mutex<Option<Open>>,
    /// Set when the tool is being stopped: ends a write into a full pipe.
    closing: CancellationToken,
}

struct Open {
    stdin: ChildStdin,
    /// The line being written. Who wrote it may have gone; then the next one ends it first.
    line: Vec<u8>,
    written: usize,
}

impl Pipe {
    pub(super) fn new(stdin: ChildStdin) -> Self {
        let open = Open { stdin, line: Vec::new(), written: 0 };
        Self { open: Mutex::new(Some(open)), closing: CancellationToken::new() }
    }

    /// Writes one message. `gate` is asked once it is this line's turn, right before its first byte;
    /// `begun` is set when it let the line through. Safe to drop at any await.
    pub(super) async fn write(
        &self,
        message: &str,
        gate: Option<&Gate>,
        begun: &AtomicBool,
    ) -> Result<(), Unwritten> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(Unwritten::Closed),
            outcome = self.write_in_turn(message, gate, begun) => outcome,
        }
    }

    async fn write_in_turn(
        &self,
        message: &str,
        gate: Option<&Gate>,
        begun: &AtomicBool,
    ) -> Result<(), Unwritten> {
        let mut guard = self.open.lock().await;
        let open = guard.as_mut().ok_or(Unwritten::Closed)?;
        open.flush().await?;
        if gate.is_some_and(|gate| !gate()) {
            return Err(Unwritten::Refused);
        }
        begun.store(true, Ordering::Release);
        open.set(message);
        open.flush().await
    }

    /// Closes stdin; a line that is being written stays half.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.open.lock().await.take();
    }
}

impl Open {
    fn set(&mut self, message: &str) {
        self.line.clear();
        if self.line.capacity() > KEEP {
            self.line = Vec::new();
        }
        self.written = 0;
        // Valid JSON has raw line ends between its members only; a message may have none.
        self.line.extend(message.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        self.line.push(b'\n');
    }

    async fn flush(&mut self) -> Result<(), Unwritten> {
        while let Some(rest) = self.line.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stdin.write(rest).await {
                Ok(0) | Err(_) => return Err(Unwritten::Closed),
                Ok(count) => self.written += count,
            }
        }
        Ok(())
    }
}
