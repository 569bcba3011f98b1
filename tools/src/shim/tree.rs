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
    most: Option<u64>,
    /// The number that the system gave last, and how many processes there were, at the last count.
    counted: Option<(u64, u64)>,
    over: bool,
}

impl Tree {
    pub(super) const fn new(main: Pid, most: Option<u64>) -> Self {
        Self { main, status: None, most, counted: None, over: false }
    }

    /// Whether the number of its processes is limited.
    pub(super) const fn is_limited(&self) -> bool {
        self.most.is_some()
    }

    /// Whether there are more processes than there may be. They are counted only if the system has given
    /// out enough numbers since the last count for that to be possible: counting reads all of `/proc`.
    pub(super) fn is_over(&mut self) -> bool {
        let Some(most) = self.most else { return false };
        let newest = newest_number();
        if let (Some((then, count)), Some(newest)) = (self.counted, newest)
            && newest.checked_sub(then).is_some_and(|given| given.saturating_add(count) <= most)
        {
            return false;
        }
        let count = descendants();
        self.counted = newest.map(|newest| (newest, count));
        self.over = count > most;
        self.over
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
        if let (true, Some(most)) = (self.over, self.most) {
            return (format!("over {most}\n"), u8::MAX);
        }
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
    let this = getpid().as_raw_nonzero().get();
    let children = parents().filter(|(_, parent)| *parent == this);
    children.filter_map(|(number, _)| Pid::from_raw(number)).collect()
}

/// How many processes are below this one; those that ended and were not noted yet count too.
fn descendants() -> u64 {
    let mut below = std::collections::HashMap::<i32, Vec<i32>>::new();
    for (number, parent) in parents() {
        below.entry(parent).or_default().push(number);
    }
    let (mut count, mut next) = (0, vec![getpid().as_raw_nonzero().get()]);
    while let Some(number) = next.pop() {
        let children = below.remove(&number).unwrap_or_default();
        count += children.len() as u64;
        next.extend(children);
    }
    count
}

/// Each process of the system and its parent.
fn parents() -> impl Iterator<Item = (i32, i32)> {
    let parent = |number: i32| {
        let stat = std::fs::read(format!("/proc/{number}/stat")).ok()?;
        // The name, in parentheses, may hold anything; state and parent stand after it.
        let after = stat.iter().rposition(|byte| *byte == b')')?;
        let after = std::str::from_utf8(stat.get(after + 1..)?).ok()?;
        after.split_ascii_whitespace().nth(1)?.parse::<i32>().ok()
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(move |number| Some((number, parent(number)?)))
}

/// The process number that the system gave out last.
fn newest_number() -> Option<u64> {
    let loads = std::fs::read_to_string("/proc/loadavg").ok()?;
    loads.split_ascii_whitespace().last()?.parse().ok()
}
