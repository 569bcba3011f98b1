//! One slot: a line that names the form and the checksum, then an encoded `PartUpdate` with all its
//! bodies. The wire's own form is used since releases N and N-1 read it both ways.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use domain::digest::{Digest, ListingHash};
use domain::plugin_set::Part;
use prost::Message as _;
use proto::convert::{self, PartContent};
use proto::v1;

use super::{Error, HeldPart, Verify, io, missing};

/// The form's name; another form gets another.
const FORM: &str = "pintle-ledger-v1 ";

/// Most bytes of a slot: what four messages of the wire bring, far above any part. A larger file is
/// not read into memory.
const SLOT_MAX: u64 = 64 * 1024 * 1024;

/// Reads a slot; `None` if there is no such file.
pub(super) fn read(path: &Path, part: Part, verify: &Verify) -> Result<Option<HeldPart>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io("open", path, source)),
    };
    let mut bytes = Vec::new();
    file.take(SLOT_MAX + 1).read_to_end(&mut bytes).map_err(|source| io("read", path, source))?;
    let fault = |reason: String| Error::Slot { path: path.to_owned(), reason };
    if bytes.len() as u64 > SLOT_MAX {
        return Err(fault(format!("it has more than {SLOT_MAX} bytes")));
    }
    decode(&bytes, part, verify).map(Some).map_err(fault)
}

/// Writes a slot.
pub(super) fn write(path: &Path, held: &HeldPart) -> Result<(), Error> {
    write_whole(path, &[&encode(held)])
}

/// Writes a file so that at every moment either the old or the new one is whole, on the disk. Blocks.
///
/// # Errors
/// The file system's; the old one is as it was.
pub(crate) fn write_whole(path: &Path, pieces: &[&[u8]]) -> Result<(), Error> {
    let temporary = path.with_extension("new");
    let written = File::create(&temporary).and_then(|mut file| {
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        file.sync_all()
    });
    if let Err(source) = written {
        // A full disk gets back what was written of it.
        let _ = fs::remove_file(&temporary);
        return Err(io("write", &temporary, source));
    }
    fs::rename(&temporary, path).map_err(|source| io("rename into place", path, source))?;
    let folder = path.parent().unwrap_or(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| io("sync", folder, source))
}

/// What a slot's file has in it.
pub(crate) fn encode(held: &HeldPart) -> Vec<u8> {
    let resources = held.content.bodies.values().cloned();
    let texts = held.texts.values().map(|text| Bytes::copy_from_slice(text.as_bytes()));
    let update = v1::PartUpdate {
        head: Some(held.signed.clone()),
        manifest: convert::manifest_entries(&held.content.manifest),
        bodies: resources.chain(texts).collect(),
    };
    let body = update.encode_to_vec();
    let mut bytes = format!("{FORM}{}\n", Digest::of(&body)).into_bytes();
    bytes.extend_from_slice(&body);
    bytes
}

/// Reads it back.
///
/// # Errors
/// What is wrong with it, for people.
pub(crate) fn decode(bytes: &[u8], part: Part, verify: &Verify) -> Result<HeldPart, String> {
    let line_end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it ends in its first line")?;
    let (line, body) = bytes.split_at(line_end);
    let body = body.get(1..).unwrap_or_default();
    let checksum = std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix(FORM));
    let checksum = checksum.ok_or("it is of another form")?;
    let digest = Digest::of(body).to_string();
    if digest != checksum {
        return Err(format!("its checksum is {digest}, and it says {checksum}"));
    }
    let update = v1::PartUpdate::decode(body).map_err(|error| error.to_string())?;
    let signed = update.head.ok_or("it has no head")?;
    let head = verify(&signed)?;
    if head.part != part {
        return Err(format!("it holds {}, expected {part}", head.part));
    }
    let manifest = convert::manifest(&update.manifest).map_err(|error| error.to_string())?;
    if manifest.digest() != head.digest {
        return Err(format!("its manifest's digest is {}, its head says {}", manifest.digest(), head.digest));
    }
    let (bodies, texts) = sort(update.bodies, &manifest.0.values().copied().collect::<Vec<_>>());
    let content = PartContent { manifest, bodies };
    let missing = missing(part, &content, &texts).len();
    if missing > 0 {
        return Err(format!("{missing} of its bodies are missing"));
    }
    Ok(HeldPart { head, signed, content, texts })
}

/// Resources that the manifest names, and texts.
fn sort(bodies: Vec<Bytes>, named: &[Digest]) -> (BTreeMap<Digest, Bytes>, BTreeMap<ListingHash, Arc<str>>) {
    let mut resources = BTreeMap::new();
    let mut texts = BTreeMap::new();
    let named: std::collections::BTreeSet<&Digest> = named.iter().collect();
    for body in bodies {
        let digest = Digest::of(&body);
        if named.contains(&digest) {
            resources.insert(digest, body);
        } else if let Ok(text) = std::str::from_utf8(&body) {
            texts.insert(ListingHash::from_digest(digest), text.into());
        }
    }
    (resources, texts)
}
