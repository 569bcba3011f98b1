//! One TLS connection to the control plane's node port, and a gRPC channel over it.
//!
//! The connection is made here and not by the channel, so that what failed is known, and a channel
//! never reconnects by itself: how often and when is the link's to decide.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

/// For the connection and its handshake: a machine that is there answers within a second, and a retry
/// follows.
const CONNECT: Duration = Duration::from_secs(10);

/// Between two keep-alive pings of HTTP/2, and for their answer: behind the node's own watchdog, for
/// a link that is dead below it.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No `host:port`.
    #[error("take `{0}` for the address of a server, HOST:PORT")]
    Address(String),
    /// Nobody answers there.
    #[error("connect to {address}: {reason}")]
    Tcp {
        /// Where.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The handshake failed.
    #[error("agree with {address} on TLS: {reason}")]
    Tls {
        /// Where.
        address: String,
        /// What TLS said.
        reason: String,
    },
    /// HTTP/2 could not be opened.
    #[error("open HTTP/2 to {address}: {reason}")]
    Http {
        /// Where.
        address: String,
        /// What failed.
        reason: String,
    },
}

/// Connects, and opens a channel over the connection.
pub(crate) async fn open(address: &str, tls: ClientConfig) -> Result<Channel, Error> {
    let stream = connect(address, tls).await?;
    // The scheme is http since TLS is done already.
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|_| Error::Address(address.to_owned()))?
        .http2_keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .keep_alive_while_idle(true)
        .connect_timeout(CONNECT);
    let once = Arc::new(Mutex::new(Some(stream)));
    let connector = tower::service_fn(move |_: http::Uri| {
        let stream = once.lock().unwrap_or_else(PoisonError::into_inner).take();
        async move { stream.map(TokioIo::new).ok_or(std::io::ErrorKind::NotConnected) }
    });
    let connector = tower::ServiceExt::map_err(connector, std::io::Error::from);
    let channel = endpoint.connect_with_connector(connector).await;
    channel.map_err(|error| Error::Http { address: address.to_owned(), reason: crate::sentence(&error) })
}

async fn connect(address: &str, tls: ClientConfig) -> Result<TlsStream<TcpStream>, Error> {
    let host = address.rsplit_once(':').map(|(host, _)| host.trim_matches(['[', ']']));
    let name = host.and_then(|host| ServerName::try_from(host.to_owned()).ok());
    let name = name.ok_or_else(|| Error::Address(address.to_owned()))?;
    let tcp_fault = |reason: String| Error::Tcp { address: address.to_owned(), reason };
    let tls_fault = |reason: String| Error::Tls { address: address.to_owned(), reason };
    let late = || format!("no answer within {} s", CONNECT.as_secs());
    let tcp = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
    let tcp = tcp.map_err(|_| tcp_fault(late()))?.map_err(|error| tcp_fault(error.to_string()))?;
    tcp.set_nodelay(true).map_err(|error| tcp_fault(error.to_string()))?;
    let shaken = tokio::time::timeout(CONNECT, TlsConnector::from(Arc::new(tls)).connect(name, tcp)).await;
    shaken.map_err(|_| tls_fault(late()))?.map_err(|error| tls_fault(error.to_string()))
}
