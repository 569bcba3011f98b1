//! The certificate and the authorities of the moment: every handshake asks here, so that a renewed certificate
//! and new authorities count from the next connection on, whoever made the TLS configuration.

use std::sync::Arc;

use arc_swap::ArcSwap;
use domain::time::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::Error;

/// What a node shows and whom it believes.
#[derive(Debug)]
pub(super) struct Credentials {
    key: Arc<CertifiedKey>,
    verifier: Arc<WebPkiServerVerifier>,
    pub(super) authorities: Arc<Vec<CertificateDer<'static>>>,
    /// From when to when the certificate is in force.
    pub(super) valid: (Timestamp, Timestamp),
}

impl Credentials {
    /// # Errors
    /// Key and certificate do not go together, or TLS takes neither.
    pub(super) fn new(
        certificates: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone()).map_err(Error::Tls)?;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier =
            verifier.build().map_err(|error| Error::Tls(rustls::Error::General(error.to_string())))?;
        let valid = certificates.first().and_then(|leaf| proto::identity::validity(leaf).ok());
        let valid = valid.ok_or_else(|| Error::Tls(rustls::Error::NoCertificatesPresented))?;
        let key = CertifiedKey::from_der(certificates, key, &provider).map_err(Error::Tls)?;
        Ok(Self { key: Arc::new(key), verifier, authorities: Arc::new(authorities), valid })
    }
}

/// Those of the moment.
#[derive(Debug)]
pub(super) struct Current(ArcSwap<Credentials>);

impl Current {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self(ArcSwap::from_pointee(credentials))
    }

    pub(super) fn get(&self) -> Arc<Credentials> {
        self.0.load_full()
    }

    pub(super) fn replace(&self, credentials: Credentials) {
        self.0.store(Arc::new(credentials));
    }
}

impl ResolvesClientCert for Current {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.load().key))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ServerCertVerifier for Current {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let current = self.0.load();
        current.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.load().verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.load().verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.load().verifier.supported_verify_schemes()
    }
}
