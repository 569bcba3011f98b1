//! The end of a tool's stderr: always drained, never more than bounded memory.

use std::collections::VecDeque;

/// Kept of stderr, 64 KiB: some hundred lines, enough to see why a tool failed.
const KEPT: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: VecDeque<u8>,
    total: u64,
}

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let bytes = bytes.get(bytes.len().saturating_sub(KEPT)..).unwrap_or_default();
        let over = (self.kept.len() + bytes.len()).saturating_sub(KEPT);
        self.kept.drain(..over);
        self.kept.extend(bytes);
    }

    /// What is kept, made visible, and how many bytes came in all.
    pub(super) fn read(&self) -> (String, u64) {
        let bytes: Vec<u8> = self.kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        (domain::visible::make_visible(&text).into_owned(), self.total)
    }

    /// The last lines, for a sentence.
    pub(super) fn end(&self) -> Box<str> {
        /// Room for the last line of a stack trace and some before it.
        const MOST: usize = 600;
        let (text, _) = self.read();
        let text = text.trim();
        let from = text.char_indices().rev().nth(MOST - 1).map_or(0, |(at, _)| at);
        let end = text.get(from..).unwrap_or_default();
        // Begin with a whole line where there is one.
        let end = if from > 0 { end.split_once('\n').map_or(end, |(_, rest)| rest) } else { end };
        end.trim().replace('\n', " | ").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_last_bytes_and_counts_all() {
        let mut tail = Tail::default();
        for _ in 0..3 {
            tail.push(&vec![b'x'; 50 << 10]);
        }
        tail.push(b"\nerror: no \xFFsuch\nlast\n");
        let (text, total) = tail.read();
        assert_eq!(total, (150 << 10) + 22);
        assert!(text.len() <= KEPT + 2 && text.ends_with("last\n"));
        assert_eq!(&*tail.end(), "error: no \u{FFFD}such | last");
        tail.push(&vec![b'y'; 1 << 20]);
        assert_eq!(tail.read().0.len(), KEPT);
    }
}
