//! Seals what must not be read from the database: secrets of connections and the tokens that they come to.
//!
//! ChaCha20-Poly1305 with a key of the server's folder, or a mounted file, which is the same for all servers of
//! a fleet; the database knows its hash, so that a server with another key does not start.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use domain::digest::Digest;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::{Zeroize as _, Zeroizing};

/// Bytes of the key.
const KEY: usize = 32;

/// What is sealed with.
pub struct Vault {
    key: LessSafeKey,
    key_sha256: Digest,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("key_sha256", &self.key_sha256).finish_non_exhaustive()
    }
}

/// Something that is never shown, and wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes it.
    pub fn new(secret: String) -> Self {
        Self(Zeroizing::new(secret))
    }

    /// What it is, for where it is used.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why there is no vault, or nothing comes out of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file.
    #[error("{verb} {}", path.display())]
    File {
        /// Read or write.
        verb: &'static str,
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It holds no key.
    #[error("read {}: it holds no key, which is 64 hexadecimal digits", path.display())]
    NoKey {
        /// Which file.
        path: PathBuf,
    },
    /// The fleet's secrets are sealed with a key that is not here.
    #[error(
        "open {}: the fleet's secrets are sealed with the key of hash {expected}, {got}; put the fleet's secrets.key there (it \
         is in the data folder of the first server)",
        path.display()
    )]
    OtherKey {
        /// Which file.
        path: PathBuf,
        /// What the database says.
        expected: String,
        /// What is there.
        got: String,
    },
    /// It was sealed with another key, for another purpose, or it was changed.
    #[error("open what was sealed: it was changed, or sealed with another key")]
    Opened,
}

impl Vault {
    /// Opens the key at `path`. If there is none and the fleet has none either (`bound`), makes it.
    ///
    /// # Errors
    /// The fleet has another key: the message says which file to mount.
    pub fn open(path: &Path, bound: Option<&str>) -> Result<Self, Error> {
        let key = match (read(path)?, bound) {
            (Some(key), _) => key,
            (None, None) => create(path)?,
            (None, Some(expected)) => {
                let got = "and there is no such file".to_owned();
                return Err(Error::OtherKey { path: path.to_owned(), expected: expected.to_owned(), got });
            }
        };
        let vault = Self::of(&key).ok_or_else(|| Error::NoKey { path: path.to_owned() })?;
        bound.map_or(Ok(()), |expected| vault.check_bound(path, expected))?;
        Ok(vault)
    }

    /// With a key that nobody else has and that ends with it.
    ///
    /// # Errors
    /// None that is expected.
    pub fn passing() -> Result<Self, Error> {
        Self::of(&rand::random()).ok_or(Error::Opened)
    }

    /// With a key.
    fn of(key: &[u8; KEY]) -> Option<Self> {
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, key).ok()?;
        Some(Self { key: LessSafeKey::new(unbound), key_sha256: Digest::of(key) })
    }

    /// SHA-256 of the key.
    pub fn key_sha256(&self) -> String {
        self.key_sha256.to_string()
    }

    /// Whether this is the key that the database names.
    ///
    /// # Errors
    /// [`Error::OtherKey`] names both and the file.
    pub fn check_bound(&self, path: &Path, expected: &str) -> Result<(), Error> {
        if self.key_sha256() == expected {
            return Ok(());
        }
        let got = format!("the one there has {}", self.key_sha256);
        Err(Error::OtherKey { path: path.to_owned(), expected: expected.to_owned(), got })
    }

    /// Seals `secret` for one purpose; it opens for no other.
    pub fn seal(&self, purpose: &str, secret: &str) -> Vec<u8> {
        let nonce: [u8; NONCE_LEN] = rand::random();
        let mut sealed = secret.as_bytes().to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        #[expect(clippy::expect_used, reason = "a secret is far shorter than what the cipher takes")]
        self.key
            .seal_in_place_append_tag(unique, Aad::from(purpose.as_bytes()), &mut sealed)
            .expect("a secret can be sealed");
        [&nonce[..], &sealed].concat()
    }

    /// What was sealed for this purpose.
    ///
    /// # Errors
    /// [`Error::Opened`].
    pub fn unseal(&self, purpose: &str, sealed: &[u8]) -> Result<Secret, Error> {
        let (nonce, rest) = sealed.split_at_checked(NONCE_LEN).ok_or(Error::Opened)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Error::Opened)?;
        let mut bytes = rest.to_vec();
        let opened = self
            .key
            .open_in_place(nonce, Aad::from(purpose.as_bytes()), &mut bytes)
            .map_err(|_| Error::Opened)?;
        let secret = String::from_utf8(opened.to_vec()).map(Secret::new).map_err(|_| Error::Opened);
        bytes.zeroize();
        secret
    }
}

fn read(path: &Path) -> Result<Option<[u8; KEY]>, Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::File { verb: "read", path: path.to_owned(), source }),
    };
    let mut key = [0; KEY];
    hex::decode_to_slice(text.trim(), &mut key).map_err(|_| Error::NoKey { path: path.to_owned() })?;
    Ok(Some(key))
}

/// Makes a key and its file. Of two that make it at once, both get the one that was there first.
fn create(path: &Path) -> Result<[u8; KEY], Error> {
    let key: [u8; KEY] = rand::random();
    let fault = |source| Error::File { verb: "write", path: path.to_owned(), source };
    let part = path.with_extension(format!("new-{}", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part).map_err(fault)?;
    file.write_all(hex::encode(key).as_bytes()).and_then(|()| file.sync_all()).map_err(fault)?;
    let linked = std::fs::hard_link(&part, path);
    std::fs::remove_file(&part).map_err(fault)?;
    match linked {
        Ok(()) => Ok(key),
        Err(exists) if exists.kind() == ErrorKind::AlreadyExists => {
            read(path)?.ok_or_else(|| fault(ErrorKind::NotFound.into()))
        }
        Err(source) => Err(fault(source)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_sealed_opens_with_its_key_and_for_its_purpose_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.key");
        let vault = Vault::open(&path, None).unwrap();
        let sealed = vault.seal("team/crm", "s3cret");
        assert!(!sealed.windows(6).any(|window| window == b"s3cret"));
        assert_ne!(sealed, vault.seal("team/crm", "s3cret"), "never the same bytes twice");
        let again = Vault::open(&path, Some(&vault.key_sha256())).unwrap();
        assert_eq!(again.unseal("team/crm", &sealed).unwrap().reveal(), "s3cret");
        assert!(again.unseal("team/other", &sealed).is_err());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(again.unseal("team/crm", &changed).is_err(), "{at}");
        }
        assert!(again.unseal("team/crm", &[]).is_err());
        assert!(!format!("{vault:?} {:?}", Secret::new("s3cret".into())).contains("s3cret"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn another_key_or_none_is_told_with_the_file_to_mount() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("a.key"), folder.path().join("b.key"));
        let vault = Vault::open(&here, None).unwrap();
        let none = Vault::open(&there, Some(&vault.key_sha256())).unwrap_err().to_string();
        assert!(none.contains("b.key") && none.contains("there is no such file"), "{none}");
        let other = Vault::open(&there, None).unwrap();
        let said = Vault::open(&there, Some(&vault.key_sha256())).unwrap_err().to_string();
        assert!(said.contains(&vault.key_sha256()) && said.contains(&other.key_sha256()), "{said}");
        std::fs::write(&there, "no key").unwrap();
        assert!(matches!(Vault::open(&there, None), Err(Error::NoKey { .. })));
    }
}
