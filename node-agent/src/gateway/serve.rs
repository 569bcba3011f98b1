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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::post::Head;
use super::{PATH, Shared, access, handshake, post};

/// After a failure to accept: too many open files need a moment to become fewer.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the node stops.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, tasks: TaskTracker) {
    let room = Arc::new(Semaphore::new(shared.config.connections));
    let router = Router::new().route(PATH, any(handle)).with_state(Arc::clone(&shared));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = shared.shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
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
