//! A simulated node: a real certificate, a real stream, real acknowledgements, and the reconnect delays
//! of a real node; no disk and no tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hyper_util::rt::TokioIo;
use prost::Message as _;
use proto::v1::fleet_client::FleetClient;
use proto::v1::{self, NodeMessage, node_message, server_message};
use rustls_pki_types::ServerName;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

/// First delay after a failure, and the longest, as a node's.
const FIRST: Duration = Duration::from_millis(250);
const MOST: Duration = Duration::from_mins(1);

/// Reconnects a second that a fleet keeps to, as nodes do.
const RECONNECTS_PER_SECOND: u64 = 2_000;

/// Parts of a plugin set.
const PARTS: usize = 4;

/// What a node tells whoever measures.
pub(crate) enum Event {
    /// It acknowledged its edge's `trust`, or whatever a bare server sent.
    Acked { node: usize, generation: u64, at: Instant, bytes: usize },
    /// It holds everything that the fleet goes by; of a node that was current, `bytes` is all that it took.
    Current { node: usize, at: Instant, bytes: usize },
}

/// Where events go.
pub(crate) type Events = mpsc::UnboundedSender<Event>;

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

/// Who a node is and where it connects.
#[derive(Clone)]
pub(crate) struct Identity {
    /// Counted from 0.
    pub(crate) number: usize,
    /// `host:port` of the node port.
    pub(crate) address: String,
    /// Its certificate and key.
    pub(crate) tls: Arc<rustls::ClientConfig>,
}

/// A running node; it goes with this.
pub(crate) struct Node {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Node {
    /// Runs a node, which connects once `first` lets it, and again whenever its stream ends.
    pub(crate) fn spawn(
        identity: Identity,
        listings: Option<watch::Receiver<Listing>>,
        events: Events,
        first: Arc<Semaphore>,
    ) -> Self {
        let mut node =
            Running { identity, listings, events, held: BTreeMap::new(), fleet_size: 0, failures: 0 };
        let task = tokio::spawn(async move {
            let mut permit = first.acquire_owned().await.ok();
            loop {
                let ended = node.session(&mut permit).await;
                tracing::debug!(error = ?ended.err(), "a simulated node's stream ended");
                tokio::time::sleep(node.delay()).await;
            }
        });
        Self { task }
    }
}

struct Running {
    identity: Identity,
    listings: Option<watch::Receiver<Listing>>,
    events: Events,
    held: BTreeMap<i32, v1::SignedHead>,
    fleet_size: u32,
    /// Since the last Welcome.
    failures: u32,
}

struct Session {
    sender: mpsc::Sender<NodeMessage>,
    texts: Vec<(Vec<u8>, String)>,
    sequence: u64,
    /// Parts that were confirmed or received on this stream.
    has: BTreeSet<i32>,
    bytes: usize,
}

impl Running {
    /// As a real node's: after a stream spread over the time that the fleet needs, then exponential, with
    /// full jitter after the cap.
    fn delay(&mut self) -> Duration {
        let spread =
            Duration::from_millis(u64::from(self.fleet_size) * 1_000 / RECONNECTS_PER_SECOND).max(FIRST);
        let most = match self.failures {
            0 => spread,
            failures => (FIRST * 2_u32.saturating_pow(failures.min(16) - 1)).min(MOST),
        };
        self.failures += 1;
        most.mul_f64(rand::random::<f64>())
    }

    async fn session(&mut self, permit: &mut Option<tokio::sync::OwnedSemaphorePermit>) -> Result<()> {
        let channel = self.connect().await?;
        let (sender, outgoing) = mpsc::channel(4);
        let held = self.held.iter().map(|(part, head)| v1::Held { part: *part, head: Some(head.clone()) });
        let hello = v1::Hello {
            boot: uuid::Uuid::new_v4().simple().to_string(),
            agent_version: "bench".to_owned(),
            protocol: 1,
            held: held.collect(),
            ..v1::Hello::default()
        };
        sender.send(message(node_message::Message::Hello(hello))).await?;
        let mut stream = FleetClient::new(channel).session(ReceiverStream::new(outgoing)).await?.into_inner();
        let mut session = Session { sender, texts: Vec::new(), sequence: 0, has: BTreeSet::new(), bytes: 0 };
        let mut beat = tokio::time::interval(Duration::from_secs(15));
        beat.reset();
        loop {
            tokio::select! {
                received = stream.message() => match received? {
                    Some(received) => {
                        session.bytes += received.encoded_len();
                        if let Some(received) = received.message {
                            self.receive(&mut session, received).await?;
                        }
                        if self.failures == 0 {
                            permit.take();
                        }
                    }
                    None => return Ok(()),
                },
                changed = next(&mut self.listings) => session.report(&changed).await?,
                _ = beat.tick() => session.send(node_message::Message::Heartbeat(v1::Heartbeat::default())).await?,
            }
        }
    }

    async fn connect(&self) -> Result<tonic::transport::Channel> {
        let (address, tls) = (self.identity.address.clone(), Arc::clone(&self.identity.tls));
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.buffer_size(4);
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
        Ok(endpoint.connect_with_connector(connector).await?)
    }

    async fn receive(&mut self, session: &mut Session, received: server_message::Message) -> Result<()> {
        match received {
            server_message::Message::Welcome(welcome) => {
                (self.fleet_size, self.failures) = (welcome.fleet_size, 0);
                session.has.extend(&welcome.current);
                self.tell_if_current(session);
                if let Some(listings) = &mut self.listings {
                    let now = listings.borrow_and_update().clone();
                    session.report(&now).await?;
                }
                Ok(())
            }
            server_message::Message::Part(update) => self.acknowledge(session, update).await,
            server_message::Message::WantListings(want) => {
                let texts = session.texts.iter().filter(|(hash, _)| want.hashes.contains(hash));
                let canonical = texts.map(|(_, text)| text.clone()).collect();
                session.send(node_message::Message::Listings(v1::Listings { canonical })).await
            }
            // Only a bare server sends bodies that nobody asked for.
            server_message::Message::Bodies(_) => {
                self.failures = 0;
                session.send(node_message::Message::Ack(v1::Ack::default())).await?;
                self.tell_acked(session, u64::MAX);
                Ok(())
            }
            server_message::Message::Ping(_) => {
                session.send(node_message::Message::Heartbeat(v1::Heartbeat::default())).await
            }
            _ => Ok(()),
        }
    }

    async fn acknowledge(&mut self, session: &mut Session, update: v1::PartUpdate) -> Result<()> {
        let head = update.head.context("failed to find the head")?;
        let statement = v1::HeadStatement::decode(&*head.statement)?;
        let ack = v1::Ack {
            part: statement.part,
            epoch: statement.epoch,
            generation: statement.generation,
            digest: statement.digest,
        };
        session.send(node_message::Message::Ack(ack)).await?;
        self.held.insert(statement.part, head);
        if statement.part == i32::from(v1::Part::Trust) {
            self.tell_acked(session, statement.generation);
        }
        if session.has.insert(statement.part) {
            self.tell_if_current(session);
        }
        Ok(())
    }

    fn tell_acked(&self, session: &mut Session, generation: u64) {
        let (node, bytes) = (self.identity.number, std::mem::take(&mut session.bytes));
        self.events.send(Event::Acked { node, generation, at: Instant::now(), bytes }).ok();
    }

    fn tell_if_current(&self, session: &Session) {
        if session.has.len() == PARTS {
            let (node, bytes) = (self.identity.number, session.bytes);
            self.events.send(Event::Current { node, at: Instant::now(), bytes }).ok();
        }
    }
}

fn message(message: node_message::Message) -> NodeMessage {
    NodeMessage { message: Some(message) }
}

impl Session {
    async fn send(&self, said: node_message::Message) -> Result<()> {
        self.sender.send(message(said)).await.context("failed to send to the control plane")
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
