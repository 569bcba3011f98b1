//! A TCP proxy before the node port that lets streams through and can hold downloads: what is sent on them
//! goes nowhere, and nobody is told.
//!
//! A download is known by the protocol that its TLS greeting offers, which is readable.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Bytes of a greeting.
const GREETING: usize = 4_096;

/// The running proxy; it ends when it is dropped.
#[derive(Debug)]
pub struct Holding {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
    held: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    upstream: Option<SocketAddr>,
    holds: bool,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Holding {
    /// Listens on a free port.
    ///
    /// # Errors
    /// No port can be listened on.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("failed to listen")?;
        let address = listener.local_addr()?;
        let state = Arc::new(watch::Sender::new(State::default()));
        let held = Arc::new(AtomicUsize::new(0));
        let (states, count) = (Arc::clone(&state), Arc::clone(&held));
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (states, count) = (states.subscribe(), Arc::clone(&count));
                tokio::spawn(async move { pass(client, states, &count).await.ok() });
            }
        });
        Ok(Self { address, state, held, accepting })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it leads to.
    pub fn lead_to(&self, upstream: SocketAddr) {
        self.state.send_modify(|state| state.upstream = Some(upstream));
    }

    /// Ends every download and holds those that begin from now on, or lets them all go.
    pub fn hold(&self, holds: bool) {
        self.state.send_modify(|state| state.holds = holds);
    }

    /// How many downloads are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }
}

async fn pass(mut client: TcpStream, mut states: watch::Receiver<State>, held: &AtomicUsize) -> Result<()> {
    let mut greeting = vec![0; GREETING];
    let length = client.read(&mut greeting).await?;
    greeting.truncate(length);
    let is_download = greeting.windows(8).any(|part| part == b"http/1.1");
    if is_download && states.borrow().holds {
        held.fetch_add(1, Ordering::SeqCst);
        // Until it is let go, or whoever waits gives up.
        let mut more = [0; 1];
        let given_up = tokio::select! {
            changed = states.wait_for(|state| !state.holds) => changed.is_err(),
            _ = client.peek(&mut more) => true,
        };
        held.fetch_sub(1, Ordering::SeqCst);
        if given_up {
            return Ok(());
        }
    }
    let upstream = states.borrow().upstream.context("failed to find where the proxy leads to")?;
    let mut server = TcpStream::connect(upstream).await?;
    server.write_all(&greeting).await?;
    tokio::select! {
        copied = tokio::io::copy_bidirectional(&mut client, &mut server) => { copied?; }
        // A connection that is kept for the next download is no way around.
        _ = states.wait_for(|state| is_download && state.holds) => {}
    }
    Ok(())
}
