//! Tools end with the agent and with their own main process, and take all they started along: real
//! processes, with the shim that `pintle-node` is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests fail by panicking"
)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tools::{Call, CommandSpec, Error, Limits, Offers, ProcessLimits, StartError, Tool, ToolEvent, ToolSpec};

/// Long enough for a loaded machine; nothing waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);

/// Names the folder to a process that is this test's agent.
const AGENT: &str = "TEST_AGENT_FOLDER";

/// Leaves the tool's group, session and parent, ignores TERM, and says its number.
const DAEMON: &str = r#"
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("daemon.part", "w") as file: file.write(str(os.getpid()))
os.rename("daemon.part", "daemon")
time.sleep(600)
"#;

fn spec(folder: &Path, command: &[&str]) -> CommandSpec {
    CommandSpec {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        env: Vec::new(),
        work_dir: folder.to_owned(),
        path: std::env::var("PATH").unwrap(),
        shim: Some(env!("CARGO_BIN_EXE_pintle-node").into()),
        log: Some(folder.join("logs/tool.log")),
        process: ProcessLimits::default(),
        confine: None,
        offers: Offers::default(),
        opening: tools::Opening::default(),
        limits: Limits::default(),
    }
}

/// A daemon, then a launcher whose server and helper ignore TERM and closed stdin (case C30).
fn stubborn(folder: &Path) -> CommandSpec {
    std::fs::write(folder.join("daemon.py"), DAEMON).unwrap();
    let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/tests/servers");
    let launcher = servers.join("C30-launcher.sh");
    let script = format!("python3 daemon.py </dev/null >/dev/null; exec bash '{}'", launcher.display());
    spec(folder, &["bash", "-c", &script])
}

async fn start(spec: CommandSpec) -> Result<(Tool, mpsc::UnboundedReceiver<ToolEvent>), StartError> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let (sender, events) = mpsc::unbounded_channel();
    let tell = Arc::new(move |event| {
        sender.send(event).ok();
    });
    Ok((Tool::start(ToolSpec::Command(spec), tell).await?, events))
}

/// Starts the stubborn tool; numbers of the launcher, the server, its helper and the daemon.
async fn start_stubborn(folder: &Path) -> (Tool, mpsc::UnboundedReceiver<ToolEvent>, Vec<u64>) {
    let (tool, events) = start(stubborn(folder)).await.unwrap();
    let call = Call::new("pids", Some(RawValue::from_string("{}".to_owned()).unwrap()));
    let result = tool.call(call, || Ok::<(), ()>(())).await.unwrap();
    let result: Value = serde_json::from_str(result.0.get()).unwrap();
    let said: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    let mut pids: Vec<u64> =
        ["launcher", "server", "helper"].map(|name| said[name].as_u64().unwrap()).to_vec();
    pids.push(std::fs::read_to_string(folder.join("daemon")).unwrap().parse().unwrap());
    assert_eq!(u64::from(tool.process().unwrap().pid), pids[0]);
    (tool, events, pids)
}

/// Fields of the process's line from its state on; `None` if it is gone or only waits to be noted.
fn stat(pid: u64) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<String> = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
    (fields[0] != "Z").then_some(fields)
}

fn all_run(pids: &[u64]) -> bool {
    pids.iter().all(|pid| stat(*pid).is_some())
}

async fn until_gone(pids: &[u64]) {
    until("all are gone", || pids.iter().all(|pid| stat(*pid).is_none())).await;
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never came true: {what}");
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

/// No test of its own: the agent that another test kills.
#[tokio::test]
async fn an_agent_that_waits_to_be_killed() {
    let Some(folder) = std::env::var_os(AGENT) else { return };
    let folder = Path::new(&folder);
    let (_tool, _events, pids) = start_stubborn(folder).await;
    std::fs::write(folder.join("pids.part"), serde_json::to_vec(&pids).unwrap()).unwrap();
    std::fs::rename(folder.join("pids.part"), folder.join("pids")).unwrap();
    std::future::pending::<()>().await;
}

/// Case C30.
#[tokio::test]
async fn a_killed_agent_takes_its_tools_along_daemons_and_those_deaf_to_term_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_agent_that_waits_to_be_killed"])
        .env(AGENT, folder.path())
        .spawn()
        .unwrap();
    let read = || std::fs::read(folder.path().join("pids")).ok();
    until("the tool runs", || read().is_some()).await;
    let mut pids: Vec<u64> = serde_json::from_slice(&read().unwrap()).unwrap();
    // The shim is the launcher's parent.
    pids.push(stat(pids[0]).unwrap()[1].parse().unwrap());
    assert!(all_run(&pids));
    agent.kill().unwrap();
    agent.wait().unwrap();
    until_gone(&pids).await;
}

/// Case C30.
#[tokio::test]
async fn a_stopped_tool_takes_its_daemons_along() {
    let folder = tempfile::tempdir().unwrap();
    let (tool, mut events, pids) = start_stubborn(folder.path()).await;
    assert!(all_run(&pids));
    tool.stop().await;
    until_gone(&pids).await;
    assert!(tool.process().is_none() && events.try_recv().is_err());
}

/// Case C30.
#[tokio::test]
async fn a_dropped_tool_takes_its_daemons_along() {
    let folder = tempfile::tempdir().unwrap();
    let (tool, _events, pids) = start_stubborn(folder.path()).await;
    drop(tool);
    until_gone(&pids).await;
}

/// Case C30.
#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("pid");
    let mut start = Box::pin(start(spec(folder.path(), &["bash", "-c", "echo $$ > pid; sleep 600 & wait"])));
    let read = || std::fs::read_to_string(&marker).ok().and_then(|text| text.trim().parse::<u64>().ok());
    tokio::select! {
        _ = &mut start => panic!("it started"),
        () = until("it runs", || read().is_some()) => {}
    }
    drop(start);
    until_gone(&[read().unwrap()]).await;
}

/// Case C30.
#[tokio::test]
async fn a_tool_that_ends_by_itself_leaves_nothing_and_says_how() {
    let folder = tempfile::tempdir().unwrap();
    let (tool, mut events, pids) = start_stubborn(folder.path()).await;
    let launcher = rustix::process::Pid::from_raw(i32::try_from(pids[0]).unwrap()).unwrap();
    rustix::process::kill_process(launcher, rustix::process::Signal::KILL).unwrap();
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    let ToolEvent::Exited { status, .. } = event else { panic!("{event:?}") };
    assert_eq!(&*status, "was ended by signal 9");
    until_gone(&pids).await;
    assert!(tool.process().is_none());
}

/// Case C30.
#[tokio::test]
async fn what_a_running_tool_leaves_behind_stays_no_zombie() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = stubborn(folder.path());
    spec.command[2].insert_str(0, "for _ in {1..100}; do (true &); done; ");
    let (tool, _events) = start(spec).await.unwrap();
    let shim = stat(u64::from(tool.process().unwrap().pid)).unwrap()[1].clone();
    let zombies = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(&format!(") Z {shim} "))).count()
    };
    until("none is left", || zombies() == 0).await;
    tool.stop().await;
}

#[tokio::test]
async fn the_exit_code_and_the_last_words_of_a_tool_come_through() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = start(spec(folder.path(), &["bash", "-c", "echo no config >&2; exit 7"])).await;
    let Err(StartError::Exited { status, stderr, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((&*status, &*stderr), ("ended with exit code 7", "no config"));
    // Once for the probe, once without it.
    let read = || std::fs::read_to_string(folder.path().join("logs/tool.log")).unwrap_or_default();
    until("both are in the log", || read().matches("Z no config\n").count() == 2).await;
}

#[tokio::test]
async fn a_tool_that_closes_its_output_is_ended() {
    const SCRIPT: &str = r#"
read -r _; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}'
read -r _; echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}'
read -r _; read -r _; exec >&-; cat >/dev/null
"#;
    let folder = tempfile::tempdir().unwrap();
    let (tool, _events) = start(spec(folder.path(), &["bash", "-c", SCRIPT])).await.unwrap();
    let pid = u64::from(tool.process().unwrap().pid);
    let outcome = tool.call(Call::new("any", None), || Ok::<(), ()>(())).await;
    assert!(matches!(outcome, Err(tools::CallError::Failed(Error::Gone { .. }))), "{outcome:?}");
    until_gone(&[pid]).await;
}

#[tokio::test]
async fn a_killed_shim_leaves_no_tool_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (tool, mut events, pids) = start_stubborn(folder.path()).await;
    let shim: i32 = stat(pids[0]).unwrap()[1].parse().unwrap();
    let shim = rustix::process::Pid::from_raw(shim).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    assert!(matches!(event, ToolEvent::Exited { .. }), "{event:?}");
    // The group is; a daemon that left it cannot be found any more.
    until_gone(&pids[..3]).await;
    let daemon = rustix::process::Pid::from_raw(i32::try_from(pids[3]).unwrap()).unwrap();
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
    drop(tool);
}

#[tokio::test]
async fn limits_hold_from_the_first_instruction_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec(folder.path(), &["bash", "-c", "ulimit -n >&2; ulimit -d >&2"]);
    spec.process = ProcessLimits { memory: Some(1 << 30), files: Some(77), processes: None };
    let outcome = start(spec).await;
    let Err(StartError::Exited { stderr, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(&*stderr, "77 | 1048576");
}

#[tokio::test]
async fn a_program_without_its_interpreter_is_named_as_without_a_shim() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    std::fs::write(&program, "#!/nowhere/python\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    let with = start(spec(folder.path(), &[program])).await.expect_err("it cannot start").to_string();
    let mut without = spec(folder.path(), &[program]);
    without.shim = None;
    assert_eq!(start(without).await.expect_err("it cannot start").to_string(), with);
    assert!(with.contains("/nowhere/python"), "{with}");
}

/// Runs a script in the tool's place, which then ends; what it wrote to its file `said`.
async fn said(spec: CommandSpec) -> String {
    let file = spec.work_dir.join("said");
    let error = start(spec).await.expect_err("it answers nothing");
    std::fs::read_to_string(file).unwrap_or_else(|_| panic!("it wrote nothing: {error}"))
}

fn python(folder: &Path, script: &str) -> CommandSpec {
    std::fs::write(folder.join("script.py"), script).unwrap();
    let mut spec = spec(folder, &["python3", folder.join("script.py").to_str().unwrap()]);
    // Not one that a version switcher starts with variables of its own.
    "/usr/bin:/bin".clone_into(&mut spec.path);
    spec
}

#[tokio::test]
async fn a_tools_environment_is_exactly_what_is_written_and_nothing_of_the_agents() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().to_str().unwrap().to_owned();
    // Cargo gives every test a dozen variables of its own.
    assert!(std::env::vars().count() > 3);
    let mut spec = python(folder.path(), "open('said', 'w').write(open('/proc/self/environ').read())");
    spec.env = vec![("LOG".to_owned(), "info".to_owned()), ("HOME".to_owned(), "/elsewhere".to_owned())];
    let path = spec.path.clone();
    for shim in [spec.shim.take(), None] {
        let said = said(CommandSpec { shim, ..spec.clone() }).await;
        let mut variables: Vec<&str> = said.split_terminator('\0').collect();
        variables.sort_unstable();
        let expected = [
            format!("HOME={work}"),
            "LANG=C.UTF-8".to_owned(),
            "LOG=info".to_owned(),
            format!("PATH={path}"),
            "PYTHONHASHSEED=0".to_owned(),
            format!("TMPDIR={work}"),
            "TZ=UTC".to_owned(),
        ];
        assert_eq!(variables, expected);
    }
}

#[tokio::test]
async fn a_tool_has_a_session_and_a_group_of_its_own_and_no_file_of_the_agents() {
    let folder = tempfile::tempdir().unwrap();
    let script = "import os\n\
        files = [(int(name), os.readlink('/proc/self/fd/' + name)) for name in os.listdir('/proc/self/fd')\n\
        if os.path.exists('/proc/self/fd/' + name)]\n\
        files = ' '.join(str(number) for number, _ in sorted(files) if number > 2)\n\
        open('said', 'w').write(f'{os.getsid(0)} {os.getpgid(0)} {os.getpid()} {os.getppid()};{files}')";
    let said = said(python(folder.path(), script)).await;
    let (numbers, files) = said.split_once(';').unwrap_or_default();
    let numbers: Vec<u32> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [session, group, own, parent] = numbers[..] else { panic!("{said}") };
    assert_eq!((session, group), (parent, own), "the session is its shim's, the group its own");
    // Read from /proc: it is 0 where the leader of this process's session lives outside its PID namespace.
    let ours = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ours: u32 = ours.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().parse().unwrap();
    assert_ne!(session, ours);
    // What this process was given itself without a mark is everybody's; what it opened is marked.
    let is_marked = |number: &str| {
        let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("02000000").trim();
        u32::from_str_radix(flags, 8).unwrap() & 0o2_000_000 != 0
    };
    let ours: Vec<&str> = files.split_whitespace().filter(|number| is_marked(number)).collect();
    assert_eq!(ours, [""; 0], "{files}");
}

#[tokio::test]
async fn a_tool_that_starts_more_processes_than_it_may_is_ended_with_all_of_them() {
    const SCRIPT: &str = r#"
read -r _; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}'
read -r _; echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}'
for _ in {1..40}; do sleep 600 & echo $! >> pids; done
cat >/dev/null
"#;
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec(folder.path(), &["bash", "-c", SCRIPT]);
    spec.process.processes = Some(20);
    let (_tool, mut events) = start(spec).await.unwrap();
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    let ToolEvent::Exited { status, .. } = event else { panic!("{event:?}") };
    assert_eq!(&*status, "was ended: it had more than 20 processes, its limit");
    let pids = std::fs::read_to_string(folder.path().join("pids")).unwrap();
    let pids: Vec<u64> = pids.lines().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 40);
    until_gone(&pids).await;
}

#[tokio::test]
async fn a_tool_with_as_many_processes_as_it_may_have_runs_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = stubborn(folder.path());
    // Launcher, server, helper and daemon.
    spec.process.processes = Some(4);
    let (tool, mut events) = start(spec).await.unwrap();
    for _ in 0..30 {
        let call = Call::new("pids", Some(RawValue::from_string("{}".to_owned()).unwrap()));
        tool.call(call, || Ok::<(), ()>(())).await.unwrap();
    }
    assert!(events.try_recv().is_err());
    tool.stop().await;
}

/// What a confined tool tries: each line is one try and what came of it.
const TRIES: &str = r#"
import os, signal, socket, sys
allowed, secret, port, other, agent = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
said = []
def attempt(name, act):
    try: act(); said.append(name + " done")
    except PermissionError: said.append(name + " denied")
    except OSError as error: said.append(name + " " + str(error))
def connect(port): socket.create_connection(("127.0.0.1", port), 5).close()
def listen(): socket.create_server(("127.0.0.1", 0)).close()
attempt("read own", lambda: open(sys.argv[0]).read())
attempt("read declared", lambda: open(allowed + "/file").read())
attempt("write declared for reading", lambda: open(allowed + "/new", "w"))
attempt("read undeclared", lambda: open(secret).read())
attempt("write work", lambda: open("work", "w").write("x"))
attempt("start a program", lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0))
attempt("connect declared", lambda: connect(port))
attempt("connect undeclared", lambda: connect(other))
attempt("listen", listen)
attempt("signal the agent", lambda: os.kill(agent, 0))
open("said", "w").write(chr(10).join(said))
"#;

#[tokio::test]
async fn a_tool_reaches_what_its_manifest_declares_and_nothing_else_where_the_kernel_can_see_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    for name in ["work", "plugin", "declared"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    std::fs::write(place("plugin/tries.py"), TRIES).unwrap();
    std::fs::write(place("declared/file"), "x").unwrap();
    std::fs::write(place("secret"), "x").unwrap();
    let listeners = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners.each_ref().map(|listener| listener.local_addr().unwrap().port());
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let agent = std::process::id().to_string();
    let words = [
        "python3".to_owned(),
        text(place("plugin/tries.py")),
        text(place("declared")),
        text(place("secret")),
        ports[0].to_string(),
        ports[1].to_string(),
        agent,
    ];
    let mut spec = spec(&place("work"), &words.each_ref().map(|word| &**word));
    "/usr/bin:/bin".clone_into(&mut spec.path);
    spec.confine = Some(tools::Confinement {
        read: vec![place("plugin"), place("declared"), place("is-not-there")],
        write: vec![place("work")],
        connect: vec![ports[0]],
    });
    let said = said(spec).await;
    let has = |since: u8| matches!(tools::confines(), tools::Confined::By(version) if version >= since);
    let denied = |since: u8| if has(since) { "denied" } else { "done" };
    let expected = [
        ("read own", "done"),
        ("read declared", "done"),
        ("write declared for reading", denied(1)),
        ("read undeclared", denied(1)),
        ("write work", "done"),
        ("start a program", "done"),
        ("connect declared", "done"),
        ("connect undeclared", denied(4)),
        ("listen", denied(4)),
        ("signal the agent", denied(6)),
    ];
    let expected: Vec<String> = expected.iter().map(|(name, outcome)| format!("{name} {outcome}")).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected, "this kernel confines {}", tools::confines());
}

#[tokio::test]
async fn what_confines_a_tool_is_said_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut declared = stubborn(folder.path());
    declared.confine =
        Some(tools::Confinement { read: vec!["/".into()], write: vec!["/".into()], connect: Vec::new() });
    let (tool, _events) = start(declared.clone()).await.unwrap();
    assert_eq!(tool.confined(), Some(tools::confines()));
    tool.stop().await;
    let (tool, _events) = start(CommandSpec { shim: None, ..declared.clone() }).await.unwrap();
    assert_eq!(tool.confined(), Some(tools::Confined::NoShim));
    tool.stop().await;
    let (tool, _events) = start(CommandSpec { confine: None, ..declared }).await.unwrap();
    assert_eq!(tool.confined(), Some(tools::Confined::Undeclared));
    tool.stop().await;
}
