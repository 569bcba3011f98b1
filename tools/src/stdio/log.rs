//! What a tool writes to stderr, in a file that people read: a time before each line, all text visible.
//!
//! Bounded in size, in the length of a line and in what is written a second; what is left out is counted
//! in its place. A log that cannot be written never holds up the tool.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use domain::time::Timestamp;

/// Bytes of the file before it is put aside, in place of the one put aside before: 1 MiB, some ten
/// thousand lines, twice that in all.
const MOST: u64 = 1 << 20;
/// Bytes of one line that are kept; more is seldom text.
const LINE: usize = 4 << 10;
/// Bytes written a second in the long run: the whole log then still tells of half a minute.
const RATE: u64 = 64 << 10;
/// Bytes at once: a long stack trace, or what a server says as it starts.
const BURST: u64 = 256 << 10;

/// After a write failed, until the next is tried: a disk that has room again is written to soon, and one
/// that has none costs a tool that writes without end next to nothing.
const AGAIN: Duration = Duration::from_secs(10);

/// The log of one run of a tool; appends to that of the runs before.
pub(super) struct Log {
    path: PathBuf,
    /// Nothing while it cannot be written.
    file: Option<File>,
    /// When that is tried again.
    again: Instant,
    /// Lines that could not be written, since one could.
    unwritten: u64,
    failed: bool,
    size: u64,
    line: Vec<u8>,
    cut: bool,
    budget: Budget,
    left_out: u64,
}

/// Bytes that may be written.
struct Budget {
    bytes: u64,
    since: Instant,
}

impl Log {
    /// Opens the log, with the folder that it is in.
    pub(super) fn open(path: &Path, now: Instant) -> Self {
        let mut log = Self {
            path: path.to_owned(),
            file: None,
            again: now,
            unwritten: 0,
            failed: false,
            size: 0,
            line: Vec::new(),
            cut: false,
            budget: Budget { bytes: BURST, since: now },
            left_out: 0,
        };
        log.open_again(now);
        log
    }

    /// Takes what was read. Lines are written as they end.
    pub(super) fn push(&mut self, bytes: &[u8], now: Instant, time: Timestamp) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let kept = text.len().min(LINE.saturating_sub(self.line.len()));
            self.cut |= kept < text.len();
            self.line.extend_from_slice(text.get(..kept).unwrap_or_default());
            if piece.ends_with(b"\n") {
                self.end_line(now, time);
            }
        }
    }

    /// Writes the last line, which nothing ended, and how much was left out.
    pub(super) fn end(&mut self, now: Instant, time: Timestamp) {
        if !self.line.is_empty() {
            self.end_line(now, time);
        }
        self.say_left_out(now, time);
    }

    fn end_line(&mut self, now: Instant, time: Timestamp) {
        let line = std::mem::take(&mut self.line);
        let more = if std::mem::take(&mut self.cut) { "…" } else { "" };
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line));
        let text = format!("{time} {}{more}\n", domain::visible::make_visible(&text));
        if self.budget.take(text.len() as u64, now) {
            self.say_left_out(now, time);
            self.write(&text, now, time);
        } else {
            self.left_out += 1;
        }
    }

    fn say_left_out(&mut self, now: Instant, time: Timestamp) {
        if self.left_out > 0 {
            let lines = std::mem::take(&mut self.left_out);
            let text = format!("{time} [{lines} line(s) left out: more than {} KiB a second]\n", RATE >> 10);
            self.write(&text, now, time);
        }
    }

    fn write(&mut self, text: &str, now: Instant, time: Timestamp) {
        if self.file.is_none() && now >= self.again {
            self.open_again(now);
        }
        if self.file.is_none() {
            self.unwritten += 1;
            return;
        }
        let lost = match self.unwritten {
            0 => String::new(),
            lines => format!("{time} [{lines} line(s) lost: the log could not be written]\n"),
        };
        let text = lost + text;
        let outcome = if self.size + text.len() as u64 > MOST { self.put_aside() } else { Ok(()) };
        let outcome =
            outcome.and_then(|()| self.file.as_mut().map_or(Ok(()), |file| file.write_all(text.as_bytes())));
        self.size += text.len() as u64;
        self.unwritten = if outcome.is_ok() { 0 } else { self.unwritten + 1 };
        self.note(&outcome, now);
    }

    /// Opens it, with the folder that it is in.
    fn open_again(&mut self, now: Instant) {
        let opened = self.path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| self.append());
        self.note(&opened, now);
    }

    fn put_aside(&mut self) -> io::Result<()> {
        if self.file.take().is_none() {
            return Ok(());
        }
        std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        self.append()
    }

    fn append(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// A failure is told once: a full disk is not told of for each line.
    fn note(&mut self, outcome: &io::Result<()>, now: Instant) {
        if let Err(error) = outcome {
            self.file = None;
            self.again = now + AGAIN;
            if !std::mem::replace(&mut self.failed, true) {
                tracing::warn!(path = %self.path.display(), error = %error, "a tool's log cannot be written; it is tried again");
            }
        } else {
            self.failed = false;
        }
    }
}

impl Budget {
    fn take(&mut self, bytes: u64, now: Instant) -> bool {
        let passed: Duration = now.saturating_duration_since(self.since);
        let more = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).saturating_mul(RATE) / 1000;
        // A pause too short to count stays to be counted.
        if more > 0 {
            self.bytes = self.bytes.saturating_add(more).min(BURST);
            self.since = now;
        }
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Timestamp = Timestamp::from_millis(0);
    const STAMP: &str = "1970-01-01T00:00:00.000Z ";

    struct Stage {
        folder: tempfile::TempDir,
        now: Instant,
    }

    impl Stage {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), now: Instant::now() }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("greeter@1.0.0/team.log")
        }

        fn open(&self) -> Log {
            Log::open(&self.path(), self.now)
        }

        fn read(&self) -> String {
            std::fs::read_to_string(self.path()).unwrap().replace(STAMP, "")
        }
    }

    #[test]
    fn lines_are_visible_stamped_and_added_to_those_of_the_run_before() {
        let stage = Stage::new();
        for _ in 0..2 {
            let mut log = stage.open();
            log.push(b"one\r\nt", stage.now, TIME);
            log.push(b"w\x1b[31mo\xFF\nno end", stage.now, TIME);
            log.end(stage.now, TIME);
        }
        assert_eq!(stage.read(), "one\ntw\\u{1B}[31mo\u{FFFD}\nno end\n".repeat(2));
        assert!(std::fs::read_to_string(stage.path()).unwrap().starts_with(STAMP));
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory_and_is_cut() {
        let stage = Stage::new();
        let mut log = stage.open();
        for _ in 0..1000 {
            log.push(&[b'x'; 10_000], stage.now, TIME);
        }
        log.push(b"\nnext\n", stage.now, TIME);
        assert_eq!(stage.read(), format!("{}…\nnext\n", "x".repeat(LINE)));
    }

    #[test]
    fn a_flood_is_left_out_and_counted() {
        let stage = Stage::new();
        let mut log = stage.open();
        let line = [&[b'x'; 1000][..], b"\n"].concat();
        for _ in 0..10_000 {
            log.push(&line, stage.now, TIME);
        }
        let kept = stage.read().lines().count();
        assert!((200..=256).contains(&kept), "{kept}");
        log.push(b"calm\n", stage.now + Duration::from_secs(1), TIME);
        let left_out = 10_000 - kept;
        let end = format!("[{left_out} line(s) left out: more than 64 KiB a second]\ncalm\n");
        assert!(stage.read().ends_with(&end));
    }

    #[test]
    fn a_full_log_is_put_aside_once() {
        let stage = Stage::new();
        let mut log = stage.open();
        let line = [&[b'x'; 1000][..], b"\n"].concat();
        for second in 0..100 {
            for _ in 0..60 {
                log.push(&line, stage.now + Duration::from_secs(second), TIME);
            }
        }
        let folder = stage.path().parent().unwrap().to_owned();
        let mut sizes: Vec<(String, u64)> = std::fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
            .collect();
        sizes.sort();
        assert!(
            matches!(&*sizes, [(a, x), (b, y)] if a == "team.log" && b == "team.log.1" && *x <= MOST && *y <= MOST),
            "{sizes:?}"
        );
    }

    #[test]
    fn a_log_that_could_not_be_written_goes_on_when_it_can_and_counts_what_was_lost() {
        let stage = Stage::new();
        let folder = stage.path().parent().unwrap().to_owned();
        std::fs::write(&folder, "in the way").unwrap();
        let mut log = stage.open();
        log.push(b"one\ntwo\n", stage.now, TIME);
        std::fs::remove_file(&folder).unwrap();
        log.push(b"three\n", stage.now, TIME);
        assert!(!folder.exists(), "it is not tried again at once");
        log.push(b"four\n", stage.now + AGAIN, TIME);
        assert_eq!(stage.read(), "[3 line(s) lost: the log could not be written]\nfour\n");
    }

    #[test]
    fn a_full_disk_costs_lines_and_nothing_else() {
        let stage = Stage::new();
        let mut log = Log::open(Path::new("/dev/full"), stage.now);
        log.push(b"one\n", stage.now, TIME);
        log.push(b"two\n", stage.now + AGAIN, TIME);
        assert_eq!((log.unwritten, log.file.is_none()), (2, true));
    }

    #[test]
    fn a_log_that_cannot_be_written_is_done_without() {
        let stage = Stage::new();
        let mut log = Log::open(Path::new("/dev/null/team.log"), stage.now);
        log.push(b"one\n", stage.now, TIME);
        log.end(stage.now, TIME);
    }
}
