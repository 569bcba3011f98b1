//! Takes a pushed version: whole on the disk, read to its end, then recorded.

use std::fs::File;

use domain::audit::Event;
use domain::digest::Digest;
use domain::id::PluginVersion;
use domain::plugin_set::Kind;
use domain::visible::make_visible;
use futures::Stream;
use plugin::bundle::{self, Inspected, Limits, read_archive};
use plugin::manifest::ToolSpec;

use super::assign::check_kinds;
use super::{By, Code, Error};
use crate::store::plugins::{self, StoredTool, StoredVersion};
use crate::store::{ArchiveFault, Blobs, StageFault, Staged, Store};

/// Most bytes of an upload: the largest bundle, and one that is refused for its content has not
/// filled the disk by then.
pub const UPLOAD_MAX: u64 = 512 * 1024 * 1024;

/// A version as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Which version.
    pub version: PluginVersion,
    /// Of the sorted (path, executable bit, file digest) list.
    pub content_digest: Digest,
    /// Of the archive that is kept, which is the first one of this content.
    pub archive_sha256: Digest,
    /// Its bytes.
    pub archive_length: u64,
    /// Whether it was new.
    pub created: bool,
}

/// Takes a version. The same content again, in whatever archive, is fine and changes nothing.
///
/// # Errors
/// Bytes that are no bundle, too many or not those announced; a kind of tool that nodes do not run;
/// the version with other content, both digests named; the disk.
pub async fn push_version<B, E>(
    (store, blobs): (&Store, &Blobs),
    by: &By,
    body: impl Stream<Item = Result<B, E>> + Unpin,
    announced: Option<Digest>,
) -> Result<Pushed, Error>
where
    B: AsRef<[u8]>,
    E: std::fmt::Display,
{
    let staged = blobs.stage(body, UPLOAD_MAX).await.map_err(stage_error)?;
    if let Some(announced) = announced.filter(|announced| *announced != staged.sha256) {
        let detail = format!(
            "{} bytes with SHA-256 {} arrived, announced was {announced}; the upload was damaged or cut",
            staged.length, staged.sha256
        );
        return Err(Error::with_remedy(Code::ArchiveDiffers, detail, "push it again"));
    }
    let inspected = inspect(&staged).await?;
    let (stored, tools) = as_stored(&staged, &inspected, by);
    check_kinds(&stored.version, &tools)?;
    let mut reading = store.read().await?;
    if let Some(kept) = plugins::get(&mut reading, &stored.version).await? {
        return same_content(&kept, &stored);
    }
    drop(reading);
    blobs.keep(&staged).await.map_err(|(path, source)| folder("keep the archive as", &path, source))?;
    if store.is_shared() {
        let path = blobs.path(&staged.sha256);
        store.put_archive(&staged.sha256, &path).await.map_err(|fault| match fault {
            ArchiveFault::Store(error) => error.into(),
            ArchiveFault::Disk(path, source) => folder("read", &path, source),
        })?;
    }
    let mut tx = store.begin_write().await?;
    if let Some(kept) = plugins::get(tx.tx(), &stored.version).await? {
        return same_content(&kept, &stored);
    }
    plugins::insert(tx.tx(), &stored, &tools).await?;
    tx.audit(
        &by.origin,
        Event::PluginVersionPush {
            version: stored.version.clone(),
            content_digest: stored.content_digest,
            archive_sha256: stored.archive_sha256,
            archive_length: stored.archive_length,
            tools: tools.into_iter().map(|tool| tool.tool).collect(),
        },
    );
    tx.commit(by.now).await?;
    Ok(pushed(&stored, true))
}

async fn inspect(staged: &Staged) -> Result<Inspected, Error> {
    let path = staged.file.clone();
    let read = move || -> Result<Inspected, bundle::Error> {
        let file = File::open(&path).map_err(bundle::Error::Source)?;
        read_archive(std::io::BufReader::new(file), &Limits::default())
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(inspected)) => Ok(inspected),
        Ok(Err(bundle::Error::Source(source))) => Err(folder("read", &staged.file, source)),
        Ok(Err(fault)) => Err(Error::refused(Code::BadBundle, make_visible(&fault.to_string()))),
        Err(stopped) => Err(folder("read", &staged.file, std::io::Error::other(stopped))),
    }
}

/// The same version is the same content; the first archive stays.
fn same_content(kept: &StoredVersion, sent: &StoredVersion) -> Result<Pushed, Error> {
    if kept.content_digest == sent.content_digest {
        return Ok(pushed(kept, false));
    }
    let detail = format!(
        "{} was pushed at {} with content {}, this bundle has {}; a version never changes",
        kept.version, kept.pushed_at, kept.content_digest, sent.content_digest
    );
    Err(Error::with_remedy(
        Code::VersionDiffers,
        detail,
        "raise `version` in pintle.yaml, pack and push again",
    ))
}

fn as_stored(staged: &Staged, inspected: &Inspected, by: &By) -> (StoredVersion, Vec<StoredTool>) {
    let manifest = &inspected.manifest;
    let tools = manifest.tools.iter().map(|(tool, spec)| {
        let (kind, url, connection) = match spec {
            ToolSpec::Command { .. } => (Kind::Command, None, None),
            ToolSpec::Url { url, connection, .. } => (Kind::Url, Some(url.clone()), connection.clone()),
            ToolSpec::Bash { .. } => (Kind::Bash, None, None),
            ToolSpec::Node { .. } => (Kind::Node, None, None),
            ToolSpec::Python { .. } => (Kind::Python, None, None),
        };
        StoredTool { tool: tool.clone(), kind, url, connection }
    });
    let stored = StoredVersion {
        version: PluginVersion { plugin: manifest.name.clone(), version: manifest.version.clone() },
        content_digest: inspected.content_digest,
        archive_sha256: staged.sha256,
        archive_length: staged.length,
        description: make_visible(&manifest.description).into_owned(),
        manifest: inspected.manifest_text.clone(),
        pushed_at: by.now,
        pushed_by: by.origin.actor.clone(),
    };
    (stored, tools.collect())
}

fn pushed(stored: &StoredVersion, created: bool) -> Pushed {
    Pushed {
        version: stored.version.clone(),
        content_digest: stored.content_digest,
        archive_sha256: stored.archive_sha256,
        archive_length: stored.archive_length,
        created,
    }
}

pub(super) fn stage_error(fault: StageFault) -> Error {
    match fault {
        StageFault::TooLarge => Error::refused(
            Code::TooLarge,
            format!("the upload has more than {UPLOAD_MAX} bytes, which is the most that a bundle may have"),
        ),
        StageFault::Sender(why) => {
            let detail = format!("the upload ended early: {}", make_visible(&why));
            Error::with_remedy(Code::ArchiveDiffers, detail, "push it again")
        }
        StageFault::Disk(path, source) => folder("write", &path, source),
    }
}

pub(super) fn folder(what: &'static str, path: &std::path::Path, source: std::io::Error) -> Error {
    Error::Folder { what, path: path.display().to_string(), source }
}
