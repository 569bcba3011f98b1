//! The node port: mutual TLS, the door for nodes that join, one stream per node, and bundles.
//!
//! [`port`] accepts connections and says who is at the other end; [`door`] lets those without a
//! certificate no further than `Enroll`. What a stream says and hears is decided in [`session`],
//! without I/O, and carried out in `stream`. Called by `server` alone.

mod admission;
mod bundle;
mod codec;
mod connections;
mod door;
mod enroll;
mod port;
mod service;
mod session;
pub(crate) mod stream;

use std::sync::Arc;

use domain::time::Timestamp;
use tokio_util::task::TaskTracker;

pub use port::serve;

use crate::connector::Connector;
use crate::fleet::Fleet;
use crate::pki::Authority;
use crate::store::{Blobs, Store};

/// What the node port's handlers share.
#[derive(Debug)]
pub struct Context {
    /// The database.
    pub store: Store,
    /// Archives.
    pub blobs: Blobs,
    /// Streams and parts.
    pub fleet: Fleet,
    /// What remote tools are reached with.
    pub connector: Connector,
    /// Issues and checks certificates.
    pub authority: Arc<Authority>,
    /// The wall clock, for what is recorded and signed.
    pub clock: fn() -> Timestamp,
    /// Milliseconds of the monotonic clock, for what is decided.
    pub monotonic: fn() -> u64,
    /// Every stream's task; waited for when the server stops.
    pub streams: TaskTracker,
}

impl Context {
    /// Milliseconds of the server's monotonic clock.
    fn monotonic_ms(&self) -> u64 {
        (self.monotonic)()
    }

    /// The point in time at which that clock shows `monotonic_ms`.
    fn at(&self, monotonic_ms: u64) -> tokio::time::Instant {
        let until = monotonic_ms.saturating_sub(self.monotonic_ms());
        tokio::time::Instant::now() + std::time::Duration::from_millis(until)
    }
}

/// The routes of the node port.
pub fn routes(context: &Arc<Context>) -> axum::Router {
    let (enroll, identity) = enroll::services(context);
    tonic::service::Routes::new(enroll)
        .add_service(identity)
        .add_service(connections::service(context))
        .add_service(service::FleetService::new(Arc::clone(context)))
        .into_axum_router()
        .merge(bundle::route(Arc::clone(context)))
        .fallback(nothing_here)
}

/// What is no method and no bundle, said in the caller's own protocol.
async fn nothing_here(request: axum::extract::Request) -> axum::response::Response {
    if door::is_grpc(request.headers()) {
        return tonic::Status::unimplemented("no such method").into_http();
    }
    let mut response = axum::response::Response::default();
    *response.status_mut() = http::StatusCode::NOT_FOUND;
    response
}
