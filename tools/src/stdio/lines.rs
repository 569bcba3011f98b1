//! A tool's stdout as lines, each bounded: the rest of one over the limit is thrown away as it comes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::envelope::{IdScan, Scanned};

/// Read at once; a pipe holds as much.
const CHUNK: usize = 64 << 10;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// Over the limit: what a light scan found in it, and its length.
    TooLong {
        scanned: Scanned,
        bytes: u64,
    },
}

/// What is left of a line that is being thrown away.
struct Thrown {
    scan: IdScan,
    bytes: u64,
}

pub(super) struct Lines<R> {
    source: R,
    limit: usize,
    buffer: Vec<u8>,
    /// The first byte not handed out yet.
    start: usize,
    /// Up to here there is no line end.
    searched: usize,
    thrown: Option<Thrown>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(source: R, limit: usize) -> Self {
        Self { source, limit, buffer: Vec::new(), start: 0, searched: 0, thrown: None, ended: false }
    }

    /// The next line; the last one needs no line end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            let unread = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(found) = memchr::memchr(b'\n', unread) {
                let (from, to) = (self.start, self.searched + found);
                self.start = to + 1;
                self.searched = self.start;
                return Ok(Some(self.line(from, to)));
            }
            self.searched = self.buffer.len();
            self.bound();
            if self.ended {
                let (from, to) = (self.start, self.buffer.len());
                self.start = to;
                if from == to && self.thrown.is_none() {
                    return Ok(None);
                }
                return Ok(Some(self.line(from, to)));
            }
            self.fill().await?;
        }
    }

    fn line(&mut self, from: usize, to: usize) -> Line<'_> {
        let bytes = self.buffer.get(from..to).unwrap_or_default();
        if let Some(mut thrown) = self.thrown.take() {
            thrown.scan.feed(bytes);
            let bytes = thrown.bytes + bytes.len() as u64;
            return Line::TooLong { scanned: thrown.scan.finish(), bytes };
        }
        if bytes.len() > self.limit {
            let mut scan = IdScan::default();
            scan.feed(bytes);
            return Line::TooLong { scanned: scan.finish(), bytes: bytes.len() as u64 };
        }
        Line::Whole(bytes.strip_suffix(b"\r").unwrap_or(bytes))
    }

    /// Throws away what a line has over the limit, or has after that.
    fn bound(&mut self) {
        let held = self.buffer.len() - self.start;
        if held == 0 || (self.thrown.is_none() && held <= self.limit) {
            return;
        }
        let thrown = self.thrown.get_or_insert_with(|| Thrown { scan: IdScan::default(), bytes: 0 });
        thrown.scan.feed(self.buffer.get(self.start..).unwrap_or_default());
        thrown.bytes += held as u64;
        self.buffer = Vec::new();
        self.start = 0;
        self.searched = 0;
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
            // A long line does not keep its memory for the small ones after it.
            if self.buffer.is_empty() && self.buffer.capacity() > 16 * CHUNK {
                self.buffer = Vec::new();
            }
        }
        self.buffer.reserve(CHUNK);
        self.ended = self.source.read_buf(&mut self.buffer).await? == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], limit: usize) -> Vec<String> {
        let mut lines = Lines::new(text, limit);
        let mut out = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            out.push(match line {
                Line::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Line::TooLong { scanned, bytes } => format!("{bytes} {:?}", scanned.answers),
            });
        }
        out
    }

    #[tokio::test]
    async fn lines_end_with_lf_or_crlf_or_the_stream() {
        assert_eq!(read(b"a\r\n\nb\nlast", 10).await, ["a", "", "b", "last"]);
        assert!(read(b"", 10).await.is_empty());
    }

    /// Case C22.
    #[tokio::test]
    async fn a_line_over_the_limit_is_thrown_away_and_its_id_kept() {
        let long = format!(r#"{{"jsonrpc":"2.0","result":"{}","id":7}}"#, "y".repeat(300_000));
        let text = format!("one\n{long}\ntwo\n{long}");
        let size = long.len();
        let wanted = ["one".to_owned(), format!("{size} [7]"), "two".to_owned(), format!("{size} [7]")];
        assert_eq!(read(text.as_bytes(), 100_000).await, wanted);
        assert_eq!(read(text.as_bytes(), 100).await, wanted);
    }
}
