//! A tool's main process and everything below it, as the shim sees them: waits, signals, ends them all.

use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait};
use tokio::signal::unix::Signal as Signals;

/// Between two looks for what is left, doubled from the first to the second: a child that is handed over
/// to this process makes no signal, and one that cannot be killed must not cost a processor.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

pub(super) struct Tree {
    main: Pid,
    status: Option<WaitStatus>,
}

impl Tree {
    pub(super) const fn new(main: Pid) -> Self {
        Self { main, status: None }
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.status.is_some()
    }

    /// Takes note of all that ended, orphans too, so that none stays a zombie. Whether any is left.
    pub(super) fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.status = Some(status),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// To the tool's group, as long as its number is its own.
    pub(super) fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            kill_process_group(self.main, signal).ok();
        }
    }

    /// Waits until nothing is left.
    pub(super) async fn empty(&mut self, child: &mut Signals) {
        while self.reap() {
            child.recv().await;
        }
    }

    /// Kills until nothing is left.
    ///
    /// Only children are killed: their numbers are theirs until this process takes note of their end, so
    /// no other process is ever hit. What they leave behind becomes a child and comes next.
    pub(super) async fn end(&mut self, child: &mut Signals) {
        self.signal(Signal::KILL);
        let mut look = LOOKS.0;
        while self.reap() {
            for pid in children() {
                kill_process(pid, Signal::KILL).ok();
            }
            tokio::time::timeout(look, child.recv()).await.ok();
            look = (look * 2).min(LOOKS.1);
        }
    }

    /// How the main process ended, as the lease's last word and as an exit code.
    pub(super) fn status(&self) -> (String, u8) {
        let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
        let Some(status) = self.status else { return (String::new(), u8::MAX) };
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => (format!("code {code}\n"), byte(code)),
            (None, Some(signal)) => (format!("signal {signal}\n"), byte(signal.saturating_add(128))),
            (None, None) => (String::new(), u8::MAX),
        }
    }
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let this = getpid();
    let parent = |number: i32| {
        let stat = std::fs::read(format!("/proc/{number}/stat")).ok()?;
        // The name, in parentheses, may hold anything; state and parent stand after it.
        let after = stat.iter().rposition(|byte| *byte == b')')?;
        let after = std::str::from_utf8(stat.get(after + 1..)?).ok()?;
        after.split_ascii_whitespace().nth(1)?.parse().ok().and_then(Pid::from_raw)
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| parent(*number) == Some(this))
        .filter_map(Pid::from_raw)
        .collect()
}
