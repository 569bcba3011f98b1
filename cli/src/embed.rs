//! A control plane and nodes inside this process: the one place that starts them.
//!
//! Used by `server`, `node`, `up` and `demo`; everything else speaks to them over the network.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use control_plane::Server;
use node_agent::{Config as NodeConfig, Joined, Node, bridge};
use tracing_subscriber::EnvFilter;

use crate::called::Called;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::place::{Place, read_small, token_from};

/// Where a node keeps the token for its MCP endpoint, in its folder.
pub(crate) const MCP_TOKEN: &str = "mcp.token";

/// Where a node writes down its MCP endpoint, in its folder.
const MCP_URL: &str = "mcp.url";

/// What a control plane is started with.
#[derive(Debug)]
pub(crate) struct ServerPlan {
    /// Where it keeps everything that is in no database.
    pub data: PathBuf,
    /// `postgres://…`; `SQLite` in `data` if there is none.
    pub database: Option<String>,
    /// Where people reach it.
    pub people: SocketAddr,
    /// Where nodes reach it.
    pub node: SocketAddr,
    /// What join strings name, if not the address above.
    pub node_address: Option<String>,
    /// The key of the fleet's authority; `ca.key` in `data` if there is none.
    pub authority_key: Option<PathBuf>,
    /// The key that secrets are sealed with; without it, the data folder's.
    pub secrets_key: Option<PathBuf>,
    /// The folder that secrets may be read from, if there is one.
    pub secrets_folder: Option<PathBuf>,
    /// Life of nodes' certificates, if not a day.
    pub node_certificate_life: Option<Duration>,
}

/// Starts a control plane.
///
/// # Errors
/// An address is in use, or the data cannot be opened.
pub(crate) async fn start_server(plan: ServerPlan) -> Result<Server> {
    let mut config = control_plane::Config::new(plan.data);
    config.database = plan.database;
    config.people_listen = plan.people;
    config.node_listen = plan.node;
    config.node_address = plan.node_address;
    config.authority_key = plan.authority_key;
    config.secrets_key = plan.secrets_key;
    config.secrets_folder = plan.secrets_folder;
    config.node_certificate_life = plan.node_certificate_life.unwrap_or(config.node_certificate_life);
    Ok(Server::start(config).await?)
}

/// A step from one authority to another.
pub(crate) use control_plane::pki::Move;

/// Moves the keys of a server's authorities.
///
/// # Errors
/// A file that must be there is not, or one that must not be is.
pub(crate) fn move_authority(key: &Path, step: Move) -> Result<()> {
    Ok(control_plane::pki::AuthorityFiles::new(key).make(step)?)
}

/// What a node is started by.
///
/// # Errors
/// A setting is none.
pub(crate) fn node_config(data: PathBuf, listen: SocketAddr, settings: &[String]) -> Result<NodeConfig> {
    let mut config = NodeConfig::new(data);
    config.gateway.listen = listen;
    for setting in settings {
        node_agent::setting::set(&mut config, setting)
            .map_err(|fault| Failure::usage(format!("failed to {fault}")))?;
    }
    Ok(config)
}

/// Starts a node that has joined.
///
/// # Errors
/// It has not joined, or the address is in use.
pub(crate) async fn start_node(config: NodeConfig) -> Result<Node> {
    Ok(Node::start(config).await?)
}

/// What `--set` takes, behind an example.
pub(crate) fn settings_help(example: &str) -> String {
    format!("{example}\n\nSettings, with what they are unless set:\n{}", node_agent::setting::table())
}

/// Joins a fleet by the string that `pintle node token` printed.
///
/// # Errors
/// The string is not one, or the control plane does not take it.
pub(crate) async fn join(join: &str, data: &Path, name: &str) -> Result<Joined> {
    Ok(node_agent::join(join, data, name).await?)
}

/// Where agents reach a node.
pub(crate) fn endpoint(node: &Node) -> String {
    node.mcp_url()
}

/// Sends logs to stderr: warnings, or what `PINTLE_LOG` says (`info`, `node_agent=debug`, …).
pub(crate) fn log_to_stderr() {
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter("warn")).with_writer(std::io::stderr);
    // A second subscriber in one process is refused; the first goes on.
    subscriber.try_init().ok();
}

/// Sends logs to a file.
///
/// # Errors
/// The file cannot be made.
pub(crate) fn log_to_file(path: &Path) -> Result<()> {
    let file = std::fs::File::create(path).with_context(|| format!("make the log `{}`", path.display()))?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter("info")).with_ansi(false);
    subscriber.with_writer(std::sync::Mutex::new(file)).try_init().ok();
    Ok(())
}

fn filter(usual: &str) -> EnvFilter {
    EnvFilter::try_from_env("PINTLE_LOG").unwrap_or_else(|_| EnvFilter::new(usual))
}

/// Waits for Ctrl-C or SIGTERM.
///
/// # Errors
/// The system gives no signals.
pub(crate) async fn until_told_to_stop() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    tokio::select! {
        told = tokio::signal::ctrl_c() => told.context("listen for Ctrl-C"),
        _ = terminate.recv() => Ok(()),
    }
}

/// Which node a command goes through.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct NodeFlags {
    /// The node's MCP endpoint [default: the one that stands in the node's folder]
    #[arg(long, value_name = "URL", env = "PINTLE_ENDPOINT")]
    pub endpoint: Option<String>,
    /// The node's folder, which names its endpoint and holds the token for it [default: node in the data folder]
    #[arg(long, value_name = "DIR", env = "PINTLE_NODE_DATA")]
    pub node_data: Option<PathBuf>,
}

/// A node's MCP endpoint, with the token for it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    url: String,
    token: String,
}

impl Endpoint {
    /// The endpoint at `url`, of the node that keeps its token in `node_data`.
    ///
    /// # Errors
    /// There is no token in the folder.
    pub(crate) fn new(url: String, node_data: &Path) -> Result<Self, Failure> {
        Ok(Self { url, token: token_from(&node_data.join(MCP_TOKEN))? })
    }

    /// The endpoint that the flags name, else the one that the node wrote into its folder, else that of
    /// the node which runs from the data folder.
    ///
    /// # Errors
    /// No node is known, or there is no token for it.
    pub(crate) fn find(flags: &NodeFlags, place: &Place) -> Result<Self, Failure> {
        let node_data = flags.node_data.clone().unwrap_or_else(|| place.node());
        let running = || Ok::<_, Failure>(place.running()?.and_then(|running| running.mcp));
        let url = match &flags.endpoint {
            Some(url) => Some(url.clone()),
            None => match read_small(&node_data.join(MCP_URL))?.filter(|url| !url.is_empty()) {
                Some(url) => Some(url),
                None => running()?,
            },
        };
        let Some(url) = url else {
            let what = format!("no node has been started from `{}`", place.data().display());
            return Err(Failure::new(Exit::Unreachable, what)
                .remedy("start one with `pintle up`, or name one with --endpoint URL and --node-data DIR"));
        };
        Self::new(url, &node_data)
    }

    /// One call; `progress` is told what the tool says meanwhile.
    ///
    /// # Errors
    /// The endpoint cannot be reached, does not know the token, or answers with a protocol error.
    pub(crate) async fn call(
        &self,
        function: &str,
        arguments: &str,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Called> {
        let raw = bridge::call(&self.url, &self.token, function, arguments, progress)
            .await
            .map_err(|error| self.failed(error))?;
        Ok(Called::read(raw.get()))
    }

    /// Forwards stdin and stdout to the endpoint until stdin ends.
    ///
    /// # Errors
    /// The endpoint cannot be reached or does not know the token.
    pub(crate) async fn bridge(&self) -> Result<()> {
        bridge::run(&self.url, &self.token, Box::new(tokio::io::stdin()), Box::new(tokio::io::stdout()))
            .await
            .map_err(|error| self.failed(error))
    }

    fn failed(&self, error: bridge::Error) -> anyhow::Error {
        let unreachable = error.is_unreachable();
        let chain: Vec<String> = anyhow::Error::from(error).chain().map(ToString::to_string).collect();
        if unreachable {
            let what = format!("no node answers at {}: failed to {}", self.url, chain.join(": "));
            let failure = Failure::new(Exit::Unreachable, what);
            return failure.remedy("start one with `pintle up` or `pintle node run`").into();
        }
        Failure::failed(format!("failed to {}", chain.join(": "))).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Running;

    #[test]
    fn an_endpoint_is_the_named_one_or_the_folders_or_that_of_what_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::new(Some(folder.path())).expect("a place");
        let node = folder.path().join("edge-7");
        std::fs::create_dir(&node).expect("made");
        std::fs::write(node.join(MCP_TOKEN), "t".repeat(64)).expect("written");
        let mut flags = NodeFlags { endpoint: None, node_data: Some(node.clone()) };
        assert_eq!(Endpoint::find(&flags, &place).expect_err("nothing runs").exit, Exit::Unreachable);
        let url = |port: u16| format!("http://127.0.0.1:{port}/mcp");
        let running = Running { people: url(1), node: url(2), mcp: Some(url(3)), pid: 7 };
        place.note_running(&running).expect("written");
        assert_eq!(Endpoint::find(&flags, &place).expect("found").url, url(3));
        std::fs::write(node.join(MCP_URL), url(4) + "\n").expect("written");
        assert_eq!(Endpoint::find(&flags, &place).expect("found").url, url(4));
        flags.endpoint = Some(url(5));
        assert_eq!(Endpoint::find(&flags, &place).expect("found").url, url(5));
    }
}
