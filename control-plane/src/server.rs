//! Puts the control plane together: data folder, database, authority, the two ports, the fan-out.
//!
//! [`Server::start`] returns when everything listens; [`Server::stop`] tells nodes when to come back,
//! lets requests end, and closes. Called by `pintle-server`, `pintle up`, `pintle demo` and tests.

mod assemble;
mod chain;
mod folder;
mod rollouts;
mod secrets;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use chain::Chain;
use folder::DataFolder;

use crate::fleet::Fleet;
use crate::store::Store;
use crate::{fleet, operation, pki, store};

/// How long streams have to say goodbye when the server stops.
const STREAMS_WITHIN: Duration = Duration::from_secs(3);

/// The longest life of a node's certificate: longer, and an eviction is all that ends a stolen key.
const CERTIFICATE_LIFE_MAX: Duration = Duration::from_hours(90 * 24);

/// How long each of the server's tasks has to end after that.
const TASKS_WITHIN: Duration = Duration::from_secs(8);

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data folder; made with mode 0700 if it is not there.
    pub data: PathBuf,
    /// `sqlite:PATH` or `postgres://…`; without it, `pintle.db` in the data folder.
    pub database: Option<String>,
    /// Where people and their programs connect, in plain HTTP; only on loopback (a proxy with a certificate serves others).
    pub people_listen: SocketAddr,
    /// Where nodes connect.
    pub node_listen: SocketAddr,
    /// `HOST:PORT` that nodes are told to connect to; without it, what `node_listen` became.
    pub node_address: Option<String>,
    /// The fleet's name, for people; counts at the first start.
    pub fleet_name: String,
    /// The file with the key of the fleet's authority; without it, `ca.key` in the data folder.
    pub authority_key: Option<PathBuf>,
    /// The file with the key that the fleet's secrets are sealed with; without it, `secrets.key` in the data folder.
    pub secrets_key: Option<PathBuf>,
    /// The folder of the machine that connections' secrets may be read from; without it, none are read from files.
    pub secrets_folder: Option<PathBuf>,
    /// Life of the certificates that nodes get, at least a second; they renew them at half of it.
    pub node_certificate_life: Duration,
}

impl Config {
    /// The defaults: loopback, people on 7400, nodes on 7401.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            database: None,
            people_listen: SocketAddr::from(([127, 0, 0, 1], 7400)),
            node_listen: SocketAddr::from(([127, 0, 0, 1], 7401)),
            node_address: None,
            fleet_name: "fleet".to_owned(),
            authority_key: None,
            secrets_key: None,
            secrets_folder: None,
            node_certificate_life: pki::NODE_CERTIFICATE_LIFE,
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data folder or a file in it.
    #[error("{verb} {}", path.display())]
    Folder {
        /// What was to be done.
        verb: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Another server has the data folder.
    #[error(
        "start in {}: another server runs with this data folder; stop it, or give this one a folder of its own",
        path.display()
    )]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// The address cannot be listened on.
    #[error("listen for {whom} on {address}")]
    Listen {
        /// People or nodes.
        whom: &'static str,
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// People's tokens would cross a network unencrypted.
    #[error(
        "listen for people on {address}: it is no loopback address, and people are served in plain HTTP, so their \
         tokens could be read on the way; listen on 127.0.0.1:{} and let a proxy with a certificate pass on to it",
        address.port()
    )]
    Exposed {
        /// Where it should have listened.
        address: SocketAddr,
    },
    /// Certificates that would have ended before they are used.
    #[error("give nodes certificates for {got:?}: at least a second and at most {most:?} are taken")]
    CertificateLife {
        /// What was asked for.
        got: Duration,
        /// What may be asked for.
        most: Duration,
    },
    /// The database.
    #[error("open the database")]
    Store(#[source] store::Error),
    /// The first steps in the database.
    #[error("prepare the fleet")]
    Prepare(#[source] operation::Error),
    /// Keys and certificates.
    #[error("prepare the fleet's authority")]
    Authority(#[from] pki::Error),
    /// The key that secrets are sealed with.
    #[error("prepare the key of the fleet's secrets")]
    Vault(#[from] crate::vault::Error),
    /// The folder that secrets are read from.
    #[error("read secrets from {}: {why}", path.display())]
    SecretsFolder {
        /// Which.
        path: PathBuf,
        /// Why it cannot be.
        why: String,
    },
    /// TLS to authorization servers.
    #[error("prepare TLS to authorization servers")]
    Asker(#[source] reqwest::Error),
    /// The parts of the edges.
    #[error("prepare the plugin sets")]
    Fleet(#[from] fleet::Error),
}

/// A control plane that runs.
#[derive(Debug)]
pub struct Server {
    people_address: SocketAddr,
    node_address: SocketAddr,
    advertised: String,
    admin_token: String,
    fleet_id: String,
    store: Store,
    fleet: Fleet,
    streams: TaskTracker,
    stop_people: CancellationToken,
    stop_nodes: CancellationToken,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
    // Held until everything else has ended.
    folder: DataFolder,
}

impl Server {
    /// Starts everything; when it returns, both ports answer.
    ///
    /// # Errors
    /// [`Error`] says what stands in the way, and what to do where a person can.
    pub fn start(config: Config) -> BoxFuture<'static, Result<Self, Error>> {
        // Boxed, so that the server's code is generated in this crate and not in each program that polls it.
        Box::pin(assemble::start(config))
    }

    /// Where people connect, with the port that was chosen for port 0.
    pub const fn people_address(&self) -> SocketAddr {
        self.people_address
    }

    /// Where nodes connect, with the port that was chosen for port 0.
    pub const fn node_address(&self) -> SocketAddr {
        self.node_address
    }

    /// `HOST:PORT` in join strings.
    pub fn advertised_node_address(&self) -> &str {
        &self.advertised
    }

    /// The token of the data folder's owner.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// The fleet's id.
    pub fn fleet_id(&self) -> &str {
        &self.fleet_id
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        self.folder.path()
    }

    /// The database, for tests and benchmarks in the same process.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// What this server knows of its nodes, for tests and benchmarks in the same process.
    pub const fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Stops: no new requests, a goodbye to each node with its own time to come back, the rest ends
    /// by itself or is ended.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(self.end())
    }

    async fn end(self) {
        self.stop_people.cancel();
        self.streams.close();
        self.fleet.drain();
        if tokio::time::timeout(STREAMS_WITHIN, self.streams.wait()).await.is_err() {
            tracing::info!(streams.left = self.streams.len(), "some nodes did not hear the goodbye");
        }
        self.stop_nodes.cancel();
        for (name, mut task) in self.tasks {
            if tokio::time::timeout(TASKS_WITHIN, &mut task).await.is_err() {
                tracing::warn!(task = name, "a task did not end by itself");
                task.abort();
            }
        }
        self.store.close().await;
        drop(self.folder);
    }
}
