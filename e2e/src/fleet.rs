//! A control plane and nodes as processes of the `pintle` binary.

mod replicas;
mod under;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::disk::Disk;
use crate::eventually;
use crate::mcp::Endpoint;
use crate::process::{Process, pintle_command};
use replicas::Replica;

/// A fleet in a folder of its own; every process ends with it.
#[derive(Debug)]
pub struct Fleet {
    folder: tempfile::TempDir,
    database: Option<String>,
    /// What join strings name, if not the node port.
    node_address: Option<String>,
    /// More flags for `pintle server`.
    server_flags: &'static [&'static str],
    /// More flags for `pintle node run`.
    node_flags: Vec<String>,
    /// A folder of this fleet that has little space.
    disk: Option<Disk>,
    server: Option<Process>,
    /// Where the people's port is.
    pub people: String,
    node_port: String,
    replicas: Vec<Replica>,
    nodes: Vec<Node>,
    http: reqwest::Client,
}

/// A fleet that is not the usual one.
#[derive(Debug, Default)]
pub struct Plan {
    /// `postgres://…` instead of `SQLite`.
    pub database: Option<String>,
    /// How many nodes join at once.
    pub nodes: usize,
    /// What join strings name instead of the node port: a proxy.
    pub node_address: Option<std::net::SocketAddr>,
    /// More flags for `pintle server`.
    pub server_flags: &'static [&'static str],
    /// More flags for `pintle node run`.
    pub node_flags: Vec<String>,
    /// This folder below the fleet's (`control`, `node-1`) has so many bytes of space.
    pub small: Option<(&'static str, u64)>,
}

/// One node's process.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    data: PathBuf,
    process: Option<Process>,
    /// Its MCP endpoint.
    pub mcp: Endpoint,
}

/// The edge that the fleet's nodes are of.
pub const EDGE: &str = "eu-1";

impl Fleet {
    /// A control plane on `SQLite` and this many nodes, named node-1 and so on.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start(nodes: usize) -> Result<Self> {
        Self::start_on(None, nodes).await
    }

    /// The same on a database of its own.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start_on(database: Option<String>, nodes: usize) -> Result<Self> {
        Self::start_as(Plan { database, nodes, ..Plan::default() }).await
    }

    /// A fleet as planned.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start_as(plan: Plan) -> Result<Self> {
        let mut fleet = Self::prepare(&plan).await?;
        fleet.start_server().await?;
        fleet.cli(&["edge", "create", EDGE]).await?;
        for number in 1..=plan.nodes {
            fleet.add_node(&format!("node-{number}")).await?;
        }
        Ok(fleet)
    }

    /// A fleet of which nothing runs yet: its servers and nodes are started one by one.
    ///
    /// # Errors
    /// Its folder cannot be made.
    pub async fn prepare(plan: &Plan) -> Result<Self> {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = reqwest::Client::builder().no_proxy().build()?;
        let folder = tempfile::tempdir()?;
        let disk = match plan.small {
            Some((name, bytes)) => Some(Disk::mount(&folder.path().join(name), bytes).await?),
            None => None,
        };
        Ok(Self {
            folder,
            database: plan.database.clone(),
            node_address: plan.node_address.map(|address| address.to_string()),
            server_flags: plan.server_flags,
            node_flags: plan.node_flags.clone(),
            disk,
            server: None,
            people: "127.0.0.1:0".to_owned(),
            node_port: "127.0.0.1:0".to_owned(),
            replicas: Vec::new(),
            nodes: Vec::new(),
            http,
        })
    }

    /// The folder that everything of this fleet is in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The control plane's data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// Where the node port is.
    pub fn node_port(&self) -> &str {
        &self.node_port
    }

    /// The folder with little space, if the fleet was planned with one.
    ///
    /// # Panics
    /// If it was not.
    #[expect(clippy::expect_used, reason = "the harness of tests")]
    pub const fn disk(&self) -> &Disk {
        self.disk.as_ref().expect("the fleet was planned with a small disk")
    }

    /// The process id of the control plane.
    pub fn server_id(&self) -> Option<u32> {
        self.server.as_ref().and_then(Process::id)
    }

    /// Starts the control plane; at its addresses of before, if it ran before.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_server(&mut self) -> Result<()> {
        let replica = self.run_server("server", &self.data(), (&*self.people, &*self.node_port)).await?;
        (self.people, self.node_port) = (replica.people, replica.node_port);
        self.server = replica.process;
        Ok(())
    }

    /// Kills the control plane as `kill -9` does.
    ///
    /// # Errors
    /// It does not run.
    pub async fn kill_server(&mut self) -> Result<()> {
        self.server.take().context("failed to find the server")?.kill().await
    }

    fn command(&self) -> Result<Command> {
        self.command_for(&self.data())
    }

    fn command_for(&self, data: &Path) -> Result<Command> {
        let mut command = match &self.disk {
            Some(disk) => disk.command()?,
            None => pintle_command()?,
        };
        command.arg("--data").arg(data).env_remove("PINTLE_TOKEN").env("NO_COLOR", "1");
        Ok(command)
    }

    /// Lets a node join and runs it.
    ///
    /// # Errors
    /// It does not join or start.
    pub async fn add_node(&mut self, name: &str) -> Result<()> {
        self.add_node_to(EDGE, name).await
    }

    /// The same, into another edge.
    ///
    /// # Errors
    /// It does not join or start.
    pub async fn add_node_to(&mut self, edge: &str, name: &str) -> Result<()> {
        let token = self.cli_json(&["node", "token", "--edge", edge]).await?;
        let join = token.get("join").or_else(|| token.get("join_string")).and_then(Value::as_str);
        let join = join.with_context(|| format!("failed to find the join string in {token}"))?.to_owned();
        let data = self.folder.path().join(name);
        let data_text = data.to_string_lossy().into_owned();
        self.cli(&["node", "join", &join, "--name", name, "--node-data", &data_text]).await?;
        let (process, mcp) = self.run_node(name, &data, "127.0.0.1:0").await?;
        self.nodes.push(Node { name: name.to_owned(), data, process: Some(process), mcp });
        Ok(())
    }

    /// Runs a node from a folder that is there already.
    ///
    /// # Errors
    /// It does not start.
    pub async fn adopt_node(&mut self, name: &str, data: &Path) -> Result<()> {
        let (process, mcp) = self.run_node(name, data, "127.0.0.1:0").await?;
        let (name, data) = (name.to_owned(), data.to_owned());
        self.nodes.push(Node { name, data, process: Some(process), mcp });
        Ok(())
    }

    async fn run_node(&self, name: &str, data: &Path, listen: &str) -> Result<(Process, Endpoint)> {
        let mut command = self.command()?;
        command.args(["node", "run", "--json", "--listen", listen, "--node-data"]).arg(data);
        command.args(&self.node_flags);
        let mut process = Process::start(command, &self.folder.path().join(format!("{name}.log")))?;
        let ready = process.json().await?;
        let url = ready.get("mcp").and_then(Value::as_str).context("failed to find the endpoint")?;
        let token = std::fs::read_to_string(self.seen(&data.join("mcp.token")))
            .context("failed to read the node's token")?;
        let endpoint = Endpoint::new(url, token.trim())?;
        Ok((process, endpoint))
    }

    /// Flags for the nodes that are run from here on.
    pub fn set_node_flags(&mut self, flags: Vec<String>) {
        self.node_flags = flags;
    }

    /// Kills a node as `kill -9` does.
    ///
    /// # Errors
    /// There is no such node, or it does not run.
    pub async fn kill_node(&mut self, index: usize) -> Result<()> {
        let node = self.nodes.get_mut(index).context("failed to find the node")?;
        node.process.take().context("failed to find the node's process")?.kill().await
    }

    /// Runs a killed node again, at its address of before.
    ///
    /// # Errors
    /// It does not start.
    pub async fn restart_node(&mut self, index: usize) -> Result<()> {
        let node = self.nodes.get(index).context("failed to find the node")?;
        let (process, mcp) = self.run_node(&node.name, &node.data, node.mcp.address()).await?;
        let node = self.nodes.get_mut(index).context("failed to find the node")?;
        node.process = Some(process);
        node.mcp = mcp;
        Ok(())
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node's endpoint.
    ///
    /// # Panics
    /// If there is no such node.
    #[expect(clippy::indexing_slicing, reason = "the harness of tests")]
    pub fn mcp(&self, index: usize) -> &Endpoint {
        &self.nodes[index].mcp
    }

    /// Runs the command; its output, if it succeeds.
    ///
    /// # Errors
    /// Its exit code and both of its outputs.
    pub async fn cli(&self, arguments: &[&str]) -> Result<String> {
        let output = self.cli_output(arguments).await?;
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!("pintle {arguments:?}: {}\n{stdout}{stderr}", output.status);
        }
        Ok(stdout.into_owned())
    }

    /// Runs the command, however it ends.
    ///
    /// # Errors
    /// It does not start.
    pub async fn cli_output(&self, arguments: &[&str]) -> Result<std::process::Output> {
        let mut command = self.command()?;
        command.args(arguments).stdin(std::process::Stdio::null()).kill_on_drop(true);
        command.output().await.context("failed to run pintle")
    }

    /// Runs the command with `--json`.
    ///
    /// # Errors
    /// As [`Fleet::cli`], or what it prints is no JSON.
    pub async fn cli_json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.cli(&[arguments, &["--json"]].concat()).await?;
        serde_json::from_str(&text).with_context(|| format!("failed to read {text}"))
    }

    /// The admin's token.
    ///
    /// # Errors
    /// It is not there.
    pub fn token(&self) -> Result<String> {
        let path = self.seen(&self.data().join("server/admin.token"));
        Ok(std::fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?
            .trim()
            .to_owned())
    }

    /// Reads from the HTTP API.
    ///
    /// # Errors
    /// It cannot be reached or refuses.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let url = format!("{}/api/v1{path}", self.people);
        let response = self.http.get(url).bearer_auth(self.token()?).send().await?;
        let status = response.status();
        let value: Value = response.json().await?;
        if !status.is_success() {
            bail!("GET {path}: {status} {value}");
        }
        Ok(value)
    }

    /// Sends to the HTTP API; status and body.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn post(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let url = format!("{}/api/v1{path}", self.people);
        let response = self.http.post(url).bearer_auth(self.token()?).json(body).send().await?;
        Ok((response.status().as_u16(), response.json().await.unwrap_or_default()))
    }

    /// Writes a plugin with these tools (`{"team": {"command": […]}}`) and gives its folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_plugin(&self, name: &str, version: &str, tools: &Value) -> Result<PathBuf> {
        self.write_plugin_with(name, version, tools, &json!({}))
    }

    /// The same, with connections.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_plugin_with(
        &self,
        name: &str,
        version: &str,
        tools: &Value,
        connections: &Value,
    ) -> Result<PathBuf> {
        let folder = self.folder.path().join(format!("{name}-{version}"));
        std::fs::create_dir_all(&folder)?;
        // YAML is a superset of JSON.
        let manifest = json!({"name": name, "version": version, "description": "A plugin of the tests.", "tools": tools, "connections": connections});
        std::fs::write(folder.join("pintle.yaml"), serde_json::to_string_pretty(&manifest)?)?;
        Ok(folder)
    }

    /// Writes a plugin, pushes it, assigns it and waits until every node serves it.
    ///
    /// # Errors
    /// Any of that fails.
    pub async fn install(&self, name: &str, version: &str, tools: &Value) -> Result<()> {
        let folder = self.write_plugin(name, version, tools)?;
        self.cli(&["plugin", "push", &folder.to_string_lossy()]).await?;
        self.cli(&["assign", &format!("{name}@{version}"), "--edge", EDGE]).await?;
        Ok(())
    }

    /// Waits until a call of the function succeeds on every node.
    pub async fn callable(&self, function: &str, arguments: Value) {
        for node in &self.nodes {
            eventually(&format!("{function} to be callable on {}", node.name), || async {
                let outcome = node.mcp.call(function, arguments.clone()).await?;
                if outcome.refusal.is_some() {
                    bail!("{outcome:?}")
                }
                Ok(())
            })
            .await;
        }
    }

    /// Waits until every node refuses the function with this code; the sentences.
    pub async fn refused(&self, function: &str, code: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        for node in &self.nodes {
            let sentence =
                eventually(&format!("{function} to be refused with {code} on {}", node.name), || async {
                    let outcome = node.mcp.call(function, json!({})).await?;
                    if outcome.refusal.as_deref() == Some(code) {
                        Ok(outcome.text)
                    } else {
                        bail!("{outcome:?}")
                    }
                })
                .await;
            sentences.push(sentence);
        }
        sentences
    }
}
