//! What the tests share: specs, an event log to wait on, raw JSON.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tools::{
    Call, CallError, CommandSpec, Error, Events, Limits, ProcessLimits, RawResult, StartError, Tool,
    ToolEvent, ToolSpec,
};

/// Long enough for a loaded machine; nothing waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn server(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(name);
    path.to_str().unwrap().to_owned()
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
            process: ProcessLimits::default(),
            limits: Limits::default(),
        }
    }

    /// The Python server; its config gets the log file.
    pub(crate) fn python(&self, mut config: Value) -> CommandSpec {
        config["log"] = self.log().to_str().unwrap().into();
        self.command(&["python3", "-u", &server("stdio.py"), &config.to_string()])
    }

    pub(crate) async fn start(&self, config: Value) -> Tool {
        self.start_spec(self.python(config)).await.unwrap()
    }

    pub(crate) async fn start_spec(&self, spec: CommandSpec) -> Result<Tool, StartError> {
        Tool::start(ToolSpec::Command(spec), Arc::clone(&self.on_event)).await
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
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
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
