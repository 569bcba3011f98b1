//! Fields that several messages have in common: parts, digests, names, manifests, bounded text.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::digest::Digest;
use domain::id::{IdFault, PluginName, PluginVersion, ToolId};
use domain::plugin_set::{Manifest, Part, RESOURCES_MAX};

use super::{Error, LIST_MAX, NAME_MAX};
use crate::v1;

impl From<Part> for v1::Part {
    fn from(part: Part) -> Self {
        match part {
            Part::Trust => Self::Trust,
            Part::Plan => Self::Plan,
            Part::Policy => Self::Policy,
            Part::Grants => Self::Grants,
        }
    }
}

/// Reads a part's number.
///
/// # Errors
/// Names `field` when it is none of the four.
pub fn part(field: &'static str, number: i32) -> Result<Part, Error> {
    match v1::Part::try_from(number) {
        Ok(v1::Part::Trust) => Ok(Part::Trust),
        Ok(v1::Part::Plan) => Ok(Part::Plan),
        Ok(v1::Part::Policy) => Ok(Part::Policy),
        Ok(v1::Part::Grants) => Ok(Part::Grants),
        Ok(v1::Part::Unspecified) | Err(_) => Err(value(field, &number.to_string(), "one of the four parts")),
    }
}

/// Reads a list of digests, such as those of `Need` and `WantListings`.
///
/// # Errors
/// Names `field` when one is no digest or there are more than [`LIST_MAX`].
pub fn digests(field: &'static str, list: &[Vec<u8>]) -> Result<Vec<Digest>, Error> {
    at_most(field, list.len(), LIST_MAX, "digests")?;
    list.iter().map(|bytes| digest(field, bytes)).collect()
}

/// Reads a part's manifest.
///
/// # Errors
/// Names the entry that is no digest, stands twice or is one too many.
pub fn manifest(entries: &[v1::ManifestEntry]) -> Result<Manifest, Error> {
    at_most("PartUpdate.manifest", entries.len(), RESOURCES_MAX, "resources")?;
    let mut resources = BTreeMap::new();
    for entry in entries {
        at_most("ManifestEntry.name", entry.name.len(), NAME_MAX, "bytes")?;
        let digest = digest("ManifestEntry.digest", &entry.digest)?;
        if resources.insert(Arc::from(entry.name.as_str()), digest).is_some() {
            return Err(twice("ManifestEntry.name", &entry.name));
        }
    }
    Ok(Manifest(resources))
}

/// In byte order of the names.
pub fn manifest_entries(manifest: &Manifest) -> Vec<v1::ManifestEntry> {
    let entry = |(name, digest): (&Arc<str>, &Digest)| v1::ManifestEntry {
        name: name.as_ref().to_owned(),
        digest: digest.as_bytes().to_vec(),
    };
    manifest.0.iter().map(entry).collect()
}

pub(super) fn digest(field: &'static str, bytes: &[u8]) -> Result<Digest, Error> {
    Digest::from_slice(bytes).map_err(|source| Error::Digest { field, source })
}

pub(super) fn id<T>(field: &'static str, parsed: Result<T, IdFault>) -> Result<T, Error> {
    parsed.map_err(|source| Error::Id { field, source })
}

pub(super) fn tool(field: &'static str, text: &str) -> Result<ToolId, Error> {
    id(field, ToolId::parse(text))
}

/// A plugin's name and a version in two fields.
pub(super) fn plugin_version(
    fields: (&'static str, &'static str),
    plugin: &str,
    version: &str,
) -> Result<PluginVersion, Error> {
    let plugin = id(fields.0, PluginName::parse(plugin))?;
    let version =
        semver::Version::parse(version).map_err(|_| value(fields.1, version, "a SemVer version"))?;
    Ok(PluginVersion { plugin, version })
}

pub(super) fn at_most(field: &'static str, got: usize, most: usize, unit: &'static str) -> Result<(), Error> {
    if got > most { Err(Error::TooMany { field, got, most, unit }) } else { Ok(()) }
}

/// A name or address of at most [`NAME_MAX`] bytes.
pub(super) fn short(field: &'static str, text: &str) -> Result<Arc<str>, Error> {
    at_most(field, text.len(), NAME_MAX, "bytes")?;
    Ok(text.into())
}

/// As [`short`], and not empty.
pub(super) fn named(field: &'static str, text: &str) -> Result<Arc<str>, Error> {
    if text.is_empty() { Err(Error::Missing { field }) } else { short(field, text) }
}

/// The first `most` bytes of `text`, whole characters.
pub(super) fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

pub(super) fn value(field: &'static str, got: &str, expected: &'static str) -> Error {
    Error::Value { field, got: got.chars().take(100).flat_map(char::escape_debug).collect(), expected }
}

pub(super) fn twice(field: &'static str, name: &str) -> Error {
    Error::Twice { field, name: name.chars().take(100).flat_map(char::escape_debug).collect() }
}
