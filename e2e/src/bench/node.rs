//! A simulated node: a real certificate, a real stream, real acknowledgements; no disk and no tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use hyper_util::rt::TokioIo;
use proto::v1::fleet_client::FleetClient;
use proto::v1::{self, NodeMessage, node_message, server_message};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

/// One acknowledgement of `trust`, as it was sent.
pub(crate) struct Acked {
    /// Which generation.
    pub(crate) generation: u64,
    /// When.
    pub(crate) at: Instant,
}

/// What the node that lists says of each function: canonical texts.
pub(crate) type Listing = Arc<Vec<(String, String)>>;

/// `functions` functions, of which the first says something else in each round.
pub(crate) fn listing(functions: usize, round: usize) -> Listing {
    let text = |index: usize, round: usize| {
        format!(
            r#"{{"description":"Function {index}, as of round {round}.","inputSchema":{{"type":"object"}}}}"#
        )
    };
    Arc::new((0..functions).map(|i| (format!("f{i}"), text(i, if i == 0 { round } else { 0 }))).collect())
}

/// A joined node's certificate and where its control plane is.
pub(crate) struct Identity {
    address: String,
    tls: Arc<rustls::ClientConfig>,
}

impl Identity {
    /// Joins, and reads what joining left in the folder.
    pub(crate) async fn join(join: &str, folder: PathBuf) -> Result<Arc<Self>> {
        let name = folder.file_name().and_then(|name| name.to_str()).context("failed to name the node")?;
        let joined = node_agent::join(join, &folder, name).await?;
        let read = |file: &str| std::fs::read(folder.join(file));
        let mut roots = rustls::RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(&read("authorities.pem")?) {
            roots.add(authority.map_err(|error| anyhow::anyhow!("{error:?}"))?)?;
        }
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read("node.pem")?).collect();
        let certificates = certificates.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let key = PrivateKeyDer::from_pem_slice(&read("node.key")?)
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(certificates, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        tls.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(Self { address: joined.address, tls: Arc::new(tls) }))
    }
}

/// A connected node; it goes with this.
pub(crate) struct Node {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Node {
    /// Connects and says hello.
    pub(crate) async fn connect(
        identity: Arc<Identity>,
        listings: Option<watch::Receiver<Listing>>,
        acked: mpsc::UnboundedSender<Acked>,
    ) -> Result<Self> {
        let (address, tls) = (identity.address.clone(), Arc::clone(&identity.tls));
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.buffer_size(16);
        let connector = tower::service_fn(move |_: http::Uri| {
            let (address, tls) = (address.clone(), Arc::clone(&tls));
            async move {
                let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host).to_owned();
                let tcp = tokio::net::TcpStream::connect(&address).await?;
                tcp.set_nodelay(true)?;
                let name = ServerName::try_from(host).map_err(std::io::Error::other)?;
                let stream = tokio_rustls::TlsConnector::from(tls).connect(name, tcp).await?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        let channel = endpoint.connect_with_connector(connector).await?;
        let (sender, outgoing) = mpsc::channel(16);
        let hello = v1::Hello {
            boot: uuid::Uuid::new_v4().simple().to_string(),
            agent_version: "bench".to_owned(),
            protocol: 1,
            ..v1::Hello::default()
        };
        sender.send(message(node_message::Message::Hello(hello))).await?;
        let stream = FleetClient::new(channel).session(ReceiverStream::new(outgoing)).await?.into_inner();
        let session = Session { sender, acked, texts: Vec::new(), sequence: 0 };
        let task = tokio::spawn(async move {
            if let Err(error) = session.run(stream, listings).await {
                tracing::warn!(error = %format!("{error:#}"), "a simulated node ended");
            }
        });
        Ok(Self { task })
    }
}

fn message(message: node_message::Message) -> NodeMessage {
    NodeMessage { message: Some(message) }
}

struct Session {
    sender: mpsc::Sender<NodeMessage>,
    acked: mpsc::UnboundedSender<Acked>,
    texts: Vec<(Vec<u8>, String)>,
    sequence: u64,
}

impl Session {
    async fn run(
        mut self,
        mut stream: tonic::Streaming<v1::ServerMessage>,
        mut listings: Option<watch::Receiver<Listing>>,
    ) -> Result<()> {
        let mut beat = tokio::time::interval(std::time::Duration::from_secs(10));
        loop {
            tokio::select! {
                received = stream.message() => match received?.and_then(|m| m.message) {
                    Some(received) => self.receive(received, &mut listings).await?,
                    None => return Ok(()),
                },
                changed = next(&mut listings) => self.report(&changed).await?,
                _ = beat.tick() => self.send(node_message::Message::Heartbeat(v1::Heartbeat::default())).await?,
            }
        }
    }

    async fn send(&self, said: node_message::Message) -> Result<()> {
        self.sender.send(message(said)).await.context("failed to send to the control plane")
    }

    async fn receive(
        &mut self,
        received: server_message::Message,
        listings: &mut Option<watch::Receiver<Listing>>,
    ) -> Result<()> {
        match received {
            server_message::Message::Welcome(_) => {
                if let Some(listings) = listings {
                    let now = listings.borrow_and_update().clone();
                    self.report(&now).await?;
                }
                Ok(())
            }
            server_message::Message::Part(update) => self.acknowledge(update).await,
            server_message::Message::WantListings(want) => {
                let texts = self.texts.iter().filter(|(hash, _)| want.hashes.contains(hash));
                let canonical = texts.map(|(_, text)| text.clone()).collect();
                self.send(node_message::Message::Listings(v1::Listings { canonical })).await
            }
            _ => Ok(()),
        }
    }

    async fn acknowledge(&self, update: v1::PartUpdate) -> Result<()> {
        let head = update.head.context("failed to find the head")?;
        let statement = <v1::HeadStatement as prost::Message>::decode(&*head.statement)?;
        let ack = v1::Ack {
            part: statement.part,
            epoch: statement.epoch,
            generation: statement.generation,
            digest: statement.digest,
        };
        self.send(node_message::Message::Ack(ack)).await?;
        if statement.part == i32::from(v1::Part::Trust) {
            self.acked.send(Acked { generation: statement.generation, at: Instant::now() }).ok();
        }
        Ok(())
    }

    async fn report(&mut self, listing: &Listing) -> Result<()> {
        self.sequence += 1;
        self.texts = listing.iter().map(|(_, text)| (Sha256::digest(text).to_vec(), text.clone())).collect();
        let functions = listing
            .iter()
            .map(|(name, text)| v1::ListedFunction {
                name: name.clone(),
                hash: Sha256::digest(text).to_vec(),
                ..v1::ListedFunction::default()
            })
            .collect();
        let report = v1::ListingReport {
            sequence: self.sequence,
            plugin: "bench".to_owned(),
            version: "1.0.0".to_owned(),
            tool: "team".to_owned(),
            complete: true,
            functions,
            ..v1::ListingReport::default()
        };
        self.send(node_message::Message::Listing(report)).await
    }
}

async fn next(listings: &mut Option<watch::Receiver<Listing>>) -> Listing {
    if let Some(receiver) = listings
        && receiver.changed().await.is_ok()
    {
        return receiver.borrow_and_update().clone();
    }
    std::future::pending().await
}
