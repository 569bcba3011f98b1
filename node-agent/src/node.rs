//! A node agent's process, put together: what it reads at its start, the tasks that run, and their end.
//!
//! Order of the start (30-nodes, 4): local state, connect, hold the set, serve what is installed, then
//! install what is new. Order of the end: no new calls, those under way finish, tools stop, the stream
//! closes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::guard::view::{SetState, View};
use domain::id::{BootId, EdgeName};
use domain::plugin_set::{Policy, Trust};
use domain::refusal::Refusal;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::credentials::Credentials;
use crate::expulsion::{Expeller, Expulsion};
use crate::gateway::{self, Gateway};
use crate::guard::{Guard, Runtime};
use crate::identity::{self, Files, Identity};
use crate::installer::{self, Installer};
use crate::ledger::{self, Ledger};
use crate::link::counter::Counter;
use crate::link::{self, Link};
use crate::reconciler::{PluginSet, Reconciler};
use crate::reliance::Reliance;
use crate::renewal::Renewal;
use crate::spool::Spool;
use crate::supervisor::{Settings, Supervisor};

/// How long tools may take to end before they are killed, after calls have had their time.
const TOOLS_STOP: Duration = Duration::from_secs(10);

/// How long a connection for a download may take, and how long a download may stand still.
const DOWNLOAD_QUIET: Duration = Duration::from_secs(30);

/// Settings of a node agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data folder of a joined node.
    pub data: PathBuf,
    /// The MCP endpoint's settings.
    pub gateway: gateway::Config,
    /// `PATH` of tools that are processes.
    pub tools_path: String,
    /// The program that stands between the agent and its tools, so that they end with it however it ends;
    /// see [`tools::shim`].
    pub tools_shim: Option<PathBuf>,
    /// What is waited for and read of tools.
    pub tools_limits: tools::Limits,
    /// How remote tools are reached.
    pub tools_egress: Egress,
}

/// How a node reaches remote tools.
#[derive(Clone, Default)]
pub struct Egress {
    /// Addresses of hosts, instead of asking DNS.
    pub resolve: Vec<(String, IpAddr)>,
    /// Certificates (PEM) trusted besides the system's, each with the file that it is from.
    pub extra_ca: Vec<(PathBuf, Vec<u8>)>,
    /// What stands between this node and all endpoints but those on this machine.
    pub proxy: Option<tools::EgressProxy>,
    /// User name and password for it, from this file.
    pub proxy_credentials: Option<(PathBuf, (String, String))>,
}

impl Config {
    /// The defaults, for the node whose data folder this is: MCP on 127.0.0.1:7410, tools with the
    /// agent's own `PATH`, and this program as their shim if its main can be one.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        let tools_path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
        Self {
            data: data.into(),
            gateway: gateway::Config::default(),
            tools_path,
            tools_shim: tools::shim::program(),
            tools_limits: tools::Limits::default(),
            tools_egress: Egress::default(),
        }
    }
}

/// Without what may be a secret.
impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Vec<&PathBuf> = self.extra_ca.iter().map(|(file, _)| file).collect();
        f.debug_struct("Egress")
            .field("resolve", &self.resolve)
            .field("extra_ca", &files)
            .field("proxy", &self.proxy)
            .field("proxy_credentials", &self.proxy_credentials.as_ref().map(|(file, _)| file))
            .finish()
    }
}

impl Egress {
    /// The proxy with its credentials.
    pub(crate) fn proxy(&self) -> Option<tools::EgressProxy> {
        let credentials = self.proxy_credentials.as_ref().map(|(_, credentials)| credentials.clone());
        self.proxy.clone().map(|proxy| tools::EgressProxy { credentials, ..proxy })
    }
}

/// Why a node agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node's identity.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// The ledger's folder.
    #[error("open the ledger: {0}")]
    Ledger(String),
    /// The folders of bundles.
    #[error("open the folder of bundles: {0}")]
    Bundles(String),
    /// The client for downloads.
    #[error("make the client for downloads")]
    Client(#[source] reqwest::Error),
    /// The MCP endpoint.
    #[error(transparent)]
    Gateway(#[from] gateway::Error),
    /// A task that reads the disk was lost.
    #[error("read the data folder: its task broke")]
    Task,
}

/// A running node agent.
pub struct Node {
    name: String,
    identity: proto::identity::NodeIdentity,
    guard: Arc<Guard>,
    gateway: Gateway,
    token_file: PathBuf,
    supervisor: Arc<Supervisor>,
    stop_reconciler: CancellationToken,
    stop_link: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// What is read from the data folder before anything runs.
enum Local {
    /// A node of a fleet.
    Joined(Box<Joined>),
    /// One that was evicted or banned: it only says so.
    Expelled(Box<Expelled>),
}

struct Joined {
    identity: Identity,
    counter: Counter,
    ledger: Ledger,
    found: ledger::Found,
    installer: Installer,
    installed: Vec<(domain::digest::Digest, crate::supervisor::Bundle)>,
    token: gateway::Token,
}

struct Expelled {
    me: proto::identity::NodeIdentity,
    name: String,
    refusal: Refusal,
    token: gateway::Token,
}

impl Node {
    /// Starts the agent of the node that joined with this data folder. It calls nothing before it holds
    /// the plugin set of this boot; one that was evicted or banned never does.
    ///
    /// Needs a multi-threaded runtime.
    ///
    /// # Errors
    /// The data folder is not a joined node's, or the MCP endpoint's address is taken. A control plane
    /// that cannot be reached is no error: the node waits for it.
    pub fn start(config: Config) -> BoxFuture<'static, Result<Self, Error>> {
        // Boxed, so that the agent's code is generated in this crate and not in each program that polls it.
        Box::pin(Self::assemble(config))
    }

    async fn assemble(config: Config) -> Result<Self, Error> {
        let data = config.data.clone();
        let local =
            tokio::task::spawn_blocking(move || Local::read(&data)).await.map_err(|_| Error::Task)??;
        match local {
            Local::Joined(joined) => Self::start_joined(config, *joined).await,
            Local::Expelled(expelled) => Self::start_expelled(config, *expelled).await,
        }
    }

    async fn start_joined(config: Config, joined: Joined) -> Result<Self, Error> {
        let Joined { identity, counter, ledger, found, installer, installed, token } = joined;
        let identity = Arc::new(identity);
        let credentials = Credentials::of(Arc::clone(&identity));
        let base = Base::start(&config, waiting(&identity), token, credentials).await?;
        let Base { guard, runtime, gateway, spool, supervisor } = base;
        let (set, sets) = watch::channel(Arc::new(PluginSet::default()));
        let set = Arc::new(set);
        let ledger_folder = config.data.join("ledger");
        let reliance = Arc::new(Reliance::open(&ledger_folder, Arc::clone(&set), Arc::clone(&supervisor)));
        let reconciler = Reconciler::new(sets, Arc::clone(&supervisor), installed);
        let (stop_reconciler, stop_link) = (CancellationToken::new(), CancellationToken::new());
        let expeller = Arc::new(Expeller {
            data: config.data.clone(),
            edge: identity.me.edge.clone(),
            supervisor: Arc::clone(&supervisor),
            reliance: Arc::clone(&reliance),
            stop: vec![stop_reconciler.clone(), stop_link.clone()],
        });
        let parts = link::Parts {
            identity: Arc::clone(&identity),
            guard: Arc::clone(&guard),
            runtime,
            supervisor: Arc::clone(&supervisor),
            spool,
            reliance: Arc::clone(&reliance),
            set,
            status: reconciler.status(),
            versions: reconciler.versions(),
            counter,
            expeller: Arc::clone(&expeller),
        };
        let link = Link::new(parts, boot(), ledger, found);
        let renewal = Renewal { identity: Arc::clone(&identity), expeller };
        let tasks = vec![
            tokio::spawn(reconciler.run(Arc::new(installer), stop_reconciler.clone())),
            tokio::spawn(reliance.run(stop_link.clone())),
            tokio::spawn(link.run(stop_link.clone())),
            tokio::spawn(renewal.run(stop_reconciler.clone())),
        ];
        tracing::info!(node.name = %identity.name, node.id = %identity.me.node, edge.id = %identity.me.edge, "node agent started");
        Ok(Self {
            name: identity.name.clone(),
            identity: identity.me.clone(),
            guard,
            gateway,
            token_file: token_file(&config.data),
            supervisor,
            stop_reconciler,
            stop_link,
            tasks,
        })
    }

    async fn start_expelled(config: Config, expelled: Expelled) -> Result<Self, Error> {
        let Expelled { me, name, refusal, token } = expelled;
        tracing::error!(reason = %refusal, "this node was taken out of its fleet");
        let closed = view(&me.edge, SetState::Closed(refusal));
        let base = Base::start(&config, closed, token, Credentials::default()).await?;
        Ok(Self {
            name,
            identity: me,
            guard: base.guard,
            gateway: base.gateway,
            token_file: token_file(&config.data),
            supervisor: base.supervisor,
            stop_reconciler: CancellationToken::new(),
            stop_link: CancellationToken::new(),
            tasks: Vec::new(),
        })
    }

    /// The address that MCP clients connect to.
    pub fn mcp_address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// The URL that MCP clients use.
    pub fn mcp_url(&self) -> String {
        self.gateway.url()
    }

    /// The file with the token that MCP clients show.
    pub fn mcp_token_file(&self) -> &std::path::Path {
        &self.token_file
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who the node is in the fleet.
    pub const fn identity(&self) -> &proto::identity::NodeIdentity {
        &self.identity
    }

    /// The call table.
    pub const fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    /// Stops taking calls, lets those under way finish (up to the gateway's limit), stops the tools and
    /// closes the stream.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(self.end())
    }

    async fn end(self) {
        self.stop_reconciler.cancel();
        self.gateway.stop().await;
        self.supervisor.stop_all(TOOLS_STOP).await;
        self.stop_link.cancel();
        for task in self.tasks {
            if task.await.is_err() {
                tracing::error!("a task of the node agent broke");
            }
        }
    }
}

/// What a node has whether it is of a fleet or was.
struct Base {
    guard: Arc<Guard>,
    runtime: Arc<Runtime>,
    gateway: Gateway,
    spool: Arc<Spool>,
    supervisor: Arc<Supervisor>,
}

impl Base {
    async fn start(
        config: &Config,
        view: View,
        token: gateway::Token,
        credentials: Credentials,
    ) -> Result<Self, Error> {
        let guard = Arc::new(Guard::new(view));
        let runtime = Arc::new(Runtime::default());
        let live = gateway::Live::new(Arc::clone(&guard), Arc::clone(&runtime));
        let gateway = Gateway::start(config.gateway.clone(), token, Arc::new(live)).await?;
        note_url(&config.data, &gateway.url());
        let spool = Arc::new(Spool::default());
        let settings = Settings {
            path: config.tools_path.clone(),
            shim: config.tools_shim.clone(),
            offers: config.gateway.offers,
            limits: config.tools_limits,
            credentials,
            egress: config.tools_egress.clone(),
            listeners: vec![gateway.address()],
            work: config.data.join("work"),
            logs: config.data.join("logs"),
        };
        let supervisor =
            Arc::new(Supervisor::new(Arc::clone(&guard), Arc::clone(&runtime), Arc::clone(&spool), settings));
        Ok(Self { guard, runtime, gateway, spool, supervisor })
    }
}

impl Local {
    fn read(data: &std::path::Path) -> Result<Self, Error> {
        let token = || gateway::Token::load_or_create(&token_file(data)).map_err(gateway::Error::from);
        let files = Files::new(data);
        if let Some(expulsion) = Expulsion::read(data)? {
            expulsion.finish(data)?;
            let me = files.who()?;
            let name = files.about()?.map(|about| about.name).unwrap_or_default();
            let refusal = expulsion.refusal(&me.edge, data);
            return Ok(Self::Expelled(Box::new(Expelled { me, name, refusal, token: token()? })));
        }
        let identity = Identity::load(data)?;
        let counter = Counter::open(&files)?;
        let verify = identity.verify();
        let (ledger, found) = Ledger::open(&data.join("ledger"), &*verify)
            .map_err(|error| Error::Ledger(crate::sentence(&error)))?;
        for fault in &found.faults {
            tracing::warn!(reason = %crate::sentence(fault), "a slot of the ledger cannot be read; what it held is asked for again");
        }
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(identity.download_tls())
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(DOWNLOAD_QUIET)
            .read_timeout(DOWNLOAD_QUIET)
            .build()
            .map_err(Error::Client)?;
        let bundles = |error: installer::Error| Error::Bundles(crate::sentence(&error));
        let installer = Installer::open(http, &identity.address, data).map_err(bundles)?;
        let installed = installer.installed();
        let token = token()?;
        Ok(Self::Joined(Box::new(Joined { identity, counter, ledger, found, installer, installed, token })))
    }
}

fn token_file(data: &std::path::Path) -> PathBuf {
    data.join("mcp.token")
}

/// Writes down where MCP clients of this machine find the node; it stays there when the node ends.
fn note_url(data: &std::path::Path, url: &str) {
    let partial = data.join("mcp.url.part");
    let written = std::fs::write(&partial, format!("{url}\n"))
        .and_then(|()| std::fs::rename(&partial, data.join("mcp.url")));
    if let Err(error) = written {
        tracing::warn!(error = %error, "the file that names the MCP endpoint cannot be written");
    }
}

fn waiting(identity: &Identity) -> View {
    let set = SetState::Waiting { server: Arc::clone(&identity.address), since: crate::now() };
    view(&identity.me.edge, set)
}

fn view(edge: &EdgeName, set: SetState) -> View {
    View {
        edge: edge.clone(),
        set,
        trust: Arc::new(Trust::default()),
        policy: Policy::default(),
        plugins: BTreeMap::new(),
        texts: BTreeMap::new(),
    }
}

#[expect(clippy::expect_used, reason = "32 hexadecimal digits are a boot id")]
fn boot() -> BootId {
    BootId::parse(&uuid::Uuid::new_v4().simple().to_string()).expect("32 hexadecimal digits")
}
