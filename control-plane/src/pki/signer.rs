//! Signs heads with ed25519. Each server has a key of its own; its certificate travels with the head.

use std::path::Path;
use std::sync::Arc;

use domain::plugin_set::Head;
use proto::v1::SignedHead;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};

use super::{Authority, Error, key_file};

/// What signs this server's heads.
pub struct HeadSigner {
    key: KeyPair,
    certificate: Vec<u8>,
    fleet: Arc<str>,
}

impl std::fmt::Debug for HeadSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeadSigner").field("fleet", &self.fleet).finish_non_exhaustive()
    }
}

impl HeadSigner {
    /// Opens the key at `path`, or makes it.
    ///
    /// # Errors
    /// The file, or no certificate for the key.
    pub fn open(path: &Path, authority: &Authority) -> Result<Self, Error> {
        let key = match key_file::read(path)? {
            Some(key) => key,
            None => key_file::create(path, &PKCS_ED25519)?,
        };
        if !key.is_compatible(&PKCS_ED25519) {
            let source = rcgen::Error::UnsupportedSignatureAlgorithm;
            return Err(Error::Key { path: path.to_owned(), source });
        }
        let certificate = authority.issue_signer(&key)?.to_vec();
        Ok(Self { key, certificate, fleet: Arc::clone(authority.fleet()) })
    }

    /// The fleet whose heads it signs.
    pub const fn fleet(&self) -> &Arc<str> {
        &self.fleet
    }

    /// Signs a head.
    ///
    /// # Errors
    /// [`Error::Issue`] when the key does not sign, which ed25519 keys always do.
    pub fn sign(&self, head: &Head) -> Result<SignedHead, Error> {
        let statement = proto::head::statement(head);
        let signature = self
            .key
            .sign(&statement)
            .map_err(|source| Error::Issue { whose: "a head".to_owned(), source })?;
        Ok(SignedHead { statement, signature, signer: self.certificate.clone() })
    }
}
