//! Tools that are started and ended over and over leave nothing: no zombie, no orphan, no open file, no
//! memory. `PINTLE_LEAK_RESTARTS=1000` is the long form.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests fail by panicking"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc;
use tools::{CommandSpec, Confinement, Limits, Offers, ProcessLimits, Tool, ToolEvent, ToolSpec};

/// Long enough for a loaded machine; nothing waits for it to pass.
const PATIENCE: Duration = Duration::from_mins(1);

/// Restarts of the short form: enough that a file or process left by each shows.
const SHORT: usize = 24;

/// In the environment of every process of these tools.
const MARK: &str = "PINTLE_LEAK_MARK";

/// A server with a child, and a grandchild that left its session and ignores TERM.
const SERVER: &str = r#"
(trap '' TERM; exec setsid sleep 600) </dev/null >/dev/null 2>&1 &
(trap '' TERM; sleep 600 & wait) </dev/null >/dev/null 2>&1 &
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"t","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}' ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

struct Bench {
    folder: tempfile::TempDir,
    mark: String,
}

impl Bench {
    fn spec(&self) -> CommandSpec {
        let folder = self.folder.path();
        CommandSpec {
            command: vec!["bash".into(), folder.join("server.sh").to_str().unwrap().into()],
            env: vec![(MARK.into(), self.mark.clone())],
            work_dir: folder.to_owned(),
            path: "/usr/bin:/bin".into(),
            shim: Some(env!("CARGO_BIN_EXE_pintle-node").into()),
            log: Some(folder.join("tool.log")),
            process: ProcessLimits { memory: Some(1 << 30), files: Some(256), processes: Some(32) },
            confine: Some(Confinement {
                read: vec![folder.to_owned()],
                write: vec![folder.to_owned()],
                connect: Vec::new(),
            }),
            offers: Offers::default(),
            opening: tools::Opening::default(),
            limits: Limits::default(),
        }
    }

    async fn start(&self) -> (Tool, mpsc::UnboundedReceiver<ToolEvent>) {
        let (sender, events) = mpsc::unbounded_channel();
        let tell = Arc::new(move |event| {
            sender.send(event).ok();
        });
        (Tool::start(ToolSpec::Command(self.spec()), tell).await.unwrap(), events)
    }

    /// Starts the tool, lists it, and ends it in one of the ways in which tools end.
    async fn restart(&self, number: usize) {
        let (tool, mut events) = self.start().await;
        assert_eq!(tool.list().await.unwrap().list.entries.len(), 1);
        let main = i64::from(tool.process().unwrap().pid);
        match number % 4 {
            0 => tool.stop().await,
            1 => drop(tool),
            2 => {
                kill(main);
                let ended =
                    async { while !matches!(events.recv().await.unwrap(), ToolEvent::Exited { .. }) {} };
                tokio::time::timeout(PATIENCE, ended).await.unwrap();
            }
            _ => {
                let parent = field(main, 1).unwrap();
                kill(parent);
                let ended =
                    async { while !matches!(events.recv().await.unwrap(), ToolEvent::Exited { .. }) {} };
                tokio::time::timeout(PATIENCE, ended).await.unwrap();
                // What left the group of a tool whose shim was killed cannot be found by the agent; see the
                // module `tools::shim`. It is ended here, so that the count is of the rest.
                for (pid, _) in self.processes().into_iter().filter(|(pid, _)| field(*pid, 3) == Some(*pid)) {
                    kill(pid);
                }
            }
        }
        until("nothing of it runs", || self.processes().is_empty()).await;
    }

    /// Processes with this mark: number and state.
    fn processes(&self) -> Vec<(i64, char)> {
        let mark = format!("{MARK}={}", self.mark);
        let marked = |pid: &i64| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        numbers()
            .filter(marked)
            .filter_map(|pid| Some((pid, state(pid)?)))
            .filter(|(_, state)| *state != 'Z')
            .collect()
    }
}

fn numbers() -> impl Iterator<Item = i64> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A field of the process's line after its name: 0 state, 1 parent, 2 group, 3 session.
fn stat(pid: i64) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn field(pid: i64, index: usize) -> Option<i64> {
    stat(pid)?.get(index)?.parse().ok()
}

fn state(pid: i64) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

fn kill(pid: i64) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).ok();
}

/// Children of this process that ended and were not noted.
fn zombies() -> usize {
    let this = i64::from(std::process::id());
    numbers().filter(|pid| field(*pid, 1) == Some(this) && state(*pid) == Some('Z')).count()
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Resident memory that is no file's, in KiB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[expect(clippy::print_stderr, reason = "the figures are for who runs the long form")]
fn say(text: &str) {
    eprintln!("{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_are_started_and_ended_over_and_over_leave_nothing() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let restarts = std::env::var("PINTLE_LEAK_RESTARTS").map_or(SHORT, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.sh"), SERVER).unwrap();
    let mark = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    let bench = Bench { folder, mark };
    assert!(Path::new("/proc/self/environ").exists());
    // What is made once is made.
    let warm = restarts / 5;
    for number in 0..warm {
        bench.restart(number).await;
    }
    until("no zombie", || zombies() == 0).await;
    let before = (files(), memory());
    let began = Instant::now();
    for number in warm..restarts {
        bench.restart(number).await;
    }
    until("no zombie", || zombies() == 0).await;
    until("no file more", || files() <= before.0).await;
    assert_eq!(bench.processes(), []);
    let grown = memory().saturating_sub(before.1);
    // A file, task or buffer kept by each restart would be many times that in the long form; an allocator's
    // arenas settle within it.
    assert!(grown < 8 << 10, "{grown} KiB more after {restarts} restarts");
    say(&format!(
        "{} restarts in {:?}: {} open files before, {} after; {} KiB of memory before, {grown} KiB more after",
        restarts - warm,
        began.elapsed(),
        before.0,
        files(),
        before.1
    ));
}
