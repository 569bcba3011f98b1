//! Who this node is: its key, its certificate, what it trusts and where its control plane is; and the
//! TLS configurations that follow from that.
//!
//! The data folder holds `node.key` (0600, never leaves the machine), `node.pem` (the certificate),
//! `authorities.pem` (whom the node trusts) and `node.json` (the control plane's address and the
//! node's name). `node.json` is written last: without it the node has not joined. The certificate and the
//! authorities are renewed while the node runs ([`current`]).

mod current;
mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::plugin_set::Head;
use domain::time::Timestamp;
use proto::identity::NodeIdentity;
use proto::v1;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls_pki_types::CertificateDer;
use tokio::sync::Notify;

use crate::ledger::Verify;
use current::{Credentials, Current};

pub(crate) use files::{About, Files, read, remove, write_private};

/// Why the identity of a node cannot be read, kept or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder is of no node.
    #[error(
        "find a node in `{}`: it has not joined a fleet; join one with: pintle node join STRING --data {}",
        .0.display(), .0.display()
    )]
    NotJoined(PathBuf),
    /// The file system said no.
    #[error("{verb} `{}`", .path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what was written.
    #[error("read `{}`: {reason}; if it cannot be restored, join again with another folder", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Key and certificate do not go together, or TLS takes neither.
    #[error("use the node's key and certificate for TLS")]
    Tls(#[source] rustls::Error),
}

/// A node that has joined.
pub(crate) struct Identity {
    /// As its certificate says.
    pub(crate) me: NodeIdentity,
    /// As its people call it.
    pub(crate) name: String,
    /// `host:port` of the control plane's node port.
    pub(crate) address: Arc<str>,
    /// Told when there is a new certificate.
    pub(crate) renewed: Notify,
    /// Told when the control plane took the certificate for one that has ended.
    pub(crate) doubted: Notify,
    files: Files,
    current: Arc<Current>,
    tls: ClientConfig,
}

impl Identity {
    /// Reads the identity of the node whose data folder this is. Blocks.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub(crate) fn load(data: &Path) -> Result<Self, Error> {
        let files = Files::new(data);
        let about = files.about()?.ok_or_else(|| Error::NotJoined(data.to_owned()))?;
        let me = files.who()?;
        let current = Arc::new(Current::new(files.credentials()?));
        let mut tls = config()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&current) as _)
            .with_client_cert_resolver(Arc::clone(&current) as _);
        // Without resumption an eviction is noticed at each connect.
        tls.resumption = Resumption::disabled();
        Ok(Self {
            me,
            name: about.name,
            address: about.address.into(),
            renewed: Notify::new(),
            doubted: Notify::new(),
            files,
            current,
            tls,
        })
    }

    /// For the control stream.
    pub(crate) fn stream_tls(&self) -> ClientConfig {
        let mut tls = self.tls.clone();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        tls
    }

    /// For downloads.
    pub(crate) fn download_tls(&self) -> ClientConfig {
        let mut tls = self.tls.clone();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        tls
    }

    /// For the door that takes nodes whose certificate has ended: none is shown.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn lapsed_tls(&self) -> Result<ClientConfig, Error> {
        let mut tls = config()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&self.current) as _)
            .with_no_client_auth();
        tls.resumption = Resumption::disabled();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(tls)
    }

    /// From when to when its certificate is in force.
    pub(crate) fn valid(&self) -> (Timestamp, Timestamp) {
        self.current.get().valid
    }

    /// A signing request (PKCS #10, DER) of the node's own key. Blocks.
    ///
    /// # Errors
    /// The key cannot be read.
    pub(crate) fn signing_request(&self) -> Result<Vec<u8>, Error> {
        let text = self.files.key_text()?;
        let text = text.ok_or_else(|| self.files.fault(&self.files.key, "it is not there"))?;
        let fault = |error: rcgen::Error| self.files.fault(&self.files.key, &error.to_string());
        let key = rcgen::KeyPair::from_pem(&text).map_err(fault)?;
        let request = rcgen::CertificateParams::default().serialize_request(&key).map_err(fault)?;
        Ok(request.der().to_vec())
    }

    /// Takes a new certificate for its key, and the authorities that it trusts from now on: on the disk first,
    /// then for the next connection. Blocks.
    ///
    /// # Errors
    /// They are not for this node and its key, or cannot be kept; what was before stays.
    pub(crate) fn renew(&self, certificates: &[Vec<u8>], authorities: &[Vec<u8>]) -> Result<(), Error> {
        let fault = |reason: &str| self.files.fault(&self.files.certificate, reason);
        let leaf = certificates.first().ok_or_else(|| fault("the answer has none"))?;
        let named = NodeIdentity::of_certificate(leaf).map_err(|error| fault(&error.to_string()))?;
        if named != self.me {
            return Err(fault(&format!("the answer names {named}, this node is {}", self.me)));
        }
        let der = |list: &[Vec<u8>]| list.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let key = self.files.private_key()?;
        let credentials = Credentials::new(der(certificates), key, der(authorities))?;
        self.files.write_certificates(certificates, authorities)?;
        self.current.replace(credentials);
        self.renewed.notify_waiters();
        Ok(())
    }

    /// Believes heads that this fleet's control plane signed.
    pub(crate) fn verify(&self) -> Arc<Verify> {
        let current = Arc::clone(&self.current);
        let fleet = Arc::clone(&self.me.fleet);
        Arc::new(move |signed: &v1::SignedHead| -> Result<Head, String> {
            proto::head::verify(signed, &fleet, &current.get().authorities)
                .map_err(|error| crate::sentence(&error))
        })
    }
}

fn config() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)
}

impl Files {
    /// Who the certificate says that the node is.
    pub(crate) fn who(&self) -> Result<NodeIdentity, Error> {
        let certificates = self.certificates(&self.certificate)?;
        let leaf = certificates.first().ok_or_else(|| self.fault(&self.certificate, "it is empty"))?;
        NodeIdentity::of_certificate(leaf).map_err(|error| self.fault(&self.certificate, &error.to_string()))
    }

    fn credentials(&self) -> Result<Credentials, Error> {
        let certificates = self.certificates(&self.certificate)?;
        let authorities = self.certificates(&self.authorities)?;
        Credentials::new(certificates, self.private_key()?, authorities)
    }
}
