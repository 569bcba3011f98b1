//! The fleet's own certificate authority and what it issues: the node port's certificate, one for
//! each node, and one for the key that signs heads.
//!
//! Certificates of the authority, the server and the signer are made anew at each start from their
//! keys; only keys are files. Called by `server` (at start), `grpc` (joins, TLS) and `fleet` (heads).

mod authority;
mod files;
mod key_file;
mod seal;
mod signer;
#[cfg(test)]
mod tests;
mod tls;

use std::path::PathBuf;

use domain::digest::Digest;

pub use authority::{Authority, NODE_CERTIFICATE_LIFE, SERVER_CERTIFICATE_DAYS, SigningRequest};
pub use files::{AuthorityFiles, Move};
pub use seal::Seal;
pub use signer::HeadSigner;
pub use tls::{ServerKey, server_config};

/// Why keys or certificates are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key's file cannot be read or written.
    #[error("{verb} the key file {}", path.display())]
    File {
        /// What was to be done.
        verb: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file that holds no private key.
    #[error("read a private key (PKCS #8, PEM) from {}", path.display())]
    Key {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rcgen::Error,
    },
    /// The fleet has an authority, and its key is not here.
    #[error(
        "find the key of the fleet's authority: {} is not there; mount the key file of the first server at that \
         path (its public key has SHA-256 {expected})",
        path.display()
    )]
    NoAuthority {
        /// Where it should be.
        path: PathBuf,
        /// What the database says.
        expected: String,
    },
    /// A key that is not the fleet's.
    #[error(
        "take {} as the key of the fleet's authority: its public key has SHA-256 {got}, the fleet's has {expected}; \
         mount the key file of the first server at that path",
        path.display()
    )]
    OtherAuthority {
        /// The file.
        path: PathBuf,
        /// Its key.
        got: Digest,
        /// What the database says.
        expected: String,
    },
    /// A file that must be there for a move of the authority's keys is not, or one that must not be is.
    #[error("move the authority's keys: {} {state}", path.display())]
    Step {
        /// Which file.
        path: PathBuf,
        /// How it is.
        state: &'static str,
    },
    /// A certificate cannot be made.
    #[error("issue a certificate for {whose}")]
    Issue {
        /// For whom.
        whose: String,
        /// What is wrong.
        #[source]
        source: rcgen::Error,
    },
    /// Bytes that are no signing request that may be granted.
    #[error("take the signing request: {reason}")]
    Request {
        /// Why not.
        reason: &'static str,
    },
    /// TLS does not take the key or the authority.
    #[error("set up TLS for the node port")]
    Tls(#[source] rustls::Error),
    /// TLS does not take the authority for clients.
    #[error("set up the check of nodes' certificates")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}
