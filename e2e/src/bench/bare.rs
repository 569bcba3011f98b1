//! The limit: a tonic server that holds one stream per node and writes the same bytes to all, with the
//! product's TLS and nothing else of it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use control_plane::pki::{Authority, ServerKey, server_config};
use futures::Stream;
use proto::v1::fleet_server::{Fleet as FleetService, FleetServer};
use proto::v1::{self, NodeMessage, ServerMessage, server_message};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{Semaphore, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status, Streaming};

use super::crowd::{Crowd, WAIT};
use super::figures::processor_time;
use super::push::Round;
use super::sim::{Event, Identity, Node};

/// Flags of the hidden command.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The key of the authority whose nodes connect.
    #[arg(long)]
    authority: PathBuf,
    /// The fleet that they are of.
    #[arg(long)]
    fleet: String,
}

/// Nodes that connect at a time.
const CONNECT_AT_ONCE: usize = 64;

struct Bare {
    pushes: watch::Receiver<Option<Bytes>>,
}

type Messages = Pin<Box<dyn Stream<Item = Result<ServerMessage, Status>> + Send>>;

#[tonic::async_trait]
impl FleetService for Bare {
    type SessionStream = Messages;

    async fn session(&self, request: Request<Streaming<NodeMessage>>) -> Result<Response<Messages>, Status> {
        let mut said = request.into_inner();
        tokio::spawn(async move { while let Ok(Some(_)) = said.message().await {} });
        // The first says that the stream is open.
        let pushes = WatchStream::new(self.pushes.clone()).map(|bytes| {
            let bodies = bytes.into_iter().collect();
            let message = server_message::Message::Bodies(v1::Bodies { bodies });
            Ok(ServerMessage { message: Some(message) })
        });
        Ok(Response::new(Box::pin(pushes)))
    }
}

/// The server: each number on its standard input is a push of so many bytes.
pub(crate) async fn serve(options: &Options) -> Result<()> {
    let authority = Authority::open(&options.authority, &options.fleet, None)?;
    let key = Arc::new(ServerKey::new(&authority, vec!["127.0.0.1".to_owned()])?);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server_config(key, &authority)?));
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let listener = socket.listen(4_096)?;
    let mut out = std::io::stdout();
    writeln!(out, "{{\"address\":\"{}\"}}", listener.local_addr()?)?;
    out.flush()?;
    let (push, pushes) = watch::channel(None);
    let service = FleetServer::new(Bare { pushes }).max_encoding_message_size(usize::MAX);
    let routes = tonic::service::Routes::new(service).into_axum_router();
    tokio::spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Ok(size) = line.trim().parse::<usize>() {
                push.send_replace(Some(Bytes::from(vec![7_u8; size])));
            }
        }
    });
    loop {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        let (acceptor, routes) = (acceptor.clone(), routes.clone());
        tokio::spawn(async move {
            let Ok(tls) = acceptor.accept(tcp).await else { return };
            let builder = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
            let service = hyper_util::service::TowerToHyperService::new(routes);
            builder.serve_connection(hyper_util::rt::TokioIo::new(tls), service).await.ok();
        });
    }
}

/// Connects the crowd's nodes to a bare server, and pushes.
pub(crate) async fn rounds(crowd: &mut Crowd, bytes: usize, count: usize) -> Result<Vec<Round>> {
    let fleet = crowd.fleet.get("/status").await?;
    let fleet =
        fleet.pointer("/fleet/id").and_then(Value::as_str).context("failed to read the fleet's id")?;
    let mut server = tokio::process::Command::new(std::env::current_exe()?)
        .args(["bare-server", "--fleet", fleet, "--authority"])
        .arg(crowd.fleet.data().join("server/ca.key"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let pid = server.id().context("failed to find the bare server")?;
    let mut input = server.stdin.take().context("failed to write to the bare server")?;
    let mut lines = BufReader::new(server.stdout.take().context("failed to read the bare server")?).lines();
    let ready = lines.next_line().await?.context("failed to start the bare server")?;
    let ready: Value = serde_json::from_str(&ready)?;
    let address = ready.get("address").and_then(Value::as_str).context("failed to find its address")?;
    let first = Arc::new(Semaphore::new(CONNECT_AT_ONCE));
    let nodes: Vec<Node> = crowd
        .identities
        .iter()
        .map(|identity| {
            let identity = Identity { address: address.to_owned(), ..identity.clone() };
            Node::spawn(identity, None, crowd.events.clone(), Arc::clone(&first))
        })
        .collect();
    // What is sent as each stream opens.
    all_acked(crowd, Instant::now()).await?;
    let mut rounds = Vec::new();
    for _ in 0..count {
        let processor = processor_time(pid).unwrap_or_default();
        let begin = Instant::now();
        input.write_all(format!("{bytes}\n").as_bytes()).await?;
        input.flush().await?;
        let times = all_acked(crowd, begin).await?;
        let processor = processor_time(pid).unwrap_or_default().saturating_sub(processor);
        rounds.push(Round { times, processor, bytes, real: None });
    }
    drop(nodes);
    Ok(rounds)
}

async fn all_acked(crowd: &mut Crowd, begin: Instant) -> Result<Vec<Duration>> {
    let nodes = crowd.identities.len();
    let mut times = Vec::with_capacity(nodes);
    while times.len() < nodes {
        match tokio::time::timeout(WAIT, crowd.inbox.recv()).await {
            Ok(Some(Event::Acked { generation: u64::MAX, at, .. })) => {
                times.push(at.saturating_duration_since(begin));
            }
            Ok(Some(_)) => {}
            _ => bail!("failed to have {nodes} nodes acknowledge: {} did", times.len()),
        }
    }
    times.sort_unstable();
    Ok(times)
}
