//! The demo's fleet: a control plane and three nodes in this process, everything in one folder.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use control_plane::Server;
use node_agent::Node;

use super::narrator::Narrator;
use super::props::Props;
use super::remote::Remote;
use super::wait::{Look, until};
use crate::api;
use crate::client::Client;
use crate::embed::{self, Endpoint, ServerPlan};
use crate::place::{Place, Running, token_from};
use crate::verb::up::{join_string, make_edge};

/// The edge of the demo.
pub(crate) const EDGE: &str = "demo";

/// Nodes: enough for "on all of them" to mean something.
const NODES: u64 = 3;

/// For the nodes to be seen by the control plane.
const CONNECT: Duration = Duration::from_secs(20);

/// Any free port of this machine.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// One node with the way to call through it.
pub(crate) struct Member {
    /// Its name.
    pub name: String,
    /// Its MCP endpoint.
    pub endpoint: Endpoint,
    /// The endpoint's address.
    pub url: String,
    /// Its folder.
    pub data: PathBuf,
    node: Node,
}

/// Everything that runs.
pub(crate) struct Stage {
    /// Where all of it lies.
    pub place: Place,
    /// Speaks to the control plane.
    pub client: Client,
    /// The nodes.
    pub members: Vec<Member>,
    /// The plugin.
    pub props: Props,
    /// The remote tools, by the order of the versions that name them.
    pub remotes: Vec<Remote>,
    server: Server,
}

/// A new folder that only this user can enter.
///
/// # Errors
/// The system's temporary folder cannot be written to.
pub(crate) fn folder() -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("pintle-demo-{}", uuid::Uuid::new_v4()));
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&path)
        .with_context(|| format!("make the folder `{}`", path.display()))?;
    Ok(path)
}

impl Stage {
    /// Starts the control plane, then the nodes, and says so.
    ///
    /// # Errors
    /// Something does not start.
    pub(crate) async fn raise(folder: &Path, narrator: &mut Narrator<'_>) -> Result<Self> {
        narrator.chapter("A control plane starts; it decides what runs where and writes everything down.")?;
        let place = Place::new(Some(folder))?;
        fs::create_dir_all(place.server()).context("make the control plane's folder")?;
        let began = Instant::now();
        let plan = ServerPlan {
            data: place.server(),
            database: None,
            people: ANY,
            node: ANY,
            node_address: None,
            authority_key: None,
            secrets_key: None,
            secrets_folder: None,
            node_certificate_life: None,
        };
        let server = embed::start_server(plan).await?;
        let people = format!("http://{}", server.people_address());
        let client = Client::new(&people, token_from(&place.admin_token())?)?;
        client.get::<serde_json::Value>("/status").await?;
        narrator.observed(&format!("it answers at {people}"), Some(began.elapsed()))?;

        narrator.chapter("Three nodes join with one string; each is where agents find their tools.")?;
        let began = Instant::now();
        make_edge(&client, EDGE).await?;
        let join = join_string(&client, EDGE, NODES).await?;
        let mut members = Vec::new();
        for number in 1..=NODES {
            members.push(member(folder, &format!("node-{number}"), &join).await?);
        }
        let props = Props::new(folder)?;
        let running = Running {
            people,
            node: server.node_address().to_string(),
            mcp: members.first().map(|member| member.url.clone()),
            pid: std::process::id(),
        };
        place.note_running(&running).context("note what runs")?;
        let stage = Self { place, client, members, props, remotes: Vec::new(), server };
        stage.wait_for_nodes().await?;
        narrator.observed("node-1, node-2 and node-3 are connected", Some(began.elapsed()))?;
        Ok(stage)
    }

    async fn wait_for_nodes(&self) -> Result<()> {
        until("three connected nodes", CONNECT, async || {
            let nodes: Vec<api::Node> = self.client.list("/nodes").await?;
            let connected = nodes.iter().filter(|node| node.connected).count();
            Ok(if connected == self.members.len() {
                Look::Seen(())
            } else {
                Look::NotYet(format!("{connected} connected"))
            })
        })
        .await?;
        Ok(())
    }

    /// Stops everything.
    pub(crate) async fn stop(self) {
        for member in self.members {
            member.node.stop().await;
        }
        self.server.stop().await;
    }
}

async fn member(folder: &Path, name: &str, join: &str) -> Result<Member> {
    let data = folder.join(name);
    embed::join(join, &data, name).await?;
    let node = embed::start_node(embed::node_config(data.clone(), ANY, &[])?).await?;
    let url = embed::endpoint(&node);
    let endpoint = Endpoint::new(url.clone(), &data)?;
    Ok(Member { name: name.to_owned(), endpoint, url, data, node })
}
