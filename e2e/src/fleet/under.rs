//! A fleet's processes as the system sees them: their ids, signals to them, files seen through a small disk.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::Fleet;
use crate::kernel;
use crate::process::Process;

impl Fleet {
    /// The process id of a node.
    ///
    /// # Errors
    /// It does not run.
    pub fn node_id(&self, index: usize) -> Result<u32> {
        let process = self.nodes.get(index).and_then(|node| node.process.as_ref());
        process.and_then(Process::id).context("failed to find the node's process")
    }

    /// Where a node keeps what it holds, as this process sees it.
    ///
    /// # Errors
    /// There is no such node.
    pub fn node_data(&self, index: usize) -> Result<PathBuf> {
        let node = self.nodes.get(index).context("failed to find the node")?;
        Ok(self.seen(&node.data))
    }

    /// What a node wrote to its log.
    pub fn node_log(&self, index: usize) -> String {
        let name = self.nodes.get(index).map_or("", |node| &node.name);
        std::fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Sends a node SIGTERM and waits for its end.
    ///
    /// # Errors
    /// It does not run, or fails on its way out.
    pub async fn drain_node(&mut self, index: usize) -> Result<()> {
        let node = self.nodes.get_mut(index).context("failed to find the node")?;
        let mut process = node.process.take().context("failed to find the node's process")?;
        let status = process.terminate().await?;
        anyhow::ensure!(status.success(), "failed to stop {}: {status}", node.name);
        Ok(())
    }

    /// The processes of all nodes that run.
    pub fn node_ids(&self) -> Vec<u32> {
        let processes = self.nodes.iter().filter_map(|node| node.process.as_ref());
        processes.filter_map(Process::id).collect()
    }

    /// Every process whose command line names this fleet's folder: servers, nodes and their tools.
    pub fn processes(&self) -> Vec<u32> {
        kernel::naming(self.folder.path())
    }

    /// A path of this fleet as this process sees it, which is outside of the small disk.
    pub(super) fn seen(&self, path: &Path) -> PathBuf {
        self.disk.as_ref().map_or_else(|| path.to_owned(), |disk| disk.seen(path))
    }
}
