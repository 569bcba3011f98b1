//! The process between the agent and a tool: it sees to it that the tool and all it started end with the
//! agent, however the agent ends.
//!
//! It is the agent's own program, started again with [`MARKER`]; mains ask [`is_shim`] before anything
//! else. The tool has the agent's pipes, no byte passes through here. A socket to the agent is the lease:
//! its end means that the agent is gone. Who starts and asks is `stdio`.

mod tree;

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getrlimit, set_child_subreaper, setrlimit, setsid,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use crate::confine::{Confined, Confinement};
use crate::spec::ProcessLimits;
use tree::Tree;

/// The first argument of a shim. After it: the name of the lease's socket, the limits in bytes, files and
/// processes (`-` for none), what the tool may reach as JSON (`-` for all), the tool's program and its
/// arguments.
pub(crate) const MARKER: &str = "--pintle-tool-shim";

/// What the agent says over the lease: send TERM to the tool's group.
pub(crate) const TERM: [u8; 1] = *b"t";
/// What the agent says over the lease: kill all of it, now.
pub(crate) const KILL: [u8; 1] = *b"k";

/// From TERM to KILL when the agent is gone: nobody reads what a tool flushes then, so it is short.
const GRACE: Duration = Duration::from_secs(1);

/// How often it is looked whether the tool has more processes than it may: a burst of a second does little
/// harm to a machine, and looking costs next to nothing (see [`Tree::is_over`]).
const LOOK: Duration = Duration::from_secs(1);

/// How long an agent waits for the end of what cannot be killed (programs of another user); one that is
/// gone does not wait.
const WAIT: Duration = Duration::from_secs(4);

/// Whether this process's main asked [`is_shim`], and its program therefore can be a shim.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Whether this process was started to be a shim: then it is to [`run`] and do nothing else. A main asks
/// before it makes threads, reads arguments or opens anything.
pub fn is_shim() -> bool {
    ASKED.store(true, Ordering::Relaxed);
    std::env::args_os().nth(1).is_some_and(|word| word == MARKER)
}

/// The program to start shims from: this one, if its main asked [`is_shim`].
pub fn program() -> Option<PathBuf> {
    // The running program, also after its file was replaced by a newer one.
    let this = PathBuf::from("/proc/self/exe");
    ASKED.load(Ordering::Relaxed).then_some(())?;
    if this.exists() { Some(this) } else { std::env::current_exe().ok() }
}

/// Runs the tool that the arguments name, and ends as it does; by a signal is 128 and its number.
pub fn run() -> ExitCode {
    /// What `env` and the like say when they themselves fail.
    const FAILED: u8 = 125;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome =
        runtime.and_then(|runtime| runtime.block_on(keep(Order::read(std::env::args_os().skip(2))?)));
    ExitCode::from(outcome.unwrap_or(FAILED))
}

/// What the arguments say.
struct Order {
    lease: OsString,
    limits: ProcessLimits,
    confine: Option<Confinement>,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Order {
    fn read(mut words: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let mut next = || words.next().ok_or(io::ErrorKind::InvalidInput);
        let lease = next()?;
        let number = |word: OsString| word.to_str().and_then(|word| word.parse().ok());
        let limits =
            ProcessLimits { memory: number(next()?), files: number(next()?), processes: number(next()?) };
        let confine = next()?;
        // What cannot be read is no reason to start it without.
        let confine = if confine == "-" {
            None
        } else {
            Some(serde_json::from_slice(confine.as_bytes()).map_err(io::Error::other)?)
        };
        let program = next()?;
        Ok(Self { lease, limits, confine, program, arguments: words.collect() })
    }
}

/// What is listened to, from before the tool is started.
struct Told {
    child: Signals,
    terminate: Signals,
    interrupt: Signals,
    hangup: Signals,
}

impl Told {
    fn new() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

async fn keep(order: Order) -> io::Result<u8> {
    let mut told = Told::new()?;
    // Its own session: no terminal's signals reach it or the tool.
    setsid().ok();
    // What loses its parent below becomes a child of this process and is found at the end.
    set_child_subreaper(Some(getpid()))?;
    let address = SocketAddr::from_abstract_name(order.lease.as_bytes())?;
    let lease = std::os::unix::net::UnixStream::connect_addr(&address)?;
    lease.set_nonblocking(true)?;
    let mut lease = UnixStream::from_std(lease)?;
    limit(order.limits);
    let most = order.limits.processes;
    let (child, confined) = match start(order) {
        Started::Yes(child, confined) => (child, confined),
        Started::No(word) => {
            lease.write_all(word.as_bytes()).await.ok();
            return Ok(127);
        }
    };
    let main = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let mut tree = Tree::new(main, most);
    // An agent that is gone already shows at the first look.
    lease.write_all(format!("started {} {confined}\n", child.id()).as_bytes()).await.ok();
    if let Err(error) = let_go_of_pipes() {
        tree.end(&mut told.child).await;
        return Err(error);
    }
    match until_the_end(&mut tree, &mut told, &mut lease).await {
        Agent::Waits => _ = tokio::time::timeout(WAIT, tree.end(&mut told.child)).await,
        Agent::Gone => tree.end(&mut told.child).await,
    }
    let (word, code) = tree.status();
    lease.write_all(word.as_bytes()).await.ok();
    Ok(code)
}

enum Started {
    /// With the version of Landlock that confines it; 0 for none.
    Yes(std::process::Child, u8),
    /// What the agent is told.
    No(String),
}

/// Starts the tool, confined, from a thread of its own: the confinement is the thread's, and the tool's by
/// inheritance; this process keeps its freedom to end it.
fn start(order: Order) -> Started {
    let start = move || {
        let version = match order.confine.map(|confine| confine.apply()) {
            Some(Ok(Confined::By(version))) => version,
            Some(Ok(_)) | None => 0,
            Some(Err(_)) => return Started::No("unconfined -\n".to_owned()),
        };
        let mut command = std::process::Command::new(order.program);
        match command.args(order.arguments).process_group(0).spawn() {
            Ok(child) => Started::Yes(child, version),
            Err(error) => Started::No(format!("failed {}\n", error.raw_os_error().unwrap_or_default())),
        }
    };
    std::thread::spawn(start).join().unwrap_or_else(|_| Started::No("failed 0\n".to_owned()))
}

/// Who is on the other side when it comes to the end.
enum Agent {
    Waits,
    Gone,
}

/// Waits for the tool's own end, or for word that it is to end now.
async fn until_the_end(tree: &mut Tree, told: &mut Told, lease: &mut UnixStream) -> Agent {
    let mut word = [0; 1];
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let ends = tokio::select! {
            _ = look.tick(), if tree.is_limited() => {
                if tree.is_over() {
                    return Agent::Waits;
                }
                continue;
            }
            _ = told.child.recv() => {
                tree.reap();
                if tree.has_ended() {
                    return Agent::Waits;
                }
                continue;
            }
            got = lease.read(&mut word) => match (got, word) {
                (Ok(1), TERM) => None,
                (Ok(1), KILL) => return Agent::Waits,
                _ => Some(Agent::Gone),
            },
            _ = told.terminate.recv() => Some(Agent::Waits),
            _ = told.interrupt.recv() => Some(Agent::Waits),
            _ = told.hangup.recv() => Some(Agent::Waits),
        };
        tree.signal(Signal::TERM);
        if let Some(agent) = ends {
            tokio::time::timeout(GRACE, tree.empty(&mut told.child)).await.ok();
            return agent;
        }
    }
}

/// The tool inherits the limits; this process needs next to nothing.
fn limit(limits: ProcessLimits) {
    for (resource, wanted) in [(Resource::Data, limits.memory), (Resource::Nofile, limits.files)] {
        let Some(wanted) = wanted else { continue };
        let hard = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        // Lowering a limit is always allowed.
        setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) }).ok();
    }
}

/// The pipes are the tool's alone: held here too, neither side would see the other close them.
fn let_go_of_pipes() -> io::Result<()> {
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}
