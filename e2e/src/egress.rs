//! An HTTP proxy as organisations have them: it makes connections for others to the hosts that it allows, and
//! writes down which were asked for. Every name is on this machine.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Of the head of a request.
const HEAD: usize = 64 << 10;

/// A running proxy; gone when it is dropped.
#[derive(Debug)]
pub struct Egress {
    /// Such as `http://127.0.0.1:3128`.
    pub url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    allowed: Vec<String>,
    /// `Basic …`, wanted of everybody.
    login: Option<String>,
    log: Mutex<Vec<String>>,
}

impl Egress {
    /// A proxy to these hosts, for who shows this `Proxy-Authorization`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn open(allowed: &[&str], login: Option<&str>) -> Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let allowed = allowed.iter().map(|host| (*host).to_owned()).collect();
        let shared = Arc::new(Shared { allowed, login: login.map(str::to_owned), log: Mutex::default() });
        let of_all = Arc::clone(&shared);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&of_all);
                tokio::spawn(async move { serve(stream, &shared).await.ok() });
            }
        });
        Ok(Self { url, shared, serving })
    }

    /// Method and `HOST:PORT` of each request, in order.
    pub fn log(&self) -> Vec<String> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut client: TcpStream, shared: &Shared) -> Result<()> {
    let head = read_head(&mut client).await?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut words = text.split_whitespace();
    let (method, target) = (words.next().context("a method")?, words.next().context("a target")?);
    let authority = target.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
    let (host, port) = authority.rsplit_once(':').unwrap_or((&authority, "80"));
    shared.log.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{method} {host}:{port}"));
    let shown = text
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase().starts_with("proxy-authorization:").then(|| line.split_once(':'))
        })
        .flatten()
        .map(|(_, value)| value.trim().to_owned());
    if shared.login.is_some() && shown != shared.login {
        client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n").await?;
        return Ok(());
    }
    if !shared.allowed.iter().any(|allowed| allowed == host) {
        client.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await?;
        return Ok(());
    }
    let mut upstream = TcpStream::connect(("127.0.0.1", port.parse()?)).await?;
    if method == "CONNECT" {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    } else {
        upstream.write_all(&head).await?;
    }
    tokio::io::copy_bidirectional(&mut client, &mut upstream).await?;
    Ok(())
}

async fn read_head(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        anyhow::ensure!(head.len() < HEAD, "the head is too long");
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await?;
        anyhow::ensure!(count > 0, "the head breaks off");
        head.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    Ok(head)
}
