//! What the node holds durably: per part of its plugin set the signed head, the manifest, the bodies
//! and the texts of listings that `trust` names.
//!
//! Each part has two slots, written in turn: a temporary file, synced, renamed, and its folder synced.
//! A slot that is torn or cannot be read leaves the other. What is read here is *not* gone by until the
//! control plane confirmed it in this boot (30-nodes, 2); the link decides that.

pub(crate) mod slot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use domain::digest::{Digest, ListingHash};
use domain::plugin_set::{Head, Part, Trust};
use proto::convert::{Content, MESSAGE_MAX, PartContent, manifest_entries};
use proto::v1;

pub(crate) use slot::write_whole;

/// Believes a signed head, or says why not.
pub(crate) type Verify = dyn Fn(&v1::SignedHead) -> Result<Head, String> + Send + Sync;

/// One part, whole: every body that its manifest names is here.
#[derive(Clone, Debug)]
pub(crate) struct HeldPart {
    /// What was signed.
    pub(crate) head: Head,
    /// As it was signed.
    pub(crate) signed: v1::SignedHead,
    /// Manifest and resources.
    pub(crate) content: PartContent,
    /// Canonical texts that `trust` names; empty for other parts.
    pub(crate) texts: BTreeMap<ListingHash, Arc<str>>,
}

/// Why something cannot be read from the ledger or written to it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file system said no.
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
    /// A slot is not what was written.
    #[error("read the slot `{}`: {reason}", .path.display())]
    Slot {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The ledger's folder. One owner.
#[derive(Debug)]
pub(crate) struct Ledger {
    folder: PathBuf,
    turns: Turns,
}

/// The slot of each part to be written next, 0 or 1: never the one with the newest.
#[derive(Debug, Default)]
pub(crate) struct Turns(BTreeMap<Part, usize>);

/// What was found when the ledger was opened.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The newest whole slot of each part.
    pub(crate) parts: BTreeMap<Part, HeldPart>,
    /// What could not be read, for the log.
    pub(crate) faults: Vec<Error>,
}

impl Ledger {
    /// Opens the folder, which is made if it is not there, and reads both slots of each part. Blocks.
    ///
    /// # Errors
    /// Only where the folder cannot be made: what cannot be read is a fault of its own, and its part is
    /// taken for not held.
    pub(crate) fn open(folder: &Path, verify: &Verify) -> Result<(Self, Found), Error> {
        std::fs::create_dir_all(folder).map_err(|source| io("make the folder", folder, source))?;
        let mut found = Found::default();
        let mut turns = Turns::default();
        for part in Part::ALL {
            let slots = [0, 1].map(|index| slot::read(&path(folder, part, index), part, verify));
            found.take(part, slots, &mut turns);
        }
        Ok((Self { folder: folder.to_owned(), turns }, found))
    }

    /// Makes a part durable, in place of the older of its two slots. Blocks until it is on the disk.
    ///
    /// # Errors
    /// The file system's; the newer slot is as it was.
    pub(crate) fn store(&mut self, held: &HeldPart) -> Result<(), Error> {
        let part = held.head.part;
        slot::write(&path(&self.folder, part, self.turns.next(part)), held)?;
        self.turns.written(part);
        Ok(())
    }
}

impl Turns {
    /// The slot to write.
    pub(crate) fn next(&self, part: Part) -> usize {
        self.0.get(&part).copied().unwrap_or(0)
    }

    /// It was written, durably.
    pub(crate) fn written(&mut self, part: Part) {
        let next = self.next(part);
        self.0.insert(part, 1 - next);
    }
}

impl Found {
    /// Takes the newer of a part's slots; the other is written next. What cannot be read is a fault.
    pub(crate) fn take(
        &mut self,
        part: Part,
        slots: [Result<Option<HeldPart>, Error>; 2],
        turns: &mut Turns,
    ) {
        let mut newest: Option<(usize, HeldPart)> = None;
        for (index, slot) in slots.into_iter().enumerate() {
            match slot {
                Ok(Some(held)) => {
                    let newer =
                        newest.as_ref().is_none_or(|(_, other)| other.head.position < held.head.position);
                    if newer {
                        newest = Some((index, held));
                    }
                }
                Ok(None) => {}
                Err(fault) => self.faults.push(fault),
            }
        }
        if let Some((index, held)) = newest {
            turns.0.insert(part, 1 - index);
            self.parts.insert(part, held);
        }
    }
}

impl HeldPart {
    /// The whole as a message, with the texts that fit into one.
    pub(crate) fn as_update(&self) -> v1::PartUpdate {
        let resources = self.content.bodies.values().cloned();
        let mut bodies: Vec<Bytes> = resources.collect();
        let mut left = MESSAGE_MAX / 2;
        for text in self.texts.values() {
            let Some(rest) = left.checked_sub(text.len()) else { break };
            left = rest;
            bodies.push(Bytes::copy_from_slice(text.as_bytes()));
        }
        let manifest = manifest_entries(&self.content.manifest);
        v1::PartUpdate { head: Some(self.signed.clone()), manifest, bodies }
    }

    /// What it says. Resources that cannot be read are left out of it.
    pub(crate) fn read(&self) -> Content {
        self.content.read(self.head.part).0
    }
}

/// The texts of listings that `trust` names.
pub(crate) fn listing_hashes(trust: &Trust) -> BTreeSet<ListingHash> {
    let tools = trust.versions.values().flat_map(|version| version.tools.values());
    tools.flat_map(|tool| tool.functions.values()).map(|function| function.hash).collect()
}

/// What of a part is not there: resources, and then texts of listings.
pub(crate) fn missing(
    part: Part,
    content: &PartContent,
    texts: &BTreeMap<ListingHash, Arc<str>>,
) -> BTreeSet<Digest> {
    let mut missing: BTreeSet<Digest> = content.missing().into_iter().collect();
    if part == Part::Trust
        && let (Content::Trust(trust), _) = content.read(part)
    {
        let hashes = listing_hashes(&trust);
        let lacking = hashes.iter().filter(|hash| !texts.contains_key(hash));
        missing.extend(lacking.map(ListingHash::digest));
    }
    missing
}

fn path(folder: &Path, part: Part, index: usize) -> PathBuf {
    folder.join(format!("{part}.{index}"))
}

fn io(verb: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { verb, path: path.to_owned(), source: crate::disk::explained(path, source) }
}
