//! Bundles: a plugin's folder as one file that two machines pack to the same bytes.
//!
//! A bundle is a zstd-compressed tar of regular files with [`crate::manifest::FILE_NAME`] at its
//! root. [`pack`] writes one, [`read_archive`] judges one without unpacking, [`unpack`] writes one
//! into a staging folder that the caller renames into place.

use std::io;
use std::path::PathBuf;

use domain::digest::Digest;
use domain::id::PluginVersion;

use crate::manifest::{Manifest, ManifestFault};

mod archive;
mod content;
mod pack;
pub(crate) mod path;
mod staging;
pub(crate) mod tree;

pub use archive::{read_archive, unpack};
pub use content::content_digest;
pub use pack::pack;
pub(crate) use pack::{Started, read_manifest};

/// What a bundle may hold. The defaults are the product's; a setting may lower them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files: a `node_modules` of a few hundred packages fits, and a node can still sync each one.
    pub files: usize,
    /// Bytes of all files: what a node unpacks beside what it runs, several versions at a time.
    pub total_bytes: u64,
    /// Bytes of one file: the largest single-file servers with a built-in run time are half of it.
    pub file_bytes: u64,
    /// Bytes of the archive: compressing never makes a bundle larger than its files and headers.
    pub archive_bytes: u64,
    /// Unpacked bytes per byte of the archive: text packs 20 times smaller, a bomb a thousand times.
    pub ratio: u64,
    /// Bytes of a path: leaves room for the node's own folders below the 4,096 that systems hold.
    pub path_bytes: usize,
    /// Parts of a path: `node_modules` nests to about 20.
    pub path_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 20_000,
            total_bytes: 512 * 1024 * 1024,
            file_bytes: 256 * 1024 * 1024,
            archive_bytes: 544 * 1024 * 1024,
            ratio: 200,
            path_bytes: 512,
            path_depth: 32,
        }
    }
}

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFile {
    /// Its path in the bundle, with `/` between the parts.
    pub path: String,
    /// Whether it is started directly (mode 0755, otherwise 0644).
    pub executable: bool,
    /// Its bytes.
    pub len: u64,
    /// The SHA-256 of its bytes.
    pub sha256: Digest,
}

/// A bundle that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Plugin and version, from the manifest.
    pub version: PluginVersion,
    /// The content digest (see [`content_digest`]).
    pub content_digest: Digest,
    /// The SHA-256 of the archive, which guards transport.
    pub archive_sha256: Digest,
    /// Bytes of the archive.
    pub archive_len: u64,
    /// Files in it.
    pub files: usize,
    /// Where it was written.
    pub path: PathBuf,
}

/// A bundle that was read from its first byte to its last and found good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// Its manifest.
    pub manifest: Manifest,
    /// The manifest as it was written.
    pub manifest_text: String,
    /// The content digest (see [`content_digest`]).
    pub content_digest: Digest,
    /// Its files, sorted by path.
    pub files: Vec<BundleFile>,
}

/// Why a bundle cannot be packed, read or unpacked. Paths inside messages are escaped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are something else.
    #[error(
        "read this archive: this is no bundle: expected a zstd-compressed tar with pintle.yaml at its root"
    )]
    NoBundle(#[source] Option<io::Error>),
    /// It began as a bundle and then ended early or was damaged.
    #[error("read this archive: it is damaged or ends early, after {files} whole files")]
    Damaged {
        /// Files read before that.
        files: usize,
        /// What the decompressor or the tar reader met.
        #[source]
        source: io::Error,
    },
    /// Bytes follow the end of the bundle.
    #[error("read this archive: bytes follow after its end; pack it again")]
    TrailingBytes,
    /// The bytes could not be fetched from where they come from.
    #[error("read the bytes of the archive")]
    Source(#[source] io::Error),
    /// No manifest at the root.
    #[error("find pintle.yaml at the root of the plugin{}", elsewhere(.found.as_deref()))]
    NoManifest {
        /// Where one was found instead.
        found: Option<String>,
    },
    /// The manifest has faults.
    #[error("read the manifest, which has {} fault(s): {}", .0.len(), all(.0))]
    Manifest(Vec<ManifestFault>),
    /// A path, or what it leads to, may not be in a bundle.
    #[error("take `{path}` into a bundle: {rule}")]
    Path {
        /// The path.
        path: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// Two paths are too alike.
    #[error("take `{path}` into a bundle beside `{earlier}`: {rule}")]
    Clash {
        /// The later path.
        path: String,
        /// The earlier one.
        earlier: String,
        /// The rule that the two break.
        rule: &'static str,
    },
    /// More than a bundle may hold.
    #[error("take `{path}` into a bundle: {got} {what}, where at most {limit} are allowed")]
    Limit {
        /// The file that passed the limit.
        path: String,
        /// What was counted.
        what: &'static str,
        /// As far as it was counted.
        got: u64,
        /// The limit.
        limit: u64,
    },
    /// A script that could not be started on a node.
    #[error("pack the script `{path}`: {what}; {remedy}")]
    Script {
        /// The script.
        path: String,
        /// What is wrong.
        what: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A command names a program of the plugin that is not packed.
    #[error(
        "pack the program `{path}` that a command names: it is not among the packed files; build it, or check .pintleignore"
    )]
    NoProgram {
        /// The program, relative to the plugin's root.
        path: String,
    },
    /// A file changed while it was read.
    #[error("pack `{path}`: it changed while it was read; pack again when nothing writes to it")]
    Changed {
        /// The file.
        path: String,
    },
    /// `.pintleignore` cannot be understood.
    #[error("read line {line} of .pintleignore")]
    Ignore {
        /// Counted from 1.
        line: usize,
        /// What the pattern reader says.
        #[source]
        source: ignore::Error,
    },
    /// The staging folder is in use.
    #[error("unpack into `{}`: the folder is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The file system said no.
    #[error("{verb} `{}`", .path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// For `map_err` on what the file system answers.
    pub(crate) fn io(verb: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path, source }
    }

    /// A path that may not be in a bundle.
    pub(crate) fn path(path: &str, rule: &'static str) -> Self {
        Self::Path { path: crate::manifest::shown(path), rule }
    }
}

fn elsewhere(found: Option<&str>) -> String {
    match found.and_then(|path| path.rsplit_once('/')) {
        Some((folder, _)) => {
            format!(" (there is one in `{}`: pack that folder itself)", crate::manifest::shown(folder))
        }
        None => String::new(),
    }
}

fn all(faults: &[ManifestFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
