//! Reads an archive from its first byte to its last, trusting nothing in it.
//!
//! Headers are taken raw: a reader that follows extension headers by itself would read them into
//! memory whatever their size, and two readers that follow them differently see two bundles.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use domain::digest::Digest;
use sha2::{Digest as _, Sha256};
use tar::EntryType;

use super::staging::Staging;
use super::{BundleFile, Error, Inspected, Limits, content_digest, path};
use crate::manifest::{self, Manifest, ManifestFault};

mod header;
mod meter;

use header::Extension;
use meter::{Meter, Metered};

/// Bytes of the window that a frame may ask a reader to keep, as a power of two: 8 MiB is what the
/// compressor's usual levels (to 19) use; a frame may ask for gigabytes.
const WINDOW_LOG: u32 = 23;

/// Zero bytes after the last entry: tar writers fill up to 10 KiB, some to 64.
const MOST_PADDING: u64 = 64 * 1024;

/// Extension headers per file: a long name and its times.
const HEADERS_PER_FILE: usize = 4;

/// What is done with the files while the archive is read.
trait Sink {
    fn begin(&mut self, file: &BundleFile) -> Result<(), Error>;
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error>;
    fn end(&mut self) -> Result<(), Error>;
}

/// Judges the archive that `reader` brings, without writing anything. Its manifest is held to the
/// rules for new bundles. Memory stays within about 10 MiB whatever is sent.
///
/// # Errors
/// The first thing that is wrong, with its path where it has one.
pub fn read_archive(reader: impl Read, limits: &Limits) -> Result<Inspected, Error> {
    struct Nothing;
    impl Sink for Nothing {
        fn begin(&mut self, _: &BundleFile) -> Result<(), Error> {
            Ok(())
        }
        fn bytes(&mut self, _: &[u8]) -> Result<(), Error> {
            Ok(())
        }
        fn end(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }
    read(reader, limits, &mut Nothing, Manifest::read)
}

/// Unpacks the archive that `reader` brings into `into_staging`, which must be absent or empty. Only
/// regular files and folders are made, with modes 0755 and 0644 whatever the umask, and all of them
/// are on the disk when this returns. The caller compares the digest, then renames the folder into
/// place, or removes it after an error. The manifest is read as [`Manifest::read_accepted`].
///
/// # Errors
/// The first thing that is wrong, with its path where it has one.
pub fn unpack(reader: impl Read, into_staging: &Path, limits: &Limits) -> Result<Inspected, Error> {
    let mut staging = Staging::new(into_staging)?;
    let inspected = read(reader, limits, &mut staging, Manifest::read_accepted)?;
    staging.sync()?;
    Ok(inspected)
}

impl Sink for Staging {
    fn begin(&mut self, file: &BundleFile) -> Result<(), Error> {
        self.create(&file.path, file.executable)
    }
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write(bytes)
    }
    fn end(&mut self) -> Result<(), Error> {
        self.close()
    }
}

type ReadManifest = fn(&str) -> Result<Manifest, Vec<ManifestFault>>;

fn read(
    reader: impl Read,
    limits: &Limits,
    sink: &mut dyn Sink,
    read_manifest: ReadManifest,
) -> Result<Inspected, Error> {
    let meter = Rc::new(Meter::default());
    let source = BufReader::with_capacity(128 * 1024, Metered::new(reader, Rc::clone(&meter)));
    let mut decoder =
        zstd::Decoder::with_buffer(source).map_err(|e| Error::NoBundle(Some(e)))?.single_frame();
    decoder.window_log_max(WINDOW_LOG).map_err(|e| Error::NoBundle(Some(e)))?;
    let mut archive = tar::Archive::new(decoder);
    let mut state = Reading::new(limits, &meter, sink);
    let entries = archive.entries().map_err(|e| state.broken(e))?;
    for entry in entries.raw(true) {
        let mut entry = entry.map_err(|e| state.broken(e))?;
        state.entry(&mut entry)?;
    }
    let Reading { mut files, manifest, elsewhere, .. } = {
        let mut decoder = archive.into_inner();
        state.padding(&mut decoder)?;
        let mut source = decoder.finish();
        if !source.fill_buf().map_err(|e| state.broken(e))?.is_empty() {
            return Err(Error::TrailingBytes);
        }
        state
    };
    let bytes = manifest.ok_or(Error::NoManifest { found: elsewhere })?;
    let text = String::from_utf8(bytes).map_err(|_| Error::path(manifest::FILE_NAME, "it is not UTF-8"))?;
    let read = read_manifest(&text).map_err(Error::Manifest)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Inspected { manifest: read, manifest_text: text, content_digest: content_digest(&files), files })
}

/// What is known while the entries go by.
struct Reading<'a> {
    limits: &'a Limits,
    meter: &'a Meter,
    sink: &'a mut dyn Sink,
    files: Vec<BundleFile>,
    names: path::Names,
    headers: usize,
    /// Bytes of files as their headers say, the present one included.
    total: u64,
    /// Bytes of files as they were read.
    unpacked: u64,
    /// The path that an extension header gave the next entry.
    long_path: Option<Vec<u8>>,
    manifest: Option<Vec<u8>>,
    /// Where else a manifest lay, for the message when the root has none.
    elsewhere: Option<String>,
}

impl<'a> Reading<'a> {
    fn new(limits: &'a Limits, meter: &'a Meter, sink: &'a mut dyn Sink) -> Self {
        Self {
            limits,
            meter,
            sink,
            files: Vec::new(),
            names: path::Names::default(),
            headers: 0,
            total: 0,
            unpacked: 0,
            long_path: None,
            manifest: None,
            elsewhere: None,
        }
    }

    fn entry<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<(), Error> {
        self.headers += 1;
        let most = self.limits.files.saturating_mul(HEADERS_PER_FILE);
        if self.headers > most {
            return Err(limit("", "headers", self.headers as u64, most as u64));
        }
        let kind = entry.header().entry_type();
        match kind {
            EntryType::GNULongName | EntryType::XHeader | EntryType::XGlobalHeader => {
                self.extension(kind, entry)
            }
            _ => {
                let bytes = match self.long_path.take() {
                    Some(bytes) => bytes,
                    None => entry.header().path_bytes().into_owned(),
                };
                let path = self.path(bytes, kind)?;
                match kind {
                    EntryType::Regular | EntryType::Continuous => self.file(path, entry),
                    EntryType::Directory => Ok(()),
                    EntryType::Symlink => Err(Error::path(&path, "it is a symbolic link")),
                    EntryType::Link => Err(Error::path(&path, "it is a hard link")),
                    EntryType::Char | EntryType::Block | EntryType::Fifo => {
                        Err(Error::path(&path, "it is a device or a pipe"))
                    }
                    _ => Err(Error::path(&path, "it is of a kind that no bundle holds")),
                }
            }
        }
    }

    fn extension<R: Read>(&mut self, kind: EntryType, entry: &mut tar::Entry<'_, R>) -> Result<(), Error> {
        let bytes = header::read_bounded(entry).map_err(|e| self.broken(e))?;
        let bytes =
            bytes.ok_or_else(|| Error::path("", "an extension header is larger than any path needs"))?;
        match header::extension(kind, &bytes) {
            Ok(Extension::Path(_)) if self.long_path.is_some() => {
                Err(Error::path("", "two extension headers give one entry a path"))
            }
            Ok(Extension::Path(path)) => {
                self.long_path = Some(path);
                Ok(())
            }
            Ok(Extension::Nothing) => Ok(()),
            Err(rule) => Err(Error::path("", rule)),
        }
    }

    fn path(&self, bytes: Vec<u8>, kind: EntryType) -> Result<String, Error> {
        let path = String::from_utf8(bytes).map_err(|error| {
            Error::path(&String::from_utf8_lossy(error.as_bytes()), "its name is not UTF-8")
        })?;
        let plain = match kind {
            EntryType::Directory => path.strip_suffix('/').unwrap_or(&path),
            _ => &path,
        };
        // `tar -C DIR -c .` writes the folder itself in front.
        if kind == EntryType::Directory && plain == "." {
            return Ok(plain.to_owned());
        }
        let bounds = path::Bounds { bytes: self.limits.path_bytes, depth: self.limits.path_depth };
        path::check(plain, &bounds).map_err(|rule| Error::path(&path, rule))?;
        Ok(plain.to_owned())
    }

    fn file<R: Read>(&mut self, path: String, entry: &mut tar::Entry<'_, R>) -> Result<(), Error> {
        let len = entry.header().entry_size().map_err(|e| self.broken(e))?;
        let mode = entry.header().mode().map_err(|e| self.broken(e))?;
        self.within_limits(&path, len)?;
        if mode & 0o7000 != 0 {
            return Err(Error::path(&path, "it would run as another user (setuid, setgid or sticky)"));
        }
        self.names.add_file(&path).map_err(|clash| Error::Clash {
            path: manifest::shown(&path),
            earlier: manifest::shown(&clash.earlier),
            rule: clash.rule,
        })?;
        let is_manifest = path == manifest::FILE_NAME;
        if is_manifest {
            self.manifest = Some(Vec::new());
        } else if path.ends_with("/pintle.yaml") && self.elsewhere.is_none() {
            self.elsewhere = Some(path.clone());
        }
        let mut file = BundleFile { path, executable: mode & 0o111 != 0, len, sha256: Digest::of(b"") };
        self.sink.begin(&file)?;
        file.sha256 = self.content(&file, is_manifest, entry)?;
        self.sink.end()?;
        self.files.push(file);
        Ok(())
    }

    fn within_limits(&mut self, path: &str, len: u64) -> Result<(), Error> {
        self.total = self.total.saturating_add(len);
        let of_file = if path == manifest::FILE_NAME { manifest::MOST_BYTES } else { self.limits.file_bytes };
        let counts = [
            ("bytes in one file", len, of_file),
            ("bytes in all files", self.total, self.limits.total_bytes),
            ("files", self.files.len() as u64 + 1, self.limits.files as u64),
        ];
        match counts.into_iter().find(|(_, got, most)| got > most) {
            Some((what, got, most)) => Err(limit(path, what, got, most)),
            None => Ok(()),
        }
    }

    fn content(&mut self, file: &BundleFile, keep: bool, entry: &mut impl Read) -> Result<Digest, Error> {
        let mut hash = Sha256::new();
        let mut left = file.len;
        let mut buffer = vec![0; 64 * 1024];
        while left > 0 {
            let got = entry.read(&mut buffer).map_err(|e| self.broken(e))?;
            if got == 0 {
                return Err(self.broken(io::ErrorKind::UnexpectedEof.into()));
            }
            let bytes = buffer.get(..got).unwrap_or_default();
            hash.update(bytes);
            self.sink.bytes(bytes)?;
            if let (true, Some(kept)) = (keep, &mut self.manifest) {
                kept.extend_from_slice(bytes);
            }
            left = left.saturating_sub(got as u64);
            self.unpacked = self.unpacked.saturating_add(got as u64);
            self.check_ratio(&file.path)?;
        }
        Ok(Digest::from_bytes(hash.finalize().into()))
    }

    /// A small archive may be very even; what counts is what a bomb needs, which is size.
    fn check_ratio(&self, path: &str) -> Result<(), Error> {
        const FREE: u64 = 16 * 1024 * 1024;
        let unpacked = self.unpacked;
        let packed = self.meter.taken();
        if packed > self.limits.archive_bytes {
            return Err(limit(path, "bytes of archive", packed, self.limits.archive_bytes));
        }
        if unpacked > FREE && unpacked / packed.max(1) > self.limits.ratio {
            let what = "unpacked bytes per byte of the archive";
            return Err(limit(path, what, unpacked / packed.max(1), self.limits.ratio));
        }
        Ok(())
    }

    /// After the last entry only zeros may come, and at least the second of the two end blocks.
    fn padding(&self, decoder: &mut impl Read) -> Result<(), Error> {
        let mut buffer = [0; 4096];
        let mut seen = 0;
        loop {
            let got = decoder.read(&mut buffer).map_err(|e| self.broken(e))?;
            if got == 0 && seen < 512 {
                return Err(self.broken(io::ErrorKind::UnexpectedEof.into()));
            }
            if got == 0 {
                return Ok(());
            }
            seen += got as u64;
            if seen > MOST_PADDING || buffer.iter().take(got).any(|byte| *byte != 0) {
                return Err(Error::TrailingBytes);
            }
        }
    }

    /// What a failed read means: the source failed, or these bytes are no bundle, or a damaged one.
    fn broken(&self, source: io::Error) -> Error {
        if self.meter.source_failed() {
            Error::Source(source)
        } else if self.files.is_empty() {
            Error::NoBundle(Some(source))
        } else {
            Error::Damaged { files: self.files.len(), source }
        }
    }
}

fn limit(path: &str, what: &'static str, got: u64, limit: u64) -> Error {
    Error::Limit { path: manifest::shown(path), what, got, limit }
}
