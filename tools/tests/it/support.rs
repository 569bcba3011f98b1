//! What the tests share: specs, an event log to wait on, raw JSON.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::origin::ClassPolicy;
use serde_json::Value;
use serde_json::value::RawValue;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tools::{
    AddressRule, Call, CallError, CommandSpec, Error, Events, Limits, Listener, Offers, Opening,
    ProcessLimits, RawProgress, RawResult, Said, StartError, Tool, ToolEvent, ToolSpec, UrlSpec,
};

/// Long enough for a loaded machine; nothing waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn server(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(name);
    path.to_str().unwrap().to_owned()
}

/// The interpreter itself: what stands first on a developer's `PATH` may be a slow script around it.
pub(crate) fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let show = "import sys; print(sys.executable)";
        let output =
            std::process::Command::new("python3").args(["-c", show]).output().expect("python3 is there");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    })
}

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub(crate) fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}

/// A folder for one test, and what the tool said on its own.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    events: mpsc::UnboundedReceiver<ToolEvent>,
    pub(crate) on_event: Events,
}

impl Stage {
    pub(crate) fn new() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let (sender, events) = mpsc::unbounded_channel();
        let on_event: Events = Arc::new(move |event| {
            sender.send(event).ok();
        });
        Self { folder: tempfile::tempdir().unwrap(), events, on_event }
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn command(&self, command: &[&str]) -> CommandSpec {
        CommandSpec {
            command: command.iter().map(|&part| part.to_owned()).collect(),
            env: Vec::new(),
            work_dir: self.folder.path().to_owned(),
            path: std::env::var("PATH").unwrap(),
            shim: None,
            log: None,
            process: ProcessLimits::default(),
            confine: None,
            offers: Offers::default(),
            opening: Opening::default(),
            limits: Limits::default(),
        }
    }

    /// The Python server; its config gets the log file.
    pub(crate) fn python(&self, mut config: Value) -> CommandSpec {
        config["log"] = self.log().to_str().unwrap().into();
        self.command(&[python(), "-u", &server("stdio.py"), &config.to_string()])
    }

    pub(crate) async fn start(&self, config: Value) -> Tool {
        self.start_spec(self.python(config)).await.unwrap()
    }

    pub(crate) async fn start_spec(&self, spec: CommandSpec) -> Result<Tool, StartError> {
        Tool::start(ToolSpec::Command(spec), Arc::clone(&self.on_event)).await
    }

    pub(crate) async fn open(&self, spec: UrlSpec) -> Result<Tool, StartError> {
        Tool::start(ToolSpec::Url(spec), Arc::clone(&self.on_event)).await
    }

    pub(crate) async fn event(&mut self) -> ToolEvent {
        tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("no event came").unwrap()
    }

    /// An event that is there already.
    pub(crate) fn event_now(&mut self) -> Option<ToolEvent> {
        self.events.try_recv().ok()
    }

    /// What reached the server: each message, in order.
    pub(crate) fn received(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Calls without anything special.
pub(crate) async fn call(tool: &Tool, name: &str, arguments: &str) -> Result<RawResult, Error> {
    send(tool, Call::new(name, Some(raw(arguments)))).await
}

pub(crate) async fn send(tool: &Tool, call: Call) -> Result<RawResult, Error> {
    match tool.call(call, || Ok::<(), ()>(())).await {
        Ok(result) => Ok(result),
        Err(CallError::Failed(error)) => Err(error),
        Err(CallError::Refused(())) => panic!("refused"),
    }
}

/// Lets `say` write these lines; the last one should be an answer.
pub(crate) async fn say(tool: &Tool, lines: &[&str]) -> Result<RawResult, Error> {
    call(tool, "say", &serde_json::json!({ "lines": lines }).to_string()).await
}

/// The text of the first content block.
pub(crate) fn text(result: &RawResult) -> String {
    value(&result.0)["content"][0]["text"].as_str().unwrap().to_owned()
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        out.push_str(": ");
        out.push_str(&error.to_string());
        source = error.source();
    }
    out
}

/// Waits for something that no event tells.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "never came true: {what}");
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

/// Processes of a group that are not zombies.
pub(crate) fn group(pgid: u64) -> Vec<String> {
    let mut alive = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, after)) = stat.rsplit_once(')') else { continue };
        let fields: Vec<&str> = after.split_whitespace().collect();
        if fields[2].parse() == Ok(pgid) && fields[0] != "Z" {
            alive.push(stat);
        }
    }
    alive
}

/// The Python endpoint, ended on drop.
pub(crate) struct Endpoint {
    process: std::process::Child,
    pub(crate) port: u16,
    log: PathBuf,
}

impl Endpoint {
    pub(crate) fn start(stage: &Stage, mut config: Value) -> Self {
        use std::io::BufRead;
        let log = stage.log();
        config["log"] = log.to_str().unwrap().into();
        let mut process = std::process::Command::new(python())
            .args(["-u", &server("endpoint.py"), &config.to_string()])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, port: line.trim().parse().unwrap(), log }
    }

    pub(crate) fn spec(&self, path: &str) -> UrlSpec {
        UrlSpec {
            url: format!("http://127.0.0.1:{}{path}", self.port).parse().unwrap(),
            headers: tools::Headers::default(),
            addresses: AddressRule {
                pinned: None,
                policy: ClassPolicy { private: false, loopback: true },
                never: Vec::new(),
            },
            resolve: Vec::new(),
            extra_ca: Vec::new(),
            proxy: None,
            offers: Offers::default(),
            opening: Opening::default(),
            limits: Limits { probe: PATIENCE, ..Limits::default() },
        }
    }

    /// Changes the running server's config; gives how many streams were open.
    pub(crate) async fn set(&self, change: &Value) -> u64 {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://127.0.0.1:{}/_set", self.port);
        let answer = client.post(url).body(change.to_string()).send().await.unwrap().bytes().await.unwrap();
        serde_json::from_slice::<Value>(&answer).unwrap()["streams"].as_u64().unwrap()
    }

    /// Pushes an event to the stream of announcements once one is open.
    pub(crate) async fn push_to_stream(&self, event: &str) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while self.set(&serde_json::json!({ "push": event })).await == 0 {
            assert!(tokio::time::Instant::now() < end, "no stream was opened");
        }
    }

    /// A line for each request, and for each client that hung up.
    pub(crate) fn received(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Hears how far a call is, and nothing else.
struct Progress(mpsc::UnboundedSender<RawProgress>);

impl Listener for Progress {
    fn agent(&self) -> u64 {
        0
    }

    fn hear(&self, said: Said) {
        if let Said::Progress(progress) = said {
            self.0.send(progress).ok();
        }
    }
}

/// Has a call report how far it is; the reports, until it has ended.
pub(crate) fn reports(call: &mut Call) -> mpsc::UnboundedReceiver<RawProgress> {
    let (sender, receiver) = mpsc::unbounded_channel();
    call.progress = true;
    call.listener = Some(Arc::new(Progress(sender)));
    receiver
}
