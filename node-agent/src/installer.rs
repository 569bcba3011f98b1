//! Bundles onto the disk: downloaded by the digest of the archive (resumed where it broke off), verified
//! while they come, unpacked in staging, compared with the plan, renamed into place.
//!
//! `bundles/<content digest>` holds whole versions only. `staging/` holds what is on its way and is
//! emptied at each start but for downloads that can be resumed.

mod download;
mod place;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use domain::digest::Digest;
use domain::id::PluginVersion;
use domain::plugin_set::PlannedVersion;

use crate::supervisor::Bundle;

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
        };
        for folder in [&installer.bundles, &installer.staging, &installer.work] {
            std::fs::create_dir_all(folder).map_err(io("make the folder", folder))?;
        }
        place::clean(&installer.staging)?;
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

    /// Puts the version onto the disk. May be dropped at any point; what was downloaded is resumed.
    ///
    /// # Errors
    /// Says why, for people. What runs is as it was.
    pub(crate) async fn install(&self, planned: &PlannedVersion) -> Result<Bundle, Error> {
        let target = self.bundles.join(planned.content_digest.to_string());
        if target.exists()
            && let Ok(bundle) = place::bundle(&target)
            && bundle.version == planned.version
        {
            return Ok(bundle);
        }
        let archive = self.staging.join(format!("{}.part", planned.archive_sha256));
        let url = format!("{}{}", self.from, planned.archive_sha256);
        download::download(&self.http, &url, planned, &archive).await?;
        let placing = place::Placing {
            archive,
            staging: self.staging.join(format!(
                "{}.{}",
                planned.content_digest,
                uuid::Uuid::new_v4().simple()
            )),
            target,
            planned: planned.clone(),
        };
        tokio::task::spawn_blocking(move || placing.place()).await.map_err(|_| Error::Task)?
    }

    /// Takes a version's files away, and its tools' working folders. Blocks. What cannot be removed is
    /// in nobody's way, so it is logged.
    pub(crate) fn remove(&self, version: &PluginVersion, content: Digest) {
        let folder = self.bundles.join(content.to_string());
        let aside = self.staging.join(format!("{content}.gone.{}", uuid::Uuid::new_v4().simple()));
        // Renamed first: a folder under `bundles` is always whole.
        let removed = match std::fs::rename(&folder, &aside) {
            Ok(()) => std::fs::remove_dir_all(&aside),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        let work = match std::fs::remove_dir_all(self.work.join(version.to_string())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        if let Err(error) = removed.and(work) {
            tracing::warn!(plugin.version = %version, reason = %error, "files of a version could not be removed");
        }
    }
}

fn io(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { verb, path, source }
}
