//! More servers on the same database as the fleet's first, and how a server is started.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Fleet;
use crate::api::Api;
use crate::process::Process;

/// One server beside the first.
#[derive(Debug)]
pub(super) struct Replica {
    data: PathBuf,
    /// Where its people's port is.
    pub(super) people: String,
    /// Where its node port is.
    pub(super) node_port: String,
    /// `None` while it does not run.
    pub(super) process: Option<Process>,
}

impl Fleet {
    /// Starts one more server on the fleet's database; its number, the first server's being 0.
    ///
    /// # Errors
    /// It does not start.
    pub async fn add_replica(&mut self) -> Result<usize> {
        let number = self.replicas.len() + 1;
        let data = self.folder.path().join(format!("control-{number}"));
        self.share_with_replica(&data)?;
        let replica = self.run_server(&log_of(number), &data, ("127.0.0.1:0", "127.0.0.1:0")).await?;
        self.replicas.push(replica);
        Ok(number)
    }

    /// What replicas have in common beside the database: the keys of the fleet's authority and of its secrets.
    fn share_with_replica(&self, data: &Path) -> Result<()> {
        let (first, own) = (self.data().join("server"), data.join("server"));
        std::fs::create_dir_all(&own).context("failed to make a replica's folder")?;
        for key in ["ca.key", "secrets.key"] {
            std::fs::copy(first.join(key), own.join(key)).with_context(|| format!("failed to copy {key}"))?;
        }
        Ok(())
    }

    /// The node ports of all servers, the first one's first.
    pub fn node_ports(&self) -> Vec<&str> {
        let others = self.replicas.iter().map(|replica| &*replica.node_port);
        std::iter::once(&*self.node_port).chain(others).collect()
    }

    /// The HTTP API of a server.
    ///
    /// # Errors
    /// There is no such server, or no token.
    pub fn api(&self, server: usize) -> Result<Api> {
        let people = match server.checked_sub(1) {
            None => &self.people,
            Some(index) => &self.replicas.get(index).context("failed to find the replica")?.people,
        };
        Api::new(people, &self.token()?)
    }

    /// Kills a server as `kill -9` does.
    ///
    /// # Errors
    /// It does not run.
    pub async fn kill_replica(&mut self, server: usize) -> Result<()> {
        self.take_process(server)?.kill().await
    }

    /// Sends a server SIGTERM and waits for its end.
    ///
    /// # Errors
    /// It does not run, or fails on its way out.
    pub async fn drain_replica(&mut self, server: usize) -> Result<()> {
        let status = self.take_process(server)?.terminate().await?;
        anyhow::ensure!(status.success(), "failed to stop server {server}: {status}");
        Ok(())
    }

    /// Starts a server that was killed or drained, at its addresses of before.
    ///
    /// # Errors
    /// It does not start.
    pub async fn restart_replica(&mut self, server: usize) -> Result<()> {
        let Some(index) = server.checked_sub(1) else { return self.start_server().await };
        let before = self.replicas.get(index).context("failed to find the replica")?;
        let ports = (&*before.people, &*before.node_port);
        let replica = self.run_server(&log_of(server), &before.data, ports).await?;
        *self.replicas.get_mut(index).context("failed to find the replica")? = replica;
        Ok(())
    }

    fn take_process(&mut self, server: usize) -> Result<Process> {
        let process = match server.checked_sub(1) {
            None => self.server.take(),
            Some(index) => self.replicas.get_mut(index).and_then(|replica| replica.process.take()),
        };
        process.context("failed to find the server's process")
    }

    /// Starts a server with this data folder at these addresses.
    pub(super) async fn run_server(
        &self,
        log: &str,
        data: &Path,
        (people, node_port): (&str, &str),
    ) -> Result<Replica> {
        let mut command = self.command_for(data)?;
        command.args(["server", "--json", "--listen", people.trim_start_matches("http://")]);
        command.args(["--node-listen", node_port]);
        if let Some(database) = &self.database {
            command.args(["--database", database]);
        }
        if let Some(address) = &self.node_address {
            command.args(["--node-address", address]);
        }
        command.args(self.server_flags);
        let mut process = Process::start(command, &self.folder.path().join(format!("{log}.log")))?;
        let ready = process.json().await?;
        let text =
            |pointer: &str| ready.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (people, node_port) = (text("/running/people"), text("/running/node"));
        Ok(Replica { data: data.to_owned(), people, node_port, process: Some(process) })
    }
}

fn log_of(number: usize) -> String {
    format!("server-{number}")
}
