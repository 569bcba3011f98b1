//! Packs a plugin's folder: the same tree gives the same bytes on every machine.
//!
//! The file system is asked for names, lengths and bytes only, never for modes, times or owners.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use domain::digest::Digest;
use domain::id::PluginVersion;
use sha2::{Digest as _, Sha256};

use super::tree::{self, Found};
use super::{BundleFile, Error, Limits, Packed, content_digest};
use crate::manifest::{self, Manifest, ToolSpec};
use crate::script;

/// The compressor's level: past it archives of code shrink by some per cent for twice the time. Its
/// window stays within what [`super::archive`] grants a reader.
const LEVEL: i32 = 9;

/// Packs the plugin in `dir` into `out`: a file, or a folder to write `NAME-VERSION.pintle` into.
/// `progress` is told bytes packed and bytes in all.
///
/// # Errors
/// What keeps the folder from being a bundle, with the path; nothing is left behind then.
pub fn pack(dir: &Path, out: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Packed, Error> {
    let manifest = read_manifest(dir)?;
    let found = tree::list(dir, &Limits::default())?;
    let started = Started::of(&manifest);
    if let Some(path) = started.programs.iter().find(|path| !has(&found, path)) {
        return Err(Error::NoProgram { path: (*path).to_owned() });
    }
    let version = PluginVersion { plugin: manifest.name.clone(), version: manifest.version.clone() };
    let path = if out.is_dir() {
        out.join(format!("{}-{}.pintle", version.plugin, version.version))
    } else {
        out.to_owned()
    };
    let partial = partial_path(&path)?;
    let written = write(&partial, &found, &started, progress).and_then(|written| {
        fs::rename(&partial, &path).map_err(Error::io("write", &path))?;
        Ok(written)
    });
    if written.is_err() {
        // The first error is the one to report; a file that could not be removed is found by name.
        fs::remove_file(&partial).ok();
    }
    let (files, archive_sha256, archive_len) = written?;
    Ok(Packed {
        version,
        content_digest: content_digest(&files),
        archive_sha256,
        archive_len,
        files: files.len(),
        path,
    })
}

/// Reads the manifest of a plugin's folder.
pub(crate) fn read_manifest(dir: &Path) -> Result<Manifest, Error> {
    let file = dir.join(manifest::FILE_NAME);
    let meta = match fs::symlink_metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::NoManifest { found: None });
        }
        other => other.map_err(Error::io("read", &file))?,
    };
    if !meta.is_file() {
        return Err(Error::path(manifest::FILE_NAME, "it is no regular file"));
    }
    let (got, limit) = (meta.len(), manifest::MOST_BYTES);
    if got > limit {
        return Err(Error::Limit { path: manifest::FILE_NAME.into(), what: "bytes", got, limit });
    }
    let text = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
    Manifest::read(&text).map_err(Error::Manifest)
}

/// What the manifest says is started.
pub(crate) struct Started<'a> {
    /// Started directly: executable.
    pub(crate) programs: BTreeSet<&'a str>,
    /// Given to bash.
    pub(crate) bash: BTreeSet<&'a str>,
}

impl<'a> Started<'a> {
    pub(crate) fn of(manifest: &'a Manifest) -> Self {
        let bash = manifest.tools.values().filter_map(|spec| match spec {
            ToolSpec::Bash { path, .. } => Some(path.as_str()),
            _ => None,
        });
        Self { programs: manifest.programs(), bash: bash.collect() }
    }

    /// Whether the file is packed as executable.
    fn is_executable(&self, path: &str, head: &[u8]) -> bool {
        script::has_interpreter(head) || self.programs.contains(path)
    }

    /// Whether the manifest says that something starts this very file.
    pub(crate) fn starts(&self, path: &str) -> bool {
        self.programs.contains(path) || self.bash.contains(path)
    }

    /// The fault that keeps the file from being started as the plugin means to. A `#!` line of
    /// another interpreter than a shell does no harm where the interpreter is started by name.
    pub(crate) fn fault(&self, path: &str, head: &[u8]) -> Option<script::ScriptFault> {
        let is_started = self.starts(path);
        let fault = script::fault(head, is_started)?;
        (is_started || script::is_shell(head) || fault == script::ScriptFault::Bom).then_some(fault)
    }
}

fn has(found: &[Found], path: &str) -> bool {
    found.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok()
}

/// A file beside the result, named so that packing again does not take it in.
fn partial_path(path: &Path) -> Result<PathBuf, Error> {
    let Some(name) = path.file_name() else {
        return Err(Error::io("write", path)(io::Error::from(io::ErrorKind::InvalidInput)));
    };
    Ok(path.with_file_name(format!(".{}-{}.pintle.part", name.to_string_lossy(), std::process::id())))
}

type Written = (Vec<BundleFile>, Digest, u64);

fn write(
    partial: &Path,
    found: &[Found],
    started: &Started<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Written, Error> {
    let failed = || Error::io("write", partial);
    let file = File::create(partial).map_err(failed())?;
    let out = Hashing { inner: BufWriter::new(file), hash: Sha256::new(), len: 0 };
    let mut encoder = zstd::Encoder::new(out, LEVEL).map_err(failed())?;
    encoder.include_checksum(true).map_err(failed())?;
    let mut builder = tar::Builder::new(encoder);
    let total = found.iter().map(|file| file.len).sum();
    let mut done = 0;
    let mut files = Vec::with_capacity(found.len());
    progress(0, total);
    for file in found {
        let mut tell = |bytes: u64| {
            done += bytes;
            progress(done, total);
        };
        files.push(append(&mut builder, file, started, &mut tell)?);
    }
    let out = builder.into_inner().and_then(zstd::Encoder::finish).map_err(failed())?;
    let Hashing { inner, hash, len } = out;
    let file = inner.into_inner().map_err(io::IntoInnerError::into_error).map_err(failed())?;
    file.sync_all().map_err(failed())?;
    Ok((files, Digest::from_bytes(hash.finalize().into()), len))
}

fn append<W: Write>(
    builder: &mut tar::Builder<W>,
    found: &Found,
    started: &Started<'_>,
    tell: &mut dyn FnMut(u64),
) -> Result<BundleFile, Error> {
    let failed = || Error::io("read", &found.source);
    let mut file = BufReader::new(File::open(&found.source).map_err(failed())?);
    let mut head = Vec::new();
    Read::by_ref(&mut file).take(script::HEAD_BYTES as u64).read_to_end(&mut head).map_err(failed())?;
    if let Some(fault) = started.fault(&found.path, &head) {
        return Err(Error::Script { path: found.path.clone(), what: fault.what(), remedy: fault.remedy() });
    }
    let executable = started.is_executable(&found.path, &head);
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(if executable { 0o755 } else { 0o644 });
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(found.len);
    let mut data = Reading {
        inner: io::Cursor::new(head).chain(file).take(found.len),
        hash: Sha256::new(),
        len: 0,
        tell,
    };
    builder.append_data(&mut header, &found.path, &mut data).map_err(failed())?;
    let Reading { inner, hash, len, .. } = data;
    let more = inner.into_inner().read(&mut [0]).map_err(failed())?;
    if len != found.len || more > 0 {
        return Err(Error::Changed { path: found.path.clone() });
    }
    let sha256 = Digest::from_bytes(hash.finalize().into());
    Ok(BundleFile { path: found.path.clone(), executable, len, sha256 })
}

/// Hashes and counts what is read through it.
struct Reading<'a, R> {
    inner: R,
    hash: Sha256,
    len: u64,
    tell: &'a mut dyn FnMut(u64),
}

impl<R: Read> Read for Reading<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.hash.update(buffer.get(..got).unwrap_or_default());
        self.len += got as u64;
        (self.tell)(got as u64);
        Ok(got)
    }
}

/// Hashes and counts what is written through it.
struct Hashing<W> {
    inner: W,
    hash: Sha256,
    len: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..done).unwrap_or_default());
        self.len += done as u64;
        Ok(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
