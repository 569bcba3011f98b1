//! Bundles onto the disk: downloaded by the digest of the archive (resumed where it broke off), verified
//! while they come, unpacked in staging, compared with the plan, renamed into place.
//!
//! `bundles/<content digest>` holds whole versions only. `staging/` holds what is on its way and is
//! emptied at each start but for downloads that can be resumed. What nothing names any more is swept
//! ([`sweep`]); what the plugin set names never is.

mod download;
mod place;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::digest::Digest;
use domain::id::PluginVersion;
use domain::plugin_set::PlannedVersion;

use tokio_util::sync::CancellationToken;

use crate::disk::{self, Bytes, Space};
use crate::supervisor::Bundle;
pub(crate) use sweep::Keep;

/// What an install leaves free on a disk: room for the ledger, which an approval has to be written to,
/// and for a few logs.
const SPARE: u64 = 1 << 20;

/// Why a version is not on the disk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file system said no; a full disk reads as such.
    #[error("{verb} `{}`", .path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// There is no room for it.
    #[error(
        "download the bundle: it takes {} and {} to spare, and of the disk of `{}` {space}",
        Bytes(*.needed), Bytes(SPARE), .path.display()
    )]
    Room {
        /// Bytes that are still to come.
        needed: u64,
        /// Of the disk.
        space: Space,
        /// On it.
        path: PathBuf,
    },
    /// Nobody wants it any more.
    #[error("install the bundle: it was given up")]
    Cancelled,
    /// The control plane does not give it.
    #[error("download the bundle: {0}")]
    Download(String),
    /// More or fewer bytes than the plan says.
    #[error("download the bundle: it has {got} bytes, the plan says {planned}")]
    Length {
        /// What came.
        got: u64,
        /// What was to come.
        planned: u64,
    },
    /// Other bytes than the plan says; thrown away, and loaded anew at the next try.
    #[error("verify the bundle: the SHA-256 of what came is {got}, the plan says {planned}")]
    Corrupt {
        /// What came.
        got: Digest,
        /// What was to come.
        planned: Digest,
    },
    /// It cannot be unpacked.
    #[error("unpack the bundle")]
    Bundle(#[source] plugin::bundle::Error),
    /// Its content is not what the plan says.
    #[error("verify the bundle: its {what} is {got}, the plan says {planned} (plan_mismatch)")]
    PlanMismatch {
        /// What differs.
        what: &'static str,
        /// In the bundle.
        got: String,
        /// In the plan.
        planned: String,
    },
    /// The task was lost.
    #[error("unpack the bundle: its task broke")]
    Task,
}

/// Puts versions onto the disk and takes them away.
pub(crate) struct Installer {
    http: reqwest::Client,
    /// `https://host:port/bundles/`.
    from: String,
    bundles: PathBuf,
    staging: PathBuf,
    work: PathBuf,
    /// Contents and archives that are being installed: nothing sweeps them.
    claims: Mutex<BTreeSet<Digest>>,
}

impl Installer {
    /// An installer that downloads from the control plane at `address`. Makes its folders, and empties
    /// those of what a kill left behind. Blocks.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn open(http: reqwest::Client, address: &str, data: &Path) -> Result<Self, Error> {
        let installer = Self {
            http,
            from: format!("https://{address}/bundles/"),
            bundles: data.join("bundles"),
            staging: data.join("staging"),
            work: data.join("work"),
            claims: Mutex::default(),
        };
        for folder in [&installer.bundles, &installer.staging, &installer.work] {
            std::fs::create_dir_all(folder).map_err(io("make the folder", folder))?;
        }
        if let Err(error) = place::clean(&installer.staging) {
            // A disk that cannot be written is no reason not to serve what is on it.
            tracing::warn!(reason = %crate::sentence(&error), "what an earlier run left in staging cannot be removed");
        }
        Ok(installer)
    }

    /// Every version that is on the disk, whole. One that cannot be read is named in the log and left
    /// to be installed anew. Blocks.
    pub(crate) fn installed(&self) -> Vec<(Digest, Bundle)> {
        let entries = std::fs::read_dir(&self.bundles).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.file_name();
            let Some(content) = name.to_str().and_then(|name| Digest::parse(name).ok()) else { continue };
            match place::bundle(&entry.path()) {
                Ok(bundle) => found.push((content, bundle)),
                Err(reason) => {
                    tracing::warn!(content.digest = %content, reason = %reason, "a bundle on the disk cannot be read");
                }
            }
        }
        found
    }

    /// Puts the version onto the disk. `cancel` ends a download, which is resumed if the version is wanted
    /// again; once it is being placed it is whole or not there.
    ///
    /// # Errors
    /// Says why, for people. What runs is as it was.
    pub(crate) async fn install(
        &self,
        planned: &PlannedVersion,
        cancel: &CancellationToken,
    ) -> Result<Bundle, Error> {
        let _claim = Claim::new(self, [planned.content_digest, planned.archive_sha256]);
        let target = self.bundles.join(planned.content_digest.to_string());
        if target.exists()
            && let Ok(bundle) = place::bundle(&target)
            && bundle.version == planned.version
        {
            return Ok(bundle);
        }
        let archive = self.archive(&planned.archive_sha256);
        let result = self.download_and_place(planned, cancel, (archive.clone(), target)).await;
        if let Err(Error::Io { source, .. }) = &result
            && disk::is_full(source)
            && Space::at(&self.staging).is_none_or(|space| space.free < SPARE)
        {
            // The ledger needs the room more than a download that does not fit.
            let _ = tokio::fs::remove_file(&archive).await;
        }
        result
    }

    async fn download_and_place(
        &self,
        planned: &PlannedVersion,
        cancel: &CancellationToken,
        (archive, target): (PathBuf, PathBuf),
    ) -> Result<Bundle, Error> {
        self.check_room(planned, &archive)?;
        let url = format!("{}{}", self.from, planned.archive_sha256);
        tokio::select! {
            () = cancel.cancelled() => return Err(Error::Cancelled),
            downloaded = download::download(&self.http, &url, planned, &archive) => downloaded?,
        }
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let staging = format!("{}.{}", planned.content_digest, uuid::Uuid::new_v4().simple());
        let staging = self.staging.join(staging);
        let placing = place::Placing { archive, staging, target, planned: planned.clone() };
        tokio::task::spawn_blocking(move || placing.place()).await.map_err(|_| Error::Task)?
    }

    /// A download that does not fit is not begun.
    fn check_room(&self, planned: &PlannedVersion, archive: &Path) -> Result<(), Error> {
        let have = std::fs::metadata(archive).map_or(0, |metadata| metadata.len());
        let needed = planned.archive_length.saturating_sub(have);
        match Space::at(&self.staging) {
            Some(space) if space.free < needed.saturating_add(SPARE) => {
                Err(Error::Room { needed, space, path: self.staging.clone() })
            }
            _ => Ok(()),
        }
    }

    fn archive(&self, sha256: &Digest) -> PathBuf {
        self.staging.join(format!("{sha256}.part"))
    }

    /// Takes a version's files away, and its tools' working folders: two renames. What is answered with
    /// is to be deleted, which takes longer. What cannot be moved is in nobody's way, so it is logged.
    pub(crate) fn take_away(&self, version: &PluginVersion, content: Digest) -> Vec<PathBuf> {
        let places = [self.bundles.join(content.to_string()), self.work.join(version.to_string())];
        places.iter().filter_map(|place| self.put_aside(place)).collect()
    }

    /// Renamed first: a folder under `bundles` is always whole.
    fn put_aside(&self, place: &Path) -> Option<PathBuf> {
        let aside = self.staging.join(format!("{}.gone", uuid::Uuid::new_v4().simple()));
        match std::fs::rename(place, &aside) {
            Ok(()) => Some(aside),
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    tracing::warn!(path = %place.display(), reason = %error, "files of a version could not be removed");
                }
                None
            }
        }
    }

    fn claims(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes what was put aside. Blocks; what cannot be deleted is tried again at the next start.
pub(crate) fn delete(aside: &[PathBuf]) {
    for path in aside {
        let deleted = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        if let Err(error) = deleted {
            tracing::warn!(path = %path.display(), reason = %error, "what was put aside could not be deleted");
        }
    }
}

/// Keeps digests from being swept while it lives.
struct Claim<'i> {
    installer: &'i Installer,
    digests: [Digest; 2],
}

impl<'i> Claim<'i> {
    fn new(installer: &'i Installer, digests: [Digest; 2]) -> Self {
        installer.claims().extend(digests);
        Self { installer, digests }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claims = self.installer.claims();
        for digest in &self.digests {
            claims.remove(digest);
        }
    }
}

fn io(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { verb, source: disk::explained(&path, source), path }
}
