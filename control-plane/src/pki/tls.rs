//! TLS of the node port: the certificate that it shows, and which clients' certificates it takes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rcgen::KeyPair;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Authority, Error};

/// The node port's key and certificate; the next handshake shows what was put in last.
#[derive(Debug)]
pub struct ServerKey {
    key: ArcSwap<CertifiedKey>,
    hosts: Vec<String>,
}

impl ServerKey {
    /// A new key with a new certificate, followed by the authority's: a joining node knows only that
    /// one's hash. `hosts` are where the port is reached.
    ///
    /// # Errors
    /// No certificate, or a key that TLS does not take.
    pub fn new(authority: &Authority, hosts: Vec<String>) -> Result<Self, Error> {
        Ok(Self { key: ArcSwap::from_pointee(certified(authority, &hosts)?), hosts })
    }

    /// Replaces key and certificate for connections that are made from now on.
    ///
    /// # Errors
    /// As [`ServerKey::new`]; the old one stays.
    pub fn renew(&self, authority: &Authority) -> Result<(), Error> {
        self.key.store(Arc::new(certified(authority, &self.hosts)?));
        Ok(())
    }
}

impl ResolvesServerCert for ServerKey {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.key.load_full())
    }
}

/// TLS 1.3 only, since both ends are ours. A client may come without a certificate (to join); one
/// that it shows must be of an authority that is trusted, for a client. No session is resumed, so each connection
/// is checked anew.
///
/// # Errors
/// What rustls does not take.
pub fn server_config(key: Arc<ServerKey>, authority: &Authority) -> Result<ServerConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for trusted in authority.certificates() {
        roots.add(trusted.clone()).map_err(Error::Tls)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(Error::Verifier)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Tls)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(key);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certified(authority: &Authority, hosts: &[String]) -> Result<CertifiedKey, Error> {
    let issue = |source| Error::Issue { whose: "the node port".to_owned(), source };
    let key = KeyPair::generate().map_err(issue)?;
    let certificate = authority.issue_server(&key, hosts)?;
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let signing = rustls::crypto::ring::sign::any_supported_type(&der).map_err(Error::Tls)?;
    Ok(CertifiedKey::new(vec![certificate, authority.certificate().clone()], signing))
}
