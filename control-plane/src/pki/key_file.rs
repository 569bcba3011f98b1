//! Private keys in files that only their owner reads, made whole or not at all.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rcgen::{KeyPair, SignatureAlgorithm};

use super::Error;

/// The key in the file; `None` if there is no file.
pub(super) fn read(path: &Path) -> Result<Option<KeyPair>, Error> {
    let pem = match std::fs::read_to_string(path) {
        Ok(pem) => pem,
        Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::File { verb: "read", path: path.to_owned(), source }),
    };
    KeyPair::from_pem(&pem).map(Some).map_err(|source| Error::Key { path: path.to_owned(), source })
}

/// Makes a key and its file. Of two that make it at once, both get the one that was there first.
pub(super) fn create(path: &Path, algorithm: &'static SignatureAlgorithm) -> Result<KeyPair, Error> {
    let key =
        KeyPair::generate_for(algorithm).map_err(|source| Error::Key { path: path.to_owned(), source })?;
    let fault = |source| Error::File { verb: "write", path: path.to_owned(), source };
    let part = path.with_extension(format!("new-{}", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part).map_err(fault)?;
    file.write_all(key.serialize_pem().as_bytes()).and_then(|()| file.sync_all()).map_err(fault)?;
    let linked = std::fs::hard_link(&part, path);
    std::fs::remove_file(&part).map_err(fault)?;
    match linked {
        Ok(()) => {
            path.parent().map_or(Ok(()), sync_folder).map_err(fault)?;
            Ok(key)
        }
        Err(exists) if exists.kind() == ErrorKind::AlreadyExists => {
            read(path)?.ok_or_else(|| fault(ErrorKind::NotFound.into()))
        }
        Err(source) => Err(fault(source)),
    }
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}
