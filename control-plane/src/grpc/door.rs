//! Who may go where on the node port: asked of every request, before anything else of it is read.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use proto::identity::NodeIdentity;
use rustls_pki_types::CertificateDer;

/// The only service that is reachable without a certificate.
const ENROLL: &str = "/pintle.fleet.v1.Enroll/";

/// gRPC's status for a caller that did not say who it is.
const UNAUTHENTICATED: &str = "16";

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// From where.
    pub(super) address: SocketAddr,
    /// Which node, if it showed a certificate (which TLS has checked).
    pub(super) node: Option<Arc<PeerNode>>,
}

/// A node, as its certificate says.
#[derive(Debug)]
pub(super) struct PeerNode {
    /// Which node.
    pub(super) identity: NodeIdentity,
    /// SHA-256 of its public key.
    pub(super) key: domain::digest::Digest,
}

impl Peer {
    /// Reads the first of the certificates that the other end showed; one that names no node of this
    /// fleet counts as none.
    pub(super) fn new(address: SocketAddr, certificates: &[CertificateDer<'_>], fleet: &str) -> Self {
        let node = certificates.first().and_then(|certificate| {
            let identity = NodeIdentity::of_certificate(certificate).ok()?;
            let key = proto::head::key_digest(certificate).ok()?;
            (identity.fleet.as_ref() == fleet).then(|| Arc::new(PeerNode { identity, key }))
        });
        Self { address, node }
    }
}

/// The answer to a request that may not go on; `None` if it may.
pub(super) fn refuse<B>(peer: &Peer, request: &http::Request<B>) -> Option<Response<Body>> {
    if peer.node.is_some() || request.uri().path().starts_with(ENROLL) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    if is_grpc(request.headers()) {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from_static(UNAUTHENTICATED));
        headers
            .insert("grpc-message", HeaderValue::from_static("a node certificate of this fleet is needed"));
    } else {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
    }
    Some(response)
}

/// Whether the caller speaks gRPC and would read a plain HTTP status as a fault of the transport.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}
