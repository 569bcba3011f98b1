//! Accepts connections on the node port: TLS, who is there, then gRPC or plain HTTP on the same port.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::admission::Admission;
use super::door::{self, Peer};

/// How long a handshake, and on HTTP/1.1 a request's header, may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Handshakes at once: enough to keep every core busy, few enough that each of a storm's ends within
/// its time while the others wait in the listener's queue.
const HANDSHAKES_MAX: usize = 128;

/// Connections at once: 10,000 nodes with a stream and a download each, within the 65,536 files that
/// the service unit allows.
const CONNECTIONS_MAX: usize = 24_000;

/// How long a connection without a certificate may last: long enough to join over a slow line, too
/// short to hold the places that nodes need.
const STRANGER_WITHIN: Duration = Duration::from_mins(1);

/// How long connections have to end when the server stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);

/// What every connection is served with.
struct Service {
    acceptor: TlsAcceptor,
    routes: axum::Router,
    fleet: Arc<str>,
    h1: http1::Builder,
    h2: http2::Builder<TokioExecutor>,
    handshakes: Semaphore,
    admission: Admission,
    started: tokio::time::Instant,
    stranger_within: Duration,
    stop: CancellationToken,
}

/// Serves the port until `stop`, then waits a little for connections to end.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    fleet: Arc<str>,
    routes: axum::Router,
    stop: CancellationToken,
) {
    let service = Arc::new(Service {
        acceptor: TlsAcceptor::from(tls),
        routes,
        fleet,
        h1: h1(),
        h2: h2(),
        handshakes: Semaphore::new(HANDSHAKES_MAX),
        admission: Admission::new(cores()),
        started: tokio::time::Instant::now(),
        stranger_within: STRANGER_WITHIN,
        stop: stop.clone(),
    });
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((tcp, place)) => {
                let service = Arc::clone(&service);
                connections.spawn(async move {
                    service.connection(tcp).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of files or memory: let connections end before the next is taken.
                tracing::warn!(%error, "node port could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN_WITHIN, connections.wait()).await.is_err() {
        tracing::info!(connections.left = connections.len(), "node port closes connections that did not end");
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, Option<tokio::sync::OwnedSemaphorePermit>)> {
    // The semaphore is never closed, so there is always a permit in the end.
    let place = Arc::clone(places).acquire_owned().await.ok();
    let (tcp, _) = listener.accept().await?;
    Ok((tcp, place))
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

fn h2() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10))
        // One session, one join or renewal, and downloads.
        .max_concurrent_streams(32)
        .max_header_list_size(16 * 1024)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(512 * 1024);
    builder
}

fn h1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_WITHIN).max_buf_size(16 * 1024);
    builder
}

impl Service {
    async fn connection(&self, tcp: TcpStream) {
        let Ok(address) = tcp.peer_addr() else { return };
        tcp.set_nodelay(true).ok();
        // Boxed, both: an idle connection keeps neither the handshake's state nor room to move TLS's own.
        let Some(tls) = Box::pin(self.handshake(tcp)).await else { return };
        let certificates = tls.get_ref().1.peer_certificates().unwrap_or_default();
        let peer = Peer::new(address, certificates, &self.fleet);
        let lasts = if peer.node.is_some() { None } else { Some(self.stranger_within) };
        let routes = self.routes.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            answer(routes.clone(), peer.clone(), request)
        });
        // Which of both was agreed on in the handshake; nobody who did not ask for it speaks HTTP/2.
        if tls.get_ref().1.alpn_protocol() == Some(b"h2") {
            let connection = self.h2.serve_connection(TokioIo::new(tls), service);
            self.drive(connection, lasts, address).await;
        } else {
            let connection = self.h1.serve_connection(TokioIo::new(tls), service);
            self.drive(connection, lasts, address).await;
        }
    }

    async fn drive<C>(&self, connection: C, lasts: Option<Duration>, address: std::net::SocketAddr)
    where
        C: GracefulConnection,
        C::Error: std::fmt::Display,
    {
        let mut connection = Box::pin(connection);
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, peer.address = %address, "connection ended");
                }
                return;
            }
            () = self.stop.cancelled() => {}
            () = over(lasts) => {}
        }
        connection.as_mut().graceful_shutdown();
        if tokio::time::timeout(DRAIN_WITHIN, connection).await.is_err() {
            tracing::debug!(peer.address = %address, "connection did not end by itself");
        }
    }

    async fn handshake(&self, tcp: TcpStream) -> Option<Box<tokio_rustls::server::TlsStream<TcpStream>>> {
        // Whoever says nothing takes nobody's turn.
        tokio::time::timeout(HANDSHAKE_WITHIN, tcp.readable()).await.ok()?.ok()?;
        let Some(wait) = self.admission.admit(self.started.elapsed()) else {
            tracing::debug!("a connection was turned away: too many come at once");
            return None;
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let _admitted = self.handshakes.acquire().await.ok()?;
        match tokio::time::timeout(HANDSHAKE_WITHIN, self.acceptor.accept(tcp)).await {
            Ok(Ok(tls)) => Some(Box::new(tls)),
            Ok(Err(error)) => {
                tracing::debug!(%error, "handshake failed");
                None
            }
            Err(_) => None,
        }
    }
}

/// Never, if there is no limit.
async fn over(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

async fn answer(
    routes: axum::Router,
    peer: Peer,
    mut request: hyper::Request<Incoming>,
) -> Result<axum::response::Response, Infallible> {
    if let Some(refusal) = door::refuse(&peer, &request) {
        tracing::debug!(peer.address = %peer.address, "refused a request without a certificate");
        return Ok(refusal);
    }
    request.extensions_mut().insert(peer);
    routes.oneshot(request).await
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::AsyncReadExt as _;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::pki::{Authority, ServerKey, server_config};

    #[tokio::test]
    async fn a_connection_without_a_certificate_does_not_last() {
        rustls::crypto::ring::default_provider().install_default().ok();
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::open(&folder.path().join("ca.key"), "f-1", None).unwrap();
        let key = Arc::new(ServerKey::new(&authority, vec!["localhost".to_owned()]).unwrap());
        let service = Service {
            acceptor: TlsAcceptor::from(Arc::new(server_config(key, &authority).unwrap())),
            routes: axum::Router::new(),
            fleet: "f-1".into(),
            h1: h1(),
            h2: h2(),
            handshakes: Semaphore::new(1),
            admission: Admission::new(1),
            started: tokio::time::Instant::now(),
            stranger_within: Duration::from_millis(1),
            stop: CancellationToken::new(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate().clone()).unwrap();
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let connect = async {
            let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let mut tls = TlsConnector::from(Arc::new(client)).connect(name, tcp).await.unwrap();
            // It says nothing; the server ends it.
            let mut rest = Vec::new();
            tls.read_to_end(&mut rest).await.ok();
        };
        let serve = async { service.connection(listener.accept().await.unwrap().0).await };
        let both = Box::pin(async { tokio::join!(connect, serve) });
        Box::pin(tokio::time::timeout(Duration::from_secs(8), both)).await.expect("it ended");
    }
}
