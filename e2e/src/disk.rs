//! A small disk: a tmpfs over one folder, in a mount namespace of its own that ends with this.
//!
//! Commands that are to see it run inside that namespace; this process sees its files through the process that
//! holds the namespace. It takes root, or a system that gives user namespaces.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tokio::process::Command;

use crate::process::{Process, pintle};

/// Mounts the folder, says so, and stays.
const HOLD: &str = r#"mount -t tmpfs -o "size=$2,mode=0755" small "$1" && echo ready && exec sleep infinity"#;

/// Bytes that are written at once to fill it: a page, so that nothing is left.
const PAGE: usize = 4_096;

/// A folder with little space.
#[derive(Debug)]
pub struct Disk {
    holder: Process,
    pid: u32,
    folder: PathBuf,
}

impl Disk {
    /// Makes the folder, and gives it so many bytes of space.
    ///
    /// # Errors
    /// This system lets nobody but root mount anything, and we are not root.
    pub async fn mount(folder: &Path, bytes: u64) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !is_root() {
            command.arg("--map-root-user");
        }
        command.args(["sh", "-c", HOLD, "sh"]).arg(folder).arg(bytes.to_string());
        let mut holder = Process::start(command, &folder.with_extension("mount.log"))?;
        holder.line().await.context("failed to mount a small disk; it takes root or user namespaces")?;
        let pid = holder.id().context("failed to keep the small disk")?;
        Ok(Self { holder, pid, folder: folder.to_owned() })
    }

    /// The `pintle` of this build, where this disk is mounted.
    ///
    /// # Errors
    /// It was not built.
    pub fn command(&self) -> Result<Command> {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid.to_string(), "--mount"]);
        if !is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--").arg(pintle()?);
        Ok(command)
    }

    /// A path of the namespace as this process sees it.
    pub fn seen(&self, path: &Path) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.pid)).join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Fills what space is left.
    ///
    /// # Errors
    /// Anything but a full disk.
    pub fn fill(&self) -> Result<()> {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(self.filling())?;
        loop {
            match file.write_all(&[0x70; PAGE]) {
                Ok(()) => {}
                Err(full) if full.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
                Err(other) => return Err(other).context("failed to fill the small disk"),
            }
        }
    }

    /// Fills what space is left but for about so many bytes.
    ///
    /// # Errors
    /// As [`Disk::fill`].
    pub fn fill_but(&self, bytes: u64) -> Result<()> {
        self.fill()?;
        let file = std::fs::OpenOptions::new().write(true).open(self.filling())?;
        let length = file.metadata()?.len();
        file.set_len(length.saturating_sub(bytes)).context("failed to leave some space")
    }

    /// Gives the space back.
    ///
    /// # Errors
    /// It was not filled.
    pub fn free(&self) -> Result<()> {
        std::fs::remove_file(self.filling()).context("failed to give the space back")
    }

    /// Whether the namespace is still held.
    pub fn is_held(&self) -> bool {
        self.holder.id().is_some()
    }

    fn filling(&self) -> PathBuf {
        self.seen(&self.folder.join("filling"))
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
