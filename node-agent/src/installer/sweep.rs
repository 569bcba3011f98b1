//! Takes away what nothing names any more: bundles that cannot be read or were given up at the last moment,
//! working folders of versions that are gone, and, beyond a cap, downloads that broke off.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::digest::Digest;
use domain::id::PluginVersion;

use super::Installer;

/// Bytes of downloads that broke off and that nothing names: what a version that was taken back and given
/// again is resumed from, and no more than a disk misses.
const UNFINISHED_MAX: u64 = 64 << 20;

/// What is never swept: what the plugin set names, and what is on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keep {
    /// Versions whose tools' working folders stay.
    pub(crate) versions: BTreeSet<PluginVersion>,
    /// Contents whose bundles stay.
    pub(crate) contents: BTreeSet<Digest>,
    /// Archives whose downloads stay.
    pub(crate) archives: BTreeSet<Digest>,
}

impl Installer {
    /// Sweeps. Blocks.
    pub(crate) fn sweep(&self, keep: &Keep) {
        let aside = {
            // Nothing is begun to be installed meanwhile; these are renames and no more.
            let claims = self.claims();
            let bundles = entries(&self.bundles).filter_map(|entry| Some((digest(&entry)?, entry.path())));
            let bundles =
                bundles.filter(|(content, _)| !keep.contents.contains(content) && !claims.contains(content));
            let work = entries(&self.work).filter(|entry| {
                let name = entry.file_name();
                let version = name.to_str().and_then(|name| PluginVersion::parse(name).ok());
                version.is_none_or(|version| !keep.versions.contains(&version))
            });
            let gone = bundles.map(|(_, path)| path).chain(work.map(|entry| entry.path()));
            let aside: Vec<PathBuf> = gone.filter_map(|path| self.put_aside(&path)).collect();
            let unfinished =
                self.unfinished(|archive| keep.archives.contains(archive) || claims.contains(archive));
            aside.into_iter().chain(unfinished).collect::<Vec<_>>()
        };
        if !aside.is_empty() {
            tracing::info!(count = aside.len(), "files that nothing names any more are removed");
        }
        super::delete(&aside);
    }

    /// Downloads that nothing names, beyond the cap: those that were written to longest ago.
    fn unfinished(&self, is_named: impl Fn(&Digest) -> bool) -> Vec<PathBuf> {
        let mut found: Vec<(SystemTime, u64, PathBuf)> = entries(&self.staging)
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "part"))
            .filter(|entry| digest(entry).is_none_or(|archive| !is_named(&archive)))
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        found.sort();
        let mut left = UNFINISHED_MAX;
        let over = found.into_iter().rev().skip_while(|(_, bytes, _)| {
            let rest = left.checked_sub(*bytes);
            left = rest.unwrap_or_default();
            rest.is_some()
        });
        over.map(|(_, _, path)| path).collect()
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    std::fs::read_dir(folder).into_iter().flatten().flatten()
}

/// The digest that a file or folder is named after.
fn digest(entry: &DirEntry) -> Option<Digest> {
    let name = entry.file_name();
    let name = name.to_str()?;
    Digest::parse(name.split('.').next().unwrap_or(name)).ok()
}
