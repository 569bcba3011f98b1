//! Connections: accepted up to a limit, served by HTTP/1.1 or 2, ended in order when the node stops.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use http::Method;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tools::envelope;

use super::post::Head;
use super::protocol::INVALID_REQUEST;
use super::{PATH, Shared, access, handshake, post};

/// After a failure to accept: too many open files need a moment to become fewer.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// For a connection too many to hear why.
const TURN_AWAY: Duration = Duration::from_secs(2);
/// Of those at once; more are closed without a word.
const TURNED_AWAY: usize = 64;
/// Of what such a client has sent, so that closing the connection does not take our word along.
const UNHEARD: u64 = 64 << 10;

/// Accepts until the node stops.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, tasks: TaskTracker) {
    let room = Arc::new(Semaphore::new(shared.config.connections));
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY));
    let router = Router::new().route(PATH, any(handle)).with_state(Arc::clone(&shared));
    loop {
        let accepted = tokio::select! {
            () = shared.shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                    if let Ok(place) = Arc::clone(&turned_away).try_acquire_owned() {
                        let limit = shared.config.connections;
                        tasks.spawn(async move {
                            tokio::time::timeout(TURN_AWAY, turn_away(stream, limit)).await.ok();
                            drop(place);
                        });
                    }
                    continue;
                };
                let serving = connection(stream, Arc::clone(&shared), router.clone());
                tasks.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(error = %error, "MCP connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>, router: Router) {
    // Answers are small and waited for; a failure only makes them slower.
    let _ = stream.set_nodelay(true);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(shared.config.read_wait);
    builder.http2().timer(TokioTimer::new());
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shared.shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(shared.config.stop_wait, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::trace!(error = %error, "MCP connection ended early");
    }
}

/// Says to a connection too many that it is, once it has asked something.
async fn turn_away(mut stream: TcpStream, limit: usize) {
    if !matches!(stream.read(&mut [0; 1 << 10]).await, Ok(1..)) {
        return;
    }
    let sentence =
        format!("this node has {limit} connections, which is its limit (setting `gateway.connections`)");
    let body = envelope::failure(None, &envelope::error_object(INVALID_REQUEST, &sentence));
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    if stream.write_all(text.as_bytes()).await.is_ok() && stream.shutdown().await.is_ok() {
        tokio::io::copy(&mut stream.take(UNHEARD), &mut tokio::io::sink()).await.ok();
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(response) = access::check(&shared, &parts) {
        return response;
    }
    match parts.method {
        Method::POST => post::handle(&shared, &parts, body).await,
        Method::GET => handshake::get(&shared, &Head::new(&parts.headers)),
        Method::DELETE => handshake::delete(&shared, &Head::new(&parts.headers)),
        _ => handshake::not_allowed("POST, GET, DELETE"),
    }
}
