//! Archives of pushed versions, in files named by their SHA-256. Where several servers share a database,
//! these are what each has of what is there (`archives`).
//!
//! `DATA/blobs/tmp` holds what is on its way in, `DATA/blobs/sha256` what arrived whole. A file there
//! never changes; one that no version names does no harm.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::digest::Digest;
use futures::{Stream, StreamExt as _};
use sha2::Digest as _;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Mutex, MutexGuard};

/// The folder of archives. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    folder: PathBuf,
    /// Held while an archive is brought here, so that a fleet that asks for it at once has it brought
    /// once.
    bringing: Arc<Mutex<()>>,
}

/// An archive that arrived whole and is on the disk, but under no name yet. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) file: PathBuf,
    pub(crate) sha256: Digest,
    pub(crate) length: u64,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a rename there is nothing here; otherwise the next start removes what stays.
        std::fs::remove_file(&self.file).ok();
    }
}

/// Why an archive did not arrive whole.
#[derive(Debug)]
pub(crate) enum StageFault {
    /// The sender stopped, or said something that is no body.
    Sender(String),
    /// It is longer than it may be.
    TooLarge,
    /// The disk.
    Disk(PathBuf, std::io::Error),
}

impl Blobs {
    /// Opens the folder below `data`, making it if need be, and removes what never arrived whole.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(data: &Path) -> std::io::Result<Self> {
        let folder = data.join("blobs");
        let tmp = folder.join("tmp");
        std::fs::create_dir_all(folder.join("sha256"))?;
        std::fs::create_dir_all(&tmp)?;
        for left in std::fs::read_dir(&tmp)? {
            std::fs::remove_file(left?.path())?;
        }
        Ok(Self { folder, bringing: Arc::default() })
    }

    /// Where the archive of a digest is, whether or not it is there.
    pub fn path(&self, archive: &Digest) -> PathBuf {
        self.folder.join("sha256").join(archive.to_string())
    }

    /// Waits until nobody else brings an archive here.
    pub(crate) async fn bringing(&self) -> MutexGuard<'_, ()> {
        self.bringing.lock().await
    }

    /// Writes what arrives to the disk, and hashes it on the way.
    pub(crate) async fn stage<B, E>(
        &self,
        mut body: impl Stream<Item = Result<B, E>> + Unpin,
        most: u64,
    ) -> Result<Staged, StageFault>
    where
        B: AsRef<[u8]>,
        E: std::fmt::Display,
    {
        let path = self.folder.join("tmp").join(uuid::Uuid::new_v4().to_string());
        let disk = |error| StageFault::Disk(path.clone(), error);
        let mut file = tokio::fs::File::create_new(&path).await.map_err(disk)?;
        let mut staged = Staged { file: path.clone(), sha256: Digest::of(b""), length: 0 };
        let mut hash = sha2::Sha256::new();
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|error| StageFault::Sender(error.to_string()))?;
            staged.length = staged.length.saturating_add(piece.as_ref().len() as u64);
            if staged.length > most {
                return Err(StageFault::TooLarge);
            }
            hash.update(piece.as_ref());
            file.write_all(piece.as_ref()).await.map_err(disk)?;
        }
        // The outcome of the last write is told by this alone: without it a full disk would cut the archive.
        file.flush().await.map_err(disk)?;
        file.sync_all().await.map_err(disk)?;
        staged.sha256 = Digest::from_bytes(hash.finalize().into());
        Ok(staged)
    }

    /// Gives a staged archive its name, durably.
    pub(crate) async fn keep(&self, staged: &Staged) -> Result<(), (PathBuf, std::io::Error)> {
        let path = self.path(&staged.sha256);
        let folder = self.folder.join("sha256");
        let fault = |error| (path.clone(), error);
        tokio::fs::rename(&staged.file, &path).await.map_err(fault)?;
        let folder = tokio::fs::File::open(&folder).await.map_err(fault)?;
        folder.sync_all().await.map_err(fault)
    }
}
