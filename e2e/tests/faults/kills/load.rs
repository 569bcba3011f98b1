//! What goes on while everything is killed: calls, changes and their approvals, pushes, assignments; and what of
//! it was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::api::Api;
use e2e::fleet::EDGE;
use e2e::mcp::Endpoint;
use e2e::mutable::Mutable;
use e2e::process::pintle_command;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::Stage;
use crate::stage::{self, BYE, hello};

pub(super) const TODAY: &str =
    r#"{"name":"today","description":"Say today's weather.","inputSchema":{"type":"object"}}"#;
pub(super) const RUN: &str = r#"{"name":"run","description":"Run.","inputSchema":{"type":"object"}}"#;

/// What is called at each node, by a task each.
pub(super) const CALLED: [&str; 4] = ["team.hello", "team.bye", "wx.today", "fill.run"];

/// The longest that a call may go unanswered while its node lives: it is far above every limit of the product
/// that these calls meet.
const ANSWER: Duration = Duration::from_secs(40);

/// Between two calls of one task, and two tries of the same thing: the machine has other things to do.
const BREATH: Duration = Duration::from_millis(25);

/// Everything that was acknowledged.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Hashes of approved forms.
    pub(super) approvals: BTreeSet<String>,
    /// Entries that were, or were about to be, approved.
    pub(super) forms: BTreeSet<String>,
    /// The newest form of `hello`.
    pub(super) form: usize,
    /// Version of `fill`, and its content digest.
    pub(super) pushes: BTreeMap<String, String>,
    /// Versions of `fill`, in order.
    pub(super) assigned: Vec<String>,
    /// The version whose assignment was asked for last.
    pub(super) asked: String,
    /// Events by sequence: their hash.
    pub(super) events: BTreeMap<u64, String>,
    /// How calls went.
    pub(super) calls: BTreeMap<String, usize>,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (approvals, pushes, assigned) = (self.approvals.len(), self.pushes.len(), self.assigned.len());
        write!(f, "{approvals} approvals of {} forms, {pushes} pushes, {assigned} assignments, ", self.form)?;
        write!(f, "{} audit events seen; calls: {:?}", self.events.len(), self.calls)
    }
}

/// The load, while it runs.
pub(super) struct Load {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    told: Mutex<Told>,
    api: Api,
    folder: PathBuf,
}

impl Load {
    pub(super) fn start(stage: &Stage) -> Result<Self> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            told: Mutex::default(),
            api: stage.fleet.api(0)?,
            folder: stage.fleet.folder().to_owned(),
        });
        shared.told().forms.extend([hello(0), BYE.to_owned()]);
        let mut tasks = Vec::new();
        for node in stage.fleet.nodes() {
            for function in CALLED {
                tasks.push(tokio::spawn(Arc::clone(&shared).call(node.mcp.clone(), function)));
            }
        }
        tasks.push(tokio::spawn(Arc::clone(&shared).change(stage.team.clone())));
        tasks.push(tokio::spawn(Arc::clone(&shared).push(stage.fill.command())));
        tasks.push(tokio::spawn(Arc::clone(&shared).watch_audit()));
        Ok(Self { shared, tasks })
    }

    /// Waits until another approval is acknowledged.
    pub(super) async fn gets_on(&self) {
        let approvals = || self.shared.told().approvals.len();
        let before = approvals();
        e2e::eventually("another approval", || async {
            if approvals() > before { Ok(()) } else { Err("none yet") }
        })
        .await;
    }

    /// Ends it; what was acknowledged.
    pub(super) async fn end(self) -> Told {
        self.shared.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        std::mem::take(&mut *self.shared.told())
    }
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    async fn call(self: Arc<Self>, endpoint: Endpoint, function: &'static str) {
        while self.goes_on() {
            let how = match tokio::time::timeout(ANSWER, endpoint.call(function, json!({}))).await {
                Ok(Ok(outcome)) if outcome.is_error => outcome.refusal.unwrap_or_else(|| "error".to_owned()),
                Ok(Ok(_)) => "answered".to_owned(),
                Ok(Err(_)) => "unreachable".to_owned(),
                Err(_) => "unanswered".to_owned(),
            };
            *self.told().calls.entry(how).or_default() += 1;
            tokio::time::sleep(BREATH).await;
        }
    }

    /// Ever new forms of `hello`; of four in a row one is never approved.
    async fn change(self: Arc<Self>, team: Mutable) {
        let mut form = 0;
        while self.goes_on() {
            form += 1;
            self.told().form = form;
            let is_approved = form % 4 != 0;
            if is_approved {
                self.told().forms.insert(hello(form));
            }
            stage::list(&team, form);
            while self.goes_on() && !self.settle(form, is_approved).await.unwrap_or_default() {
                tokio::time::sleep(BREATH).await;
            }
            // For some calls to be made.
            tokio::time::sleep(4 * BREATH).await;
        }
    }

    /// Whether the form was seen and, if it is to be, approved.
    async fn settle(&self, form: usize, is_approved: bool) -> Result<bool> {
        let open = stage::waiting(&self.api, form).await;
        match open {
            Ok(_) if !is_approved => Ok(true),
            Ok(body) => {
                let hash = stage::approve(&self.api, &body).await?;
                self.told().approvals.insert(hash);
                Ok(true)
            }
            // An earlier try may have been done although its answer did not arrive.
            Err(_) => {
                Ok(self.api.get("/catalog?plugin=greeter").await?.to_string().contains(&stage::says(form)))
            }
        }
    }

    /// Ever new versions of `fill`, each pushed and assigned.
    async fn push(self: Arc<Self>, command: Vec<String>) {
        let mut number = 0;
        while self.goes_on() {
            number += 1;
            let version = format!("1.0.{number}");
            let bundle = pack(&self.folder, &version, &command).await.unwrap();
            while self.goes_on() && self.push_one(&version, &bundle).await.is_err() {
                tokio::time::sleep(BREATH).await;
            }
            self.told().asked.clone_from(&version);
            while self.goes_on() && self.assign(&version).await.is_err() {
                tokio::time::sleep(BREATH).await;
            }
            for _ in 0..40 {
                if self.goes_on() {
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }

    async fn push_one(&self, version: &str, bundle: &[u8]) -> Result<()> {
        let (status, answer) = self.api.push(bundle.to_vec()).await?;
        // 200: an earlier try was done although its answer did not arrive.
        ensure!(status == 201 || status == 200, "{status} {answer}");
        let digest = answer["content_digest"].as_str().context("failed to find the digest")?;
        self.told().pushes.insert(version.to_owned(), digest.to_owned());
        Ok(())
    }

    async fn assign(&self, version: &str) -> Result<()> {
        let path = format!("/edges/{EDGE}/assignments/fill");
        let (status, answer) = self.api.put(&path, &json!({"version": version})).await?;
        ensure!(status == 200, "{status} {answer}");
        self.told().assigned.push(version.to_owned());
        Ok(())
    }

    async fn watch_audit(self: Arc<Self>) {
        while self.goes_on() {
            if let Ok(events) = self.api.list("/audit?limit=1").await {
                self.told().events.extend(events.iter().map(seq_and_hash));
            }
            tokio::time::sleep(8 * BREATH).await;
        }
    }
}

/// An event's place in the log, and its hash.
pub(super) fn seq_and_hash(event: &Value) -> (u64, String) {
    (event["seq"].as_u64().unwrap(), event["hash"].as_str().unwrap().to_owned())
}

/// A bundle of `fill` whose tool is this command.
async fn pack(folder: &Path, version: &str, command: &[String]) -> Result<Vec<u8>> {
    let source = folder.join(format!("fill-{version}"));
    std::fs::create_dir_all(&source)?;
    let manifest = json!({
        "name": "fill", "version": version, "description": "A plugin of the tests.",
        "tools": {"fill": {"command": command}},
    });
    std::fs::write(source.join("pintle.yaml"), manifest.to_string())?;
    let bundle = folder.join(format!("fill-{version}.pintle"));
    let mut pack = pintle_command()?;
    pack.args(["plugin", "pack"]).arg(&source).arg("--out").arg(&bundle);
    let output = pack.output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(&bundle).context("failed to read the bundle")
}
