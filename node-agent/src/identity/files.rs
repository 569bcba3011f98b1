//! The files of an identity, in PEM so that people's tools read them.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};

use super::Error;

/// Characters of a line of PEM (RFC 7468, 2).
const PEM_LINE: usize = 64;

/// Where the files are.
pub(crate) struct Files {
    pub(crate) key: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) authorities: PathBuf,
    /// The newest session counter.
    pub(crate) session: PathBuf,
    about: PathBuf,
}

/// `node.json`.
#[derive(Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) address: String,
    pub(crate) name: String,
}

impl Files {
    pub(crate) fn new(data: &Path) -> Self {
        Self {
            key: data.join("node.key"),
            certificate: data.join("node.pem"),
            authorities: data.join("authorities.pem"),
            session: data.join("session"),
            about: data.join("node.json"),
        }
    }

    /// `None` if the node has not joined.
    pub(crate) fn about(&self) -> Result<Option<About>, Error> {
        let Some(text) = read(&self.about)? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|error| self.fault(&self.about, &error.to_string()))
    }

    /// Writes what makes the folder a joined node's; the last file counts.
    pub(crate) fn write(
        &self,
        certificates: &[Vec<u8>],
        authorities: &[Vec<u8>],
        about: &About,
    ) -> Result<(), Error> {
        self.write_certificates(certificates, authorities)?;
        let about =
            serde_json::to_vec_pretty(about).map_err(|error| self.fault(&self.about, &error.to_string()))?;
        write(&self.about, &about, 0o644)
    }

    /// Writes whom the node trusts and then what it shows; killed in between, it shows the certificate of before.
    pub(crate) fn write_certificates(
        &self,
        certificates: &[Vec<u8>],
        authorities: &[Vec<u8>],
    ) -> Result<(), Error> {
        write(&self.authorities, pem(authorities).as_bytes(), 0o644)?;
        write(&self.certificate, pem(certificates).as_bytes(), 0o644)
    }

    pub(crate) fn certificates(&self, path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
        let text = read(path)?.ok_or_else(|| self.fault(path, "it is not there"))?;
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        read.map_err(|error| self.fault(path, &format!("{error:?}")))
    }

    pub(crate) fn private_key(&self) -> Result<PrivateKeyDer<'static>, Error> {
        let text = read(&self.key)?.ok_or_else(|| self.fault(&self.key, "it is not there"))?;
        PrivateKeyDer::from_pem_slice(&text).map_err(|_| self.fault(&self.key, "it is no private key in PEM"))
    }

    /// The key as text, if there is one.
    pub(crate) fn key_text(&self) -> Result<Option<String>, Error> {
        let Some(bytes) = read(&self.key)? else { return Ok(None) };
        String::from_utf8(bytes).map(Some).map_err(|_| self.fault(&self.key, "it is no private key in PEM"))
    }

    #[expect(clippy::unused_self, reason = "reads as one of the files' own faults")]
    pub(crate) fn fault(&self, path: &Path, reason: &str) -> Error {
        Error::File { path: path.to_owned(), reason: reason.to_owned() }
    }
}

/// Writes a file that only its owner reads.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write(path, bytes, 0o600)
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(Error::Io { verb: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// What is in a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { verb: "read", path: path.to_owned(), source }),
    }
}

/// Whole or not at all, and on the disk when this returns.
fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let temporary = path.with_extension("new");
    let io = |verb, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { verb, path, source }
    };
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("remove", &temporary)(error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(mode);
    }
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(&temporary).map_err(io("make", &temporary))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io("write", &temporary))?;
    fs::rename(&temporary, path).map_err(io("rename into place", path))?;
    let folder = path.parent().unwrap_or(path);
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("sync", folder))
}

fn pem(certificates: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for der in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(der);
        for line in encoded.as_bytes().chunks(PEM_LINE) {
            let _ = writeln!(text, "{}", String::from_utf8_lossy(line));
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
