//! The first contact: a server is believed if its certificate chains up to an authority whose public
//! key has the digest that the join string names, and no other.

use std::sync::{Arc, Mutex, PoisonError};

use domain::digest::Digest;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The authorities that a server showed and that were not the one.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<Option<String>>);

impl Shown {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A configuration that believes only the authority of that key.
pub(super) fn client_config(authority: Digest) -> Result<(ClientConfig, Arc<Shown>), Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let shown = Arc::new(Shown::default());
    let verifier = Pinned { authority, provider: Arc::clone(&provider), shown: Arc::clone(&shown) };
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    tls.resumption = rustls::client::Resumption::disabled();
    Ok((tls, shown))
}

#[derive(Debug)]
struct Pinned {
    authority: Digest,
    provider: Arc<CryptoProvider>,
    shown: Arc<Shown>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The server's own certificate is never its authority.
        let digests = intermediates.iter().map(|one| (one, proto::head::key_digest(one).ok()));
        let digests: Vec<_> = digests.collect();
        let Some((root, _)) = digests.iter().find(|(_, digest)| *digest == Some(self.authority)) else {
            let got: Vec<String> =
                digests.iter().filter_map(|(_, digest)| Some((*digest)?.to_string())).collect();
            let got = if got.is_empty() { "none".to_owned() } else { got.join(", ") };
            *self.shown.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(got);
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        };
        let mut roots = RootCertStore::empty();
        roots.add((*root).clone().into_owned())?;
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider));
        let chain = chain.build().map_err(|error| Error::General(error.to_string()))?;
        chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
