//! Who this node is: its key, its certificate, what it trusts and where its control plane is; and the
//! TLS configurations that follow from that.
//!
//! The data folder holds `node.key` (0600, never leaves the machine), `node.pem` (the certificate),
//! `authorities.pem` (whom the node trusts) and `node.json` (the control plane's address and the
//! node's name). `node.json` is written last: without it the node has not joined.

mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::plugin_set::Head;
use proto::identity::NodeIdentity;
use proto::v1;
use rustls::client::Resumption;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;

use crate::ledger::Verify;

pub(crate) use files::{About, Files, write_private};

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
    authorities: Arc<Vec<CertificateDer<'static>>>,
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
        let certificates = files.certificates(&files.certificate)?;
        let authorities = files.certificates(&files.authorities)?;
        let leaf = certificates.first().ok_or_else(|| files.fault(&files.certificate, "it is empty"))?;
        let me = NodeIdentity::of_certificate(leaf)
            .map_err(|error| files.fault(&files.certificate, &error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone()).map_err(Error::Tls)?;
        }
        let key = files.private_key()?;
        let mut tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(Error::Tls)?
            .with_root_certificates(roots)
            .with_client_auth_cert(certificates, key)
            .map_err(Error::Tls)?;
        // Without resumption an eviction is noticed at each connect.
        tls.resumption = Resumption::disabled();
        Ok(Self {
            me,
            name: about.name,
            address: about.address.into(),
            authorities: Arc::new(authorities),
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

    /// Believes heads that this fleet's control plane signed.
    pub(crate) fn verify(&self) -> Arc<Verify> {
        let authorities = Arc::clone(&self.authorities);
        let fleet = Arc::clone(&self.me.fleet);
        Arc::new(move |signed: &v1::SignedHead| -> Result<Head, String> {
            proto::head::verify(signed, &fleet, &authorities).map_err(|error| crate::sentence(&error))
        })
    }
}
