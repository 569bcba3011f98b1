//! etcd's watch: one connection and one watch per node, all on one key, in plain text (which spares etcd
//! what TLS costs the others). A watch has no acknowledgement; what is measured is when each received it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{IntoStreamingRequest as _, Request};
use tonic_prost::ProstCodec;

use super::figures::processor_time;
use super::push::Round;

/// Watchers that connect at a time.
const CONNECT_AT_ONCE: usize = 64;

/// Longest wait for all of them.
const WAIT: Duration = Duration::from_mins(2);

const KEY: &[u8] = b"edge/eu-1/trust";

// The few fields of etcd's API that are used.

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    create: Option<WatchCreate>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WatchResponse {
    #[prost(bool, tag = "3")]
    created: bool,
    #[prost(message, repeated, tag = "11")]
    events: Vec<Empty>,
}

/// Starts etcd with an empty folder, fsync on as it comes, and pushes.
pub(crate) async fn rounds(nodes: usize, bytes: usize, count: usize) -> Result<Vec<Round>> {
    let folder = tempfile::tempdir()?;
    let (etcd, address) = start(&folder)?;
    let pid = etcd.id().context("failed to find etcd's process")?;
    let writer = connect(&address).await?;
    let (received, mut inbox) = mpsc::unbounded_channel::<Instant>();
    let watchers: Vec<tokio::task::JoinHandle<()>> = stream::iter(0..nodes)
        .map(|_| watch(address.clone(), received.clone()))
        .buffer_unordered(CONNECT_AT_ONCE)
        .try_collect()
        .await?;
    let mut rounds = Vec::new();
    for _ in 0..count {
        let processor = processor_time(pid).unwrap_or_default();
        let begin = Instant::now();
        put(writer.clone(), bytes).await?;
        let mut times = Vec::with_capacity(nodes);
        while times.len() < nodes {
            let Ok(Some(at)) = tokio::time::timeout(WAIT, inbox.recv()).await else {
                bail!("failed to have {nodes} watchers told: {} were", times.len())
            };
            times.push(at.saturating_duration_since(begin));
        }
        times.sort_unstable();
        let processor = processor_time(pid).unwrap_or_default().saturating_sub(processor);
        rounds.push(Round { times, processor, bytes, real: None });
    }
    watchers.iter().for_each(tokio::task::JoinHandle::abort);
    drop(etcd);
    Ok(rounds)
}

fn start(folder: &tempfile::TempDir) -> Result<(Child, String)> {
    let free = || -> Result<u16> { Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port()) };
    let (client, peer) = (format!("http://127.0.0.1:{}", free()?), format!("http://127.0.0.1:{}", free()?));
    let etcd = Command::new("etcd")
        .arg("--data-dir")
        .arg(folder.path())
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("failed to start etcd: scripts/bench-etcd installs it")?;
    Ok((etcd, client))
}

async fn connect(address: &str) -> Result<Grpc<Channel>> {
    let begin = Instant::now();
    loop {
        match Endpoint::from_shared(address.to_owned())?.buffer_size(4).connect().await {
            Ok(channel) => return Ok(Grpc::new(channel)),
            Err(error) if begin.elapsed() > WAIT => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn put(mut client: Grpc<Channel>, bytes: usize) -> Result<()> {
    client.ready().await?;
    let request = Request::new(PutRequest { key: KEY.to_vec(), value: vec![7; bytes] });
    let path = http::uri::PathAndQuery::from_static("/etcdserverpb.KV/Put");
    client.unary(request, path, ProstCodec::<PutRequest, Empty>::default()).await?;
    Ok(())
}

/// Connects and watches the key; returns once etcd said that it does.
async fn watch(
    address: String,
    received: mpsc::UnboundedSender<Instant>,
) -> Result<tokio::task::JoinHandle<()>> {
    let mut client = connect(&address).await?;
    client.ready().await?;
    let (sender, requests) = mpsc::channel(1);
    sender.send(WatchRequest { create: Some(WatchCreate { key: KEY.to_vec() }) }).await?;
    let path = http::uri::PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
    let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
    let request = ReceiverStream::new(requests).into_streaming_request();
    let mut stream = client.streaming(request, path, codec).await?.into_inner();
    while let Some(response) = stream.message().await? {
        if response.created {
            break;
        }
    }
    Ok(tokio::spawn(async move {
        // The stream ends if nobody can ask any more.
        let _sender = sender;
        while let Ok(Some(response)) = stream.message().await {
            for _ in &response.events {
                received.send(Instant::now()).ok();
            }
        }
    }))
}
