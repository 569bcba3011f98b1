//! Lines on stdin and stdout: one message each.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

/// Bytes of one line: what the endpoint takes as one request.
pub(super) const LINE_BYTES: usize = 16 << 20;

/// One line of input.
pub(super) enum Line {
    Message(Vec<u8>),
    /// Over [`LINE_BYTES`]; thrown away as it came.
    TooLong,
}

/// Lines of stdin.
pub(super) struct Lines<R>(BufReader<R>);

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(stdin: R) -> Self {
        Self(BufReader::with_capacity(64 << 10, stdin))
    }

    /// The next line that is not empty; `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        let mut is_too_long = false;
        loop {
            let buffer = self.0.fill_buf().await?;
            let at_end = buffer.is_empty();
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
            if line.len() + part.len() > LINE_BYTES {
                is_too_long = true;
                line.clear();
            } else if !is_too_long {
                line.extend_from_slice(part);
            }
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.0.consume(taken);
            if end.is_none() && !at_end {
                continue;
            }
            if is_too_long {
                return Ok(Some(Line::TooLong));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(Line::Message(line)));
            }
            if at_end {
                return Ok(None);
            }
            line.clear();
        }
    }
}

/// Writes messages as lines until all senders are gone; flushes whenever none is waiting.
pub(super) async fn write(
    mut messages: mpsc::Receiver<String>,
    mut stdout: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        let mut next = Some(message);
        while let Some(mut message) = next {
            // Line ends in JSON are between members only.
            if message.contains(['\n', '\r']) {
                message = message.replace(['\n', '\r'], " ");
            }
            message.push('\n');
            stdout.write_all(message.as_bytes()).await?;
            next = messages.try_recv().ok();
        }
        stdout.flush().await?;
    }
    Ok(())
}
