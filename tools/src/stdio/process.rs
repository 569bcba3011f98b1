//! A tool's process: started in a group and an environment of its own, ended with all it started.
//!
//! The group is signalled, never the process alone: launchers start the real server as their child. With a
//! shim between, it does so, and finds what left the group too; see `crate::shim`.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process_group, prlimit};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::lease::{Begun, Door, Lease};
use crate::confine::Confined;
use crate::shim;
use crate::spec::{CommandSpec, ProcessLimits};
use crate::start::StartError;

/// From closed stdin to TERM: what a server that flushes its state needs.
const UNTIL_TERM: Duration = Duration::from_secs(2);
/// From TERM to KILL.
const UNTIL_KILL: Duration = Duration::from_secs(3);
/// From KILL to giving up on a shim, which may have been stopped or starved itself.
const UNTIL_WITHOUT_SHIM: Duration = Duration::from_secs(5);

/// For the word of a shim that has ended: it is in the socket, or never comes.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The process at the head of a tool's group; number and start time together name one for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Process number, and number of its group.
    pub pid: u32,
    /// Clock ticks from boot to its start (`/proc/PID/stat`, field 22); 0 where there is no `/proc`.
    pub started: u64,
}

impl Process {
    /// Kills a group that an earlier run of the agent left behind, if number and start time still fit.
    pub fn kill_leftover(self) -> bool {
        self.started != 0
            && started(self.pid) == self.started
            && pid(self.pid).is_some_and(|pid| kill_process_group(pid, Signal::KILL).is_ok())
    }
}

pub(super) struct Spawned {
    pub(super) child: Child,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
    pub(super) group: Group,
    pub(super) confined: Confined,
}

/// Starts the program.
pub(super) async fn spawn(spec: &CommandSpec) -> Result<Spawned, StartError> {
    let (name, arguments) = spec.command.split_first().ok_or(StartError::EmptyCommand)?;
    let program = find(name, spec)?;
    let failed = |source| StartError::Spawn { program: name.as_str().into(), source };
    let (mut command, door) = if let Some(shim) = &spec.shim {
        let door = Door::open().map_err(failed)?;
        (through(shim, &door, &program, spec).map_err(failed)?, Some(door))
    } else {
        let mut command = Command::new(&program);
        command.process_group(0).kill_on_drop(true);
        (command, None)
    };
    command
        .args(arguments)
        .current_dir(&spec.work_dir)
        .env_clear()
        .envs([("LANG", "C.UTF-8"), ("TZ", "UTC"), ("PYTHONHASHSEED", "0")])
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .env("PATH", &spec.path)
        .env("HOME", &spec.work_dir)
        .env("TMPDIR", &spec.work_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| no_interpreter(&program, error, spec))?;
    let number = child.id().ok_or_else(|| failed(std::io::Error::other("it has no process number")))?;
    // Before any wait, which would close stdin.
    let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
    let Some(((stdin, stdout), stderr)) = pipes else {
        return Err(failed(std::io::Error::other("it has no pipes")));
    };
    let (group, confined) = if let Some(door) = door {
        let begun = door.begun(number);
        tokio::pin!(begun);
        let begun = tokio::select! {
            biased;
            begun = &mut begun => begun,
            // A tool that ended at once takes its shim along, whose word is there all the same.
            status = child.wait() => match tokio::time::timeout(LAST_WORD, &mut begun).await {
                Ok(begun) => begun,
                Err(_) => Err(without_word(status)),
            },
            () = tokio::time::sleep(spec.limits.start) => Err(std::io::ErrorKind::TimedOut.into()),
        }
        .map_err(failed)?;
        match begun {
            Begun::Started(number, version, lease) => {
                (Group::new(number, Some(lease)), confined(spec, version))
            }
            Begun::Unconfined => {
                let why = "the kernel refuses to confine it to what its manifest declares";
                return Err(failed(std::io::Error::other(why)));
            }
            Begun::Failed(error) => return Err(no_interpreter(&program, error, spec)),
        }
    } else {
        let group = Group::new(number, None);
        limit(number, spec.process);
        (group, if spec.confine.is_some() { Confined::NoShim } else { Confined::Undeclared })
    };
    Ok(Spawned { child, stdin, stdout, stderr, group, confined })
}

/// The shim's command line. Dropped, a shim is not killed: it ends the tool when its lease ends.
fn through(shim: &Path, door: &Door, program: &Path, spec: &CommandSpec) -> std::io::Result<Command> {
    let ProcessLimits { memory, files, processes } = spec.process;
    let mut command = Command::new(shim);
    command.arg0("pintle").args([shim::MARKER, door.name()]);
    command.args(
        [memory, files, processes].map(|limit| limit.map_or_else(|| "-".to_owned(), |it| it.to_string())),
    );
    let confine = spec.confine.as_ref().map(serde_json::to_string).transpose()?;
    command.arg(confine.as_deref().unwrap_or("-")).arg(program);
    Ok(command)
}

const fn confined(spec: &CommandSpec, version: u8) -> Confined {
    match (&spec.confine, version) {
        (None, _) => Confined::Undeclared,
        (Some(_), 0) => Confined::Unsupported,
        (Some(_), version) => Confined::By(version),
    }
}

fn without_word(status: std::io::Result<ExitStatus>) -> std::io::Error {
    std::io::Error::other(format!("its shim {}", phrase(status)))
}

/// The program's file: absolute, or found on the tool's own `PATH`.
fn find(name: &str, spec: &CommandSpec) -> Result<PathBuf, StartError> {
    let missing = |place: String, remedy| StartError::NoProgram {
        program: crate::show::line(name, 200).into(),
        place: place.into(),
        remedy,
    };
    if name.is_empty() {
        return Err(StartError::EmptyCommand);
    }
    if name.contains('/') {
        let path = Path::new(name);
        return if path.is_absolute() && path.is_file() {
            Ok(path.to_owned())
        } else if path.is_absolute() {
            Err(missing("at that path".to_owned(), "pack it with the plugin, or install it on this node"))
        } else {
            Err(missing(
                "that a relative path could name".to_owned(),
                "write it absolute, under ${plugin}, or as a bare name on PATH",
            ))
        };
    }
    spec.path
        .split(':')
        .filter(|folder| !folder.is_empty())
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            missing(
                format!("on PATH `{}`", spec.path),
                "install it on this node, or add its folder to the node's PATH for tools",
            )
        })
}

/// "No such file" about a file that is there means the interpreter in its first line.
fn no_interpreter(program: &Path, error: std::io::Error, spec: &CommandSpec) -> StartError {
    let shown: Box<str> = crate::show::line(&program.to_string_lossy(), 200).into();
    if error.kind() != std::io::ErrorKind::NotFound || !spec.work_dir.is_dir() {
        return StartError::Spawn { program: shown, source: error };
    }
    let head = std::fs::read(program).unwrap_or_default();
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = first.get(..first.len().min(200)).unwrap_or_default();
    StartError::NoProgram {
        // Not trimmed: a CR at its end is what is wrong then.
        program: domain::visible::make_visible(String::from_utf8_lossy(first).trim_start_matches("#!"))
            .into(),
        place: format!("that the first line of {shown} could name as its interpreter").into(),
        remedy: "install it, or mend that line (it may end with a carriage return)",
    }
}

/// Limits are set from outside right after the start; what the program starts inherits them.
fn limit(number: u32, limits: ProcessLimits) {
    for (resource, wanted) in [(Resource::Data, limits.memory), (Resource::Nofile, limits.files)] {
        let Some(wanted) = wanted else { continue };
        let hard = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        let new = Rlimit { current: Some(hard), maximum: Some(hard) };
        if let Err(error) = prlimit(pid(number), resource, new) {
            tracing::warn!(process.id = number, error = %error, "a tool's limit could not be set");
        }
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

fn started(number: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold anything.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_ascii_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or_default()
}

/// The tool's process group, until it is known to be gone. Killed on drop.
#[derive(Debug)]
pub(super) struct Group {
    process: Mutex<Option<Process>>,
    /// With a shim: it signals and kills, and nobody else.
    lease: Option<Lease>,
}

impl Group {
    fn new(number: u32, lease: Option<Lease>) -> Self {
        Self { process: Mutex::new(Some(Process { pid: number, started: started(number) })), lease }
    }

    pub(super) fn process(&self) -> Option<Process> {
        *self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn signal(&self, signal: Signal) {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        match (&self.lease, process.and_then(|process| pid(process.pid))) {
            (_, None) => {}
            (Some(lease), Some(_)) if signal == Signal::KILL => lease.kill(),
            (Some(lease), Some(_)) => lease.terminate(),
            // Gone already is as good.
            (None, Some(pid)) => _ = kill_process_group(pid, signal),
        }
    }

    /// Kills what is left and forgets the number, which may be another's soon. How the tool ended, where
    /// a shim knows.
    fn end(&self) -> Option<Box<str>> {
        if self.lease.is_none() {
            self.signal(Signal::KILL);
        }
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        let word = self.lease.as_ref().and_then(Lease::last_word);
        // A shim that was killed has left the tool behind.
        if let (Some(_), None, Some(process)) = (&self.lease, &word, process) {
            process.kill_leftover();
        }
        word
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Waits for the process to end by itself, and ends what it started.
pub(super) async fn ended(child: &mut Child, group: &Group) -> Box<str> {
    let status = child.wait().await;
    group.end().unwrap_or_else(|| phrase(status))
}

/// Ends the process, whose stdin was closed, and what it started: waits, TERM, waits, KILL.
pub(super) async fn end(child: &mut Child, group: &Group) -> Box<str> {
    for (wait, signal) in [(UNTIL_TERM, Signal::TERM), (UNTIL_KILL, Signal::KILL)] {
        if let Ok(status) = tokio::time::timeout(wait, ended(child, group)).await {
            return status;
        }
        group.signal(signal);
    }
    if let Ok(status) = tokio::time::timeout(UNTIL_WITHOUT_SHIM, ended(child, group)).await {
        return status;
    }
    child.start_kill().ok();
    ended(child, group).await
}

fn phrase(status: std::io::Result<ExitStatus>) -> Box<str> {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with exit code {code}").into(),
            (None, Some(signal)) => format!("was ended by signal {signal}").into(),
            (None, None) => "ended".into(),
        },
        Err(error) => format!("ended, how is unknown: {error}").into(),
    }
}
