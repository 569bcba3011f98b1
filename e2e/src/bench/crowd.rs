//! A fleet of many simulated nodes: a control plane in a process of its own, its edges, and nodes that
//! joined as nodes do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use control_plane::pki::Authority;
use e2e::fleet::{EDGE, Fleet};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use proto::join_string::JoinString;
use proto::v1::JoinRequest;
use proto::v1::enroll_client::EnrollClient;
use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};
use tonic::transport::{Channel, Endpoint};

use super::sim::{Event, Events, Identity, Listing, Node};

/// Joins under way: as many as one connection may have, less one.
const JOINS_AT_ONCE: usize = 31;

/// Joins over one connection, which lasts a minute at most without a certificate.
const JOINS_PER_CONNECTION: usize = 2_000;

/// Nodes that connect at a time at first: this process shares the server's cores.
const CONNECT_AT_ONCE: usize = 64;

/// Longest wait for all nodes.
pub(crate) const WAIT: Duration = Duration::from_mins(5);

/// A control plane with the plugin `bench` on each of its edges, and the nodes that joined it.
pub(crate) struct Crowd {
    pub(crate) fleet: Fleet,
    /// Process id of the server.
    pub(crate) server: u32,
    pub(crate) edges: Vec<String>,
    pub(crate) identities: Vec<Identity>,
    pub(crate) joined_after: Duration,
    pub(crate) nodes: Vec<Node>,
    pub(crate) events: Events,
    pub(crate) inbox: mpsc::UnboundedReceiver<Event>,
}

impl Crowd {
    /// Starts the control plane and has the nodes join, in turn on each edge.
    pub(crate) async fn join(nodes: usize, edges: usize) -> Result<Self> {
        let fleet = Fleet::start(0).await?;
        let server = fleet.server_id().context("failed to find the server's process")?;
        let folder = fleet.write_plugin("bench", "1.0.0", &json!({"team": {"command": ["/bin/true"]}}))?;
        fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await?;
        let edges: Vec<String> =
            (0..edges.max(1)).map(|i| if i == 0 { EDGE.to_owned() } else { format!("edge-{i}") }).collect();
        for edge in &edges {
            if edge != EDGE {
                fleet.cli(&["edge", "create", edge]).await?;
            }
            fleet.cli(&["assign", "bench@1.0.0", "--edge", edge]).await?;
        }
        let begin = Instant::now();
        let mut identities = Vec::with_capacity(nodes);
        for (index, edge) in edges.iter().enumerate() {
            let numbers: Vec<usize> = (index..nodes).step_by(edges.len()).collect();
            identities.extend(join_all(&fleet, edge, &numbers).await?);
        }
        identities.sort_by_key(|identity| identity.number);
        let joined_after = begin.elapsed();
        let (events, inbox) = mpsc::unbounded_channel();
        Ok(Self { fleet, server, edges, identities, joined_after, nodes: Vec::new(), events, inbox })
    }

    /// Which edge a node is of.
    pub(crate) fn edge_of(&self, node: usize) -> usize {
        node % self.edges.len()
    }

    /// Connects all; the first node lists for all. Returns once each holds its set.
    pub(crate) async fn connect(&mut self, listings: Option<watch::Receiver<Listing>>) -> Result<Duration> {
        let begin = Instant::now();
        let first = Arc::new(Semaphore::new(CONNECT_AT_ONCE));
        for identity in self.identities.clone() {
            let lists = if identity.number == 0 { listings.clone() } else { None };
            self.nodes.push(Node::spawn(identity, lists, self.events.clone(), Arc::clone(&first)));
        }
        self.all_current(begin).await?;
        Ok(begin.elapsed())
    }

    /// Waits until each node is current on a stream; the time of each since `begin`, sorted, and the bytes
    /// that it took each.
    pub(crate) async fn all_current(&mut self, begin: Instant) -> Result<(Vec<Duration>, Vec<usize>)> {
        let mut since: Vec<Option<(Duration, usize)>> = vec![None; self.identities.len()];
        let mut left = since.len();
        while left > 0 {
            let Ok(Some(event)) = tokio::time::timeout(WAIT, self.inbox.recv()).await else {
                bail!("failed to have {} nodes current: {left} are not", since.len())
            };
            if let Event::Current { node, at, bytes } = event
                && let Some(slot @ None) = since.get_mut(node)
            {
                *slot = Some((at.saturating_duration_since(begin), bytes));
                left -= 1;
            }
        }
        let (mut times, bytes): (Vec<Duration>, Vec<usize>) = since.into_iter().flatten().unzip();
        times.sort_unstable();
        Ok((times, bytes))
    }

    /// Where `trust` of each edge stands, once as many nodes as it has acknowledged that and the plugin's
    /// snapshot was taken.
    pub(crate) async fn settled(&mut self, others: usize) -> Result<Vec<u64>> {
        let begin = Instant::now();
        loop {
            let mut generations = Vec::new();
            let taken = self.fleet.get("/catalog?edge=eu-1").await?.to_string().contains("team.f0");
            let mut acknowledged = 0;
            for edge in &self.edges {
                let parts = self.fleet.get(&format!("/edges/{edge}/parts")).await?;
                let number = |key: &str| {
                    parts.pointer(&format!("/trust/{key}")).and_then(Value::as_u64).unwrap_or_default()
                };
                generations.push(number("generation"));
                acknowledged += number("acknowledged");
            }
            if taken && acknowledged == (self.identities.len() + others) as u64 {
                while self.inbox.try_recv().is_ok() {}
                return Ok(generations);
            }
            if begin.elapsed() > WAIT {
                bail!("failed to have all nodes settle: {acknowledged} did");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

async fn join_all(fleet: &Fleet, edge: &str, numbers: &[usize]) -> Result<Vec<Identity>> {
    let uses = numbers.len().to_string();
    let token = fleet.cli_json(&["node", "token", "--edge", edge, "--uses", &uses, "--ttl", "1h"]).await?;
    let join = token.get("join").and_then(Value::as_str).context("failed to find the join string")?;
    let join = JoinString::parse(join)?;
    let authority = Authority::open(&fleet.data().join("server/ca.key"), &join.fleet, None)?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.certificate().clone())?;
    let roots = Arc::new(roots);
    let mut identities = Vec::with_capacity(numbers.len());
    for some in numbers.chunks(JOINS_PER_CONNECTION) {
        let client = EnrollClient::new(stranger(&join.address, Arc::clone(&roots)).await?);
        let joins = some.iter().map(|number| join_one(client.clone(), &join, Arc::clone(&roots), *number));
        let joined: Vec<Identity> = stream::iter(joins).buffer_unordered(JOINS_AT_ONCE).try_collect().await?;
        identities.extend(joined);
    }
    Ok(identities)
}

/// A connection without a certificate.
async fn stranger(address: &str, roots: Arc<rustls::RootCertStore>) -> Result<Channel> {
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let (host, tls) = (address.to_owned(), Arc::new(tls));
    let connector = tower::service_fn(move |_: http::Uri| {
        let (address, tls) = (host.clone(), Arc::clone(&tls));
        async move {
            let tcp = tokio::net::TcpStream::connect(&address).await?;
            let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
            let stream = tokio_rustls::TlsConnector::from(tls).connect(name, tcp).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    });
    Ok(Endpoint::from_shared(format!("http://{address}"))?.connect_with_connector(connector).await?)
}

async fn join_one(
    mut client: EnrollClient<Channel>,
    join: &JoinString,
    roots: Arc<rustls::RootCertStore>,
    number: usize,
) -> Result<Identity> {
    let key = KeyPair::generate()?;
    let request = JoinRequest {
        token_id: join.token.clone(),
        token_secret: join.secret.clone(),
        signing_request: CertificateParams::default().serialize_request(&key)?.der().to_vec(),
        node_name: format!("sim-{number}"),
        agent_version: "bench".to_owned(),
    };
    let answer = client.join(request).await?.into_inner();
    let chain = answer.certificates.into_iter().map(CertificateDer::from).collect();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut tls =
        rustls::ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    tls.resumption = rustls::client::Resumption::disabled();
    Ok(Identity { number, address: join.address.clone(), tls: Arc::new(tls) })
}
