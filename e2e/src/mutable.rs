//! Tool servers that say what a test tells them to, and write down what they were asked: the outside observer.

#![expect(clippy::indexing_slicing, reason = "what a JSON value lacks reads as null")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::kernel;
use crate::process::{Process, here, python};

/// Seconds by which a request may come in after one that was sent later on another connection, on a busy machine.
const OVERTAKEN: f64 = 1.0;

/// What one tool server lists, and its log. All processes of one tool share them.
#[derive(Clone, Debug)]
pub struct Mutable {
    state: PathBuf,
    log: PathBuf,
    port_file: PathBuf,
    script: PathBuf,
}

impl Mutable {
    /// A tool server whose files are below `folder`.
    pub fn new(folder: &Path, name: &str) -> Self {
        let file = |end: &str| folder.join(format!("{name}.{end}"));
        Self {
            state: file("state.json"),
            log: file("log.jsonl"),
            port_file: file("port"),
            script: here().join("fixtures/mutable_server.py"),
        }
    }

    /// Tells it what to list: raw JSON text, entry by entry.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn list(&self, entries: &[&str]) -> Result<()> {
        self.tell(&json!({"entries": entries}))
    }

    /// Tells it everything that its state file may hold.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn tell(&self, state: &Value) -> Result<()> {
        let new = self.state.with_extension("new");
        std::fs::write(&new, state.to_string())?;
        std::fs::rename(&new, &self.state).context("failed to tell the tool server")
    }

    /// The command of a stdio tool, for a manifest.
    pub fn command(&self) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (state, log) = (text(&self.state), text(&self.log));
        [&*text(&python()), &*text(&self.script), "--state", &*state, "--log", &*log]
            .map(str::to_owned)
            .into()
    }

    /// Starts it over HTTP; the URL of its endpoint.
    ///
    /// # Errors
    /// It does not start.
    pub async fn serve(&self, port: Option<u16>) -> Result<(Process, String)> {
        std::fs::remove_file(&self.port_file).ok();
        let mut command = Command::new(python());
        command.arg(&self.script).args(["--state".as_ref(), self.state.as_os_str()]);
        command.args(["--log".as_ref(), self.log.as_os_str(), "--http".as_ref(), self.port_file.as_os_str()]);
        command.args(["--port", &port.unwrap_or(0).to_string()]);
        let process = Process::start(command, &self.log.with_extension("stderr"))?;
        let port: u16 = crate::eventually("the tool server's port", || async {
            std::fs::read_to_string(&self.port_file)?.trim().parse().map_err(anyhow::Error::from)
        })
        .await;
        Ok((process, format!("http://127.0.0.1:{port}/mcp")))
    }

    fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// How many calls of a function reached it.
    pub fn calls(&self, function: &str) -> usize {
        let is_call = |event: &&Value| event["event"] == "call" && event["name"] == function;
        self.events().iter().filter(is_call).count()
    }

    /// The messages that opened it, in order: `server/discover` and `initialize`.
    pub fn opened(&self) -> Vec<String> {
        let events = self.events().into_iter().filter(|event| event["event"] == "opened");
        events.map(|event| event["method"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Its processes that run, without the shims above them.
    pub fn running(&self) -> Vec<u32> {
        let is_tool =
            |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_python(&line));
        kernel::naming(&self.log).into_iter().filter(is_tool).collect()
    }

    /// Whether a call reached it that must not have: one of a function that the newest page of that session
    /// showed otherwise than in a form that was approved at some time, or did not show at all.
    ///
    /// Over HTTP a call may have been written before that page was asked for and come in after it, on another
    /// connection; such a one is late by less than [`OVERTAKEN`].
    ///
    /// # Errors
    /// The first such call, in words.
    pub fn observe(&self, approved: &BTreeSet<String>) -> Result<(), String> {
        let mut newest: BTreeMap<(String, String), String> = BTreeMap::new();
        let mut since: BTreeMap<(String, String), f64> = BTreeMap::new();
        for event in self.events() {
            let session = event["session"].as_str().unwrap_or_default().to_owned();
            let at = event["at"].as_f64().unwrap_or_default();
            if event["event"] == "listed" {
                let entries = event["entries"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let shown: BTreeMap<String, String> =
                    entries.map(|raw| (name_in(raw), raw.to_owned())).collect();
                let mut names: BTreeSet<String> = shown.keys().cloned().collect();
                if event["ended"] == true {
                    let known = newest.keys().filter(|(of, _)| *of == session).map(|(_, name)| name.clone());
                    names.extend(known);
                }
                for name in names {
                    let key = (session.clone(), name);
                    let before = match shown.get(&key.1) {
                        Some(raw) => newest.insert(key.clone(), raw.clone()),
                        None => newest.remove(&key),
                    };
                    if before.as_ref() != newest.get(&key) {
                        since.insert(key, at);
                    }
                }
            } else if event["event"] == "call" {
                let name = event["name"].as_str().unwrap_or_default().to_owned();
                let key = (session, name);
                let over_http = !key.0.starts_with("pid ");
                let overtaken = over_http && since.get(&key).is_some_and(|since| at - since < OVERTAKEN);
                match newest.get(&key) {
                    Some(raw) if approved.contains(raw) => {}
                    _ if overtaken => {}
                    other => {
                        let (session, name) = key;
                        return Err(format!(
                            "{name} was called while its server last listed it as {other:?} (session {session})"
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

fn name_in(raw: &str) -> String {
    let entry: Value = serde_json::from_str(raw).unwrap_or_default();
    entry["name"].as_str().unwrap_or_default().to_owned()
}

/// Whether a command line, its words ended by zeros, is a Python's and not that of a shim which starts one.
fn is_python(line: &[u8]) -> bool {
    line.split(|byte| *byte == 0).next().is_some_and(|program| program.ends_with(b"python"))
}
