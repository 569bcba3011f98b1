//! What the kernel says of processes, and signals to them. Linux only, as the product's nodes are in tests.

use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

/// The processes whose command line names this folder.
pub fn naming(folder: &Path) -> Vec<u32> {
    let folder = folder.as_os_str().as_encoded_bytes().to_owned();
    let names = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        !folder.is_empty() && line.windows(folder.len()).any(|part| part == folder)
    };
    all().into_iter().filter(names).filter(|pid| is_running(*pid)).collect()
}

/// The children of a process.
pub fn children(of: u32) -> Vec<u32> {
    all().into_iter().filter(|pid| parent(*pid) == Some(of)).collect()
}

/// Whether one of these is the process or an ancestor of it.
pub fn descends_from(pid: u32, ancestors: &[u32]) -> bool {
    let mut at = Some(pid);
    while let Some(pid) = at.filter(|pid| *pid > 1) {
        if ancestors.contains(&pid) {
            return true;
        }
        at = parent(pid);
    }
    false
}

/// Whether it runs: a zombie does not.
pub fn is_running(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// How many file descriptors it has.
///
/// # Errors
/// It is gone.
pub fn open_files(pid: u32) -> Result<usize> {
    let folder = format!("/proc/{pid}/fd");
    Ok(std::fs::read_dir(&folder).with_context(|| format!("failed to read {folder}"))?.count())
}

/// Its resident memory.
///
/// # Errors
/// It is gone.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().context("failed to read VmRSS")?;
    Ok(kib * 1024)
}

/// Kills it as `kill -9` does.
///
/// # Errors
/// It is gone.
pub fn kill(pid: u32) -> Result<()> {
    send(pid, Signal::KILL)
}

/// Sends it SIGQUIT.
///
/// # Errors
/// It is gone.
pub fn quit(pid: u32) -> Result<()> {
    send(pid, Signal::QUIT)
}

/// Stops it where it stands.
///
/// # Errors
/// It is gone.
pub fn pause(pid: u32) -> Result<()> {
    send(pid, Signal::STOP)
}

/// Lets it go on.
///
/// # Errors
/// It is gone.
pub fn resume(pid: u32) -> Result<()> {
    send(pid, Signal::CONT)
}

fn send(pid: u32, signal: Signal) -> Result<()> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).context("failed to name the process")?;
    kill_process(raw, signal).with_context(|| format!("failed to send {signal:?} to {pid}"))
}

fn all() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, parent)| parent)
}

/// Its state's letter and its parent. Its name stands before both, in brackets that it may hold itself.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit_once(") ")?.1.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}
