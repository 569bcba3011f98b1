//! The demo's remote tool: this program again, as an MCP server over HTTP on 127.0.0.1.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// For it to say where it listens: it only has to bind a port.
const START: Duration = Duration::from_secs(10);

/// A running remote tool; it ends with this value, or with this process.
#[derive(Debug)]
pub(crate) struct Remote {
    /// Where it answers.
    pub url: String,
    _process: Child,
}

impl Remote {
    /// Starts one that lists what `control` says, on a port of its own.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) async fn start(program: &Path, control: &Path, log: &Path) -> Result<Self> {
        let mut process = Command::new(program)
            .args(["demo-tool", "--http", "127.0.0.1:0", "--until-stdin-ends", "--control"])
            .arg(control)
            .arg("--log")
            .arg(log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start the remote tool")?;
        let stdout = process.stdout.take().context("read from the remote tool")?;
        let mut lines = BufReader::new(stdout).lines();
        let first =
            tokio::time::timeout(START, lines.next_line()).await.context("wait for the remote tool")?;
        match first.context("read from the remote tool")? {
            Some(url) => Ok(Self { url, _process: process }),
            None => bail!("start the remote tool: it ended at once"),
        }
    }
}
