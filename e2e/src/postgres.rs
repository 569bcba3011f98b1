//! A `PostgreSQL` of one test's own, which may be killed.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use crate::kernel;
use crate::process::Process;

/// The user and group `nobody`: the server refuses to run as root.
const NOBODY: u32 = 65_534;

/// Small, and nothing of it outside its folder.
const SETTINGS: [&str; 4] = [
    "listen_addresses=127.0.0.1",
    "max_connections=100",
    "shared_buffers=32MB",
    "dynamic_shared_memory_type=mmap",
];

/// How long it may take to end at once when the test is over.
const QUIT: Duration = Duration::from_secs(5);

/// A cluster in a folder of its own. It is durable: what was committed survives a kill.
#[derive(Debug)]
pub struct Postgres {
    folder: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
    postmaster: Option<Process>,
}

impl Drop for Postgres {
    /// Killed, it would leave a segment of shared memory behind.
    fn drop(&mut self) {
        let Some(mut postmaster) = self.postmaster.take() else { return };
        let Some(pid) = postmaster.id() else { return };
        kernel::quit(pid).ok();
        let begin = Instant::now();
        while postmaster.is_running() && begin.elapsed() < QUIT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Postgres {
    /// Makes a cluster and starts it.
    ///
    /// # Errors
    /// `PostgreSQL` is not installed (`scripts/test` does so), or does not start.
    pub async fn start() -> Result<Self> {
        let bin = find_bin().context("failed to find PostgreSQL: scripts/test installs it")?;
        // Below /tmp: `nobody` cannot read a home folder.
        let folder = tempfile::Builder::new().prefix("pintle-pg").tempdir_in("/tmp")?;
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY))?;
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut cluster = Self { folder, bin, port, postmaster: None };
        let mut command = cluster.command("initdb");
        command.args(["-U", "pintle", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]);
        let output = command.output().await.context("failed to run initdb")?;
        if !output.status.success() {
            bail!("failed to make a cluster: {}", String::from_utf8_lossy(&output.stderr));
        }
        cluster.restart().await?;
        Ok(cluster)
    }

    /// Where it listens: `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The address of its database, reached at `HOST:PORT`, which may be a proxy's.
    pub fn url(&self, reached_at: &str) -> String {
        format!("postgres://pintle@{reached_at}/postgres")
    }

    /// Whether it was started and not killed since.
    pub const fn is_running(&self) -> bool {
        self.postmaster.is_some()
    }

    /// Kills the postmaster as `kill -9` does; what it started ends by itself.
    ///
    /// # Errors
    /// It does not run.
    pub async fn kill_postmaster(&mut self) -> Result<()> {
        self.postmaster.take().context("failed to find the postmaster")?.kill().await
    }

    /// Kills the postmaster and everything that it started.
    ///
    /// # Errors
    /// It does not run.
    pub async fn kill_all(&mut self) -> Result<()> {
        for child in self.children() {
            kernel::kill(child).ok();
        }
        self.kill_postmaster().await
    }

    /// Kills one of the processes that serve connections: the cluster then ends all of them and recovers.
    /// `choose` is given their number.
    pub fn kill_one(&self, choose: impl FnOnce(usize) -> usize) {
        let children = self.children();
        if let Some(child) = children.get(choose(children.len())) {
            kernel::kill(*child).ok();
        }
    }

    /// Starts it, again if it was killed, and waits until it takes connections.
    ///
    /// # Errors
    /// It does not run as a command.
    pub async fn restart(&mut self) -> Result<()> {
        loop {
            let mut command = self.command("postgres");
            command.args(["-p", &self.port.to_string(), "-k"]).arg(self.folder.path());
            for setting in SETTINGS {
                command.args(["-c", setting]);
            }
            let mut process = Process::start(command, &self.folder.path().join("log"))?;
            // It ends at once while what it started before its kill is not gone yet.
            while process.is_running() {
                if self.takes_connections().await {
                    self.postmaster = Some(process);
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops it, keeps a copy of all that it has, and starts it again.
    ///
    /// # Errors
    /// It does not run, or the copy cannot be made.
    pub async fn copy_aside(&mut self) -> Result<()> {
        self.kill_all().await?;
        copy(&self.folder.path().join("data"), &self.folder.path().join("copy")).await?;
        self.restart().await
    }

    /// Stops it, puts back what [`copy_aside`](Self::copy_aside) kept, and starts it again.
    ///
    /// # Errors
    /// It does not run, or there is no copy.
    pub async fn put_back(&mut self) -> Result<()> {
        self.kill_all().await?;
        let data = self.folder.path().join("data");
        tokio::fs::remove_dir_all(&data).await.context("failed to remove the cluster")?;
        copy(&self.folder.path().join("copy"), &data).await?;
        self.restart().await
    }

    async fn takes_connections(&self) -> bool {
        let mut command = Command::new(self.bin.join("pg_isready"));
        command.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        command.status().await.is_ok_and(|status| status.success())
    }

    fn children(&self) -> Vec<u32> {
        self.postmaster.as_ref().and_then(Process::id).map(kernel::children).unwrap_or_default()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.arg("-D").arg(self.folder.path().join("data")).current_dir(self.folder.path());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

/// A folder with owners and modes as they are.
async fn copy(from: &std::path::Path, to: &std::path::Path) -> Result<()> {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().await?;
    anyhow::ensure!(status.success(), "failed to copy {}: {status}", from.display());
    Ok(())
}

fn find_bin() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = versions.map(|version| version.path().join("bin"));
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&on_path).collect();
    installed.chain(on_path).find(|bin| bin.join("initdb").exists() && bin.join("postgres").exists())
}
