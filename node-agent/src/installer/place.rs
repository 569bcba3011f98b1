//! From a verified archive to a folder in its place. Blocks.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::id::PluginVersion;
use domain::plugin_set::PlannedVersion;
use plugin::bundle::{Inspected, Limits, unpack};
use plugin::manifest::{FILE_NAME, MOST_BYTES, Manifest, ToolSpec};

use super::{Error, io};
use crate::supervisor::Bundle;

/// What is to be placed, and where.
pub(super) struct Placing {
    pub(super) archive: PathBuf,
    pub(super) staging: PathBuf,
    pub(super) target: PathBuf,
    pub(super) planned: PlannedVersion,
}

impl Placing {
    pub(super) fn place(self) -> Result<Bundle, Error> {
        let placed = self.unpack_and_rename();
        if placed.is_err() {
            // Whatever was unpacked is of no use; a disk that is full gets it back.
            let _ = fs::remove_dir_all(&self.staging);
        }
        if !matches!(placed, Err(Error::Io { .. })) {
            // Done with, or bad: a next try gets it anew.
            let _ = fs::remove_file(&self.archive);
        }
        placed
    }

    fn unpack_and_rename(&self) -> Result<Bundle, Error> {
        let archive = fs::File::open(&self.archive).map_err(io("open", &self.archive))?;
        let inspected = unpack(BufReader::new(archive), &self.staging, &Limits::default());
        let inspected = inspected.map_err(|error| match error {
            plugin::bundle::Error::Io { verb, path, source } => io(verb, &path)(source),
            error => Error::Bundle(error),
        })?;
        compare(&inspected, &self.planned)?;
        if self.target.exists() {
            fs::remove_dir_all(&self.target).map_err(io("remove", &self.target))?;
        }
        fs::rename(&self.staging, &self.target).map_err(io("rename into place", &self.target))?;
        let bundles = self.target.parent().unwrap_or(&self.target);
        fs::File::open(bundles).and_then(|folder| folder.sync_all()).map_err(io("sync", bundles))?;
        Ok(Bundle {
            version: self.planned.version.clone(),
            folder: self.target.clone(),
            manifest: Arc::new(inspected.manifest),
        })
    }
}

/// The node reads the verified bundle itself; what the control plane read before is only compared.
fn compare(inspected: &Inspected, planned: &PlannedVersion) -> Result<(), Error> {
    let mismatch = |what, got: String, planned: String| Err(Error::PlanMismatch { what, got, planned });
    if inspected.content_digest != planned.content_digest {
        return mismatch(
            "content digest",
            inspected.content_digest.to_string(),
            planned.content_digest.to_string(),
        );
    }
    let manifest = &inspected.manifest;
    let version = version_of(manifest);
    if version != planned.version {
        return mismatch("version", version.to_string(), planned.version.to_string());
    }
    let got: Vec<String> = manifest.tools.iter().map(|(id, spec)| tool_line(id, spec)).collect();
    let expected: Vec<String> = planned
        .tools
        .iter()
        .map(|(id, tool)| {
            let url = tool.url.as_deref().unwrap_or_default();
            format!("{id} {} {url}", tool.kind.as_str()).trim_end().to_owned()
        })
        .collect();
    if got != expected {
        return mismatch("list of tools", got.join("; "), expected.join("; "));
    }
    Ok(())
}

fn tool_line(id: &domain::id::ToolId, spec: &ToolSpec) -> String {
    let url = match spec {
        ToolSpec::Url { url, .. } => url.as_str(),
        _ => "",
    };
    format!("{id} {} {url}", spec.kind()).trim_end().to_owned()
}

fn version_of(manifest: &Manifest) -> PluginVersion {
    PluginVersion { plugin: manifest.name.clone(), version: manifest.version.clone() }
}

/// Reads a bundle that was placed before.
pub(super) fn bundle(folder: &Path) -> Result<Bundle, String> {
    let path = folder.join(FILE_NAME);
    let length = fs::metadata(&path).map_err(|error| error.to_string())?.len();
    if length > MOST_BYTES {
        return Err(format!("its {FILE_NAME} has {length} of at most {MOST_BYTES} bytes"));
    }
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let manifest = Manifest::read_accepted(&text)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let version = version_of(&manifest);
    Ok(Bundle { version, folder: folder.to_owned(), manifest: Arc::new(manifest) })
}

/// Removes everything in staging but downloads, which are resumed or replaced.
pub(super) fn clean(staging: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(staging).map_err(io("read the folder", staging))?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "part") {
            continue;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(io("remove", &path))?;
    }
    Ok(())
}
