//! The data folder: only its owner's, and one server's at a time.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::Error;

/// A data folder that this server alone uses, until dropped.
#[derive(Debug)]
pub(super) struct DataFolder {
    path: PathBuf,
    // The lock goes with the file.
    _lock: File,
}

impl DataFolder {
    /// Makes the folder with mode 0700 if need be, and locks it. The lock ends with the process,
    /// however that ends.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let fault = |verb| move |source| Error::Folder { verb, path: path.to_owned(), source };
        if !path.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(fault("make the data folder"))?;
        }
        let file = path.join("server.lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&file)
            .map_err(fault("write to the data folder"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Taken { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(fault("lock the data folder")(source)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
