//! A TCP proxy that can be told to fail: it stands between nodes and the node port, or between a server and
//! `PostgreSQL`, and changes while it runs.
//!
//! It knows nothing of what passes through it. One upstream or several, which are taken in turn, so that it is
//! also the address behind which replicas stand.

mod pump;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long an upstream may take to answer a connection before the next one is tried.
const CONNECT: Duration = Duration::from_secs(2);

/// What the link is like.
#[derive(Clone, Debug, Default)]
struct Weather {
    upstreams: Vec<SocketAddr>,
    /// Nothing passes, and nobody is told.
    stalled: bool,
    /// How much later everything arrives, each way.
    delay: Duration,
    /// Most bytes a second, each way and connection.
    rate: Option<u64>,
    /// Nothing passes any more on connections with a lower number; they stay open.
    lost_below: u64,
    /// Connections with a lower number end at once.
    cut_below: u64,
    /// Ends every connection once that many bytes have come from upstreams in sum.
    cut_at: Option<u64>,
}

/// A running proxy; connections through it end with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    weather: Arc<watch::Sender<Weather>>,
    counts: Arc<Counts>,
    accepting: JoinHandle<()>,
}

/// What passed.
#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    down: AtomicU64,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl Proxy {
    /// Listens on a free port. It refuses connections until it is pointed at something.
    ///
    /// # Errors
    /// No port can be listened on.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("failed to listen")?;
        let address = listener.local_addr()?;
        let weather = Arc::new(watch::Sender::new(Weather::default()));
        let counts = Arc::new(Counts::default());
        let accepting = tokio::spawn(accept(listener, Arc::clone(&weather), Arc::clone(&counts)));
        Ok(Self { address, weather, counts, accepting })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends new connections to these, in turn; one that refuses is passed over.
    ///
    /// # Errors
    /// One of them is no address.
    pub fn point_to(&self, upstreams: &[&str]) -> Result<()> {
        let parse = |text: &&str| text.parse().with_context(|| format!("failed to read the address {text}"));
        let upstreams: Vec<SocketAddr> = upstreams.iter().map(parse).collect::<Result<_>>()?;
        self.change(|weather| weather.upstreams = upstreams);
        Ok(())
    }

    /// Nothing passes any more, in either direction, on connections of now and later, until [`Proxy::heal`]:
    /// then everything that was held back arrives.
    pub fn stall(&self) {
        self.change(|weather| weather.stalled = true);
    }

    /// The connections of now are dead for good, and neither end is told. New ones work.
    pub fn lose(&self) {
        let next = self.connections();
        self.change(|weather| weather.lost_below = next);
    }

    /// Ends the connections of now. New ones work.
    pub fn cut(&self) {
        let next = self.connections();
        self.change(|weather| weather.cut_below = next);
    }

    /// Ends the connections of then once so many more bytes have come from upstreams.
    pub fn cut_after(&self, bytes: u64) {
        let at = self.carried() + bytes;
        self.change(|weather| weather.cut_at = Some(at));
    }

    /// Everything arrives this much later, each way.
    pub fn delay(&self, delay: Duration) {
        self.change(|weather| weather.delay = delay);
    }

    /// At most so many bytes a second, each way and connection.
    pub fn throttle(&self, bytes_per_second: u64) {
        self.change(|weather| weather.rate = Some(bytes_per_second));
    }

    /// No stall, delay or throttle. Connections that were lost or cut stay so.
    pub fn heal(&self) {
        self.change(|weather| {
            let Weather { upstreams, lost_below, cut_below, .. } = std::mem::take(weather);
            *weather = Weather { upstreams, lost_below, cut_below, ..Weather::default() };
        });
    }

    /// Connections that were taken so far.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// Bytes that came from upstreams so far.
    pub fn carried(&self) -> u64 {
        self.counts.down.load(Ordering::SeqCst)
    }

    fn change(&self, change: impl FnOnce(&mut Weather)) {
        self.weather.send_modify(change);
    }
}

async fn accept(listener: TcpListener, weather: Arc<watch::Sender<Weather>>, counts: Arc<Counts>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let number = counts.connections.fetch_add(1, Ordering::SeqCst);
        let link = pump::Link { number, weather: Arc::clone(&weather), counts: Arc::clone(&counts) };
        tokio::spawn(async move {
            let upstreams = link.weather.borrow().upstreams.clone();
            if let Some(upstream) = connect(&upstreams, number).await {
                link.carry(client, upstream).await;
            }
        });
    }
}

/// The first that takes a connection, beginning with another one for each number.
async fn connect(upstreams: &[SocketAddr], number: u64) -> Option<TcpStream> {
    let first = usize::try_from(number).unwrap_or_default() % upstreams.len().max(1);
    let (before, after) = upstreams.split_at_checked(first)?;
    for upstream in after.iter().chain(before) {
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT, TcpStream::connect(upstream)).await {
            stream.set_nodelay(true).ok();
            return Some(stream);
        }
    }
    None
}
