//! How a part is cut into resources: each a name, encoded bytes and their digest; the manifest lists
//! them.
//!
//! Names: `trust` NAME@VERSION, `plan` NAME, `policy` the word `policy`, `grants` NAME. The bytes of a
//! resource follow from its content alone (maps are in order, defaults are absent), so that every
//! replica gives one generation one digest. Texts of listings that `trust` names are no resources;
//! they are bodies whose digest is the listing hash's.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::digest::Digest;
use domain::id::{PluginName, PluginVersion};
use domain::plugin_set::{Grant, Grants, Manifest, Part, Plan, PlannedPlugin, Policy, Trust, VersionTrust};
use prost::Message as _;

use super::Error;
use crate::v1;

/// The name of the only resource of `policy`.
const POLICY: &str = "policy";

/// What a part says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Of the edge.
    Trust(Trust),
    /// Of the edge.
    Plan(Plan),
    /// Of the edge.
    Policy(Policy),
    /// Of the node.
    Grants(Grants),
}

impl Content {
    /// Which part says it.
    pub const fn part(&self) -> Part {
        match self {
            Self::Trust(_) => Part::Trust,
            Self::Plan(_) => Part::Plan,
            Self::Policy(_) => Part::Policy,
            Self::Grants(_) => Part::Grants,
        }
    }

    /// What a part says that has no resources.
    pub fn empty(part: Part) -> Self {
        match part {
            Part::Trust => Self::Trust(Trust::default()),
            Part::Plan => Self::Plan(Plan::default()),
            Part::Policy => Self::Policy(Policy::default()),
            Part::Grants => Self::Grants(Grants::default()),
        }
    }

    fn take(&mut self, resource: Resource) {
        match (self, resource) {
            (Self::Trust(trust), Resource::Trust(version, entry)) => {
                trust.versions.insert(version, entry);
            }
            (Self::Plan(plan), Resource::Plan(plugin, entry)) => {
                plan.plugins.insert(plugin, entry);
            }
            (Self::Policy(policy), Resource::Policy(entry)) => *policy = entry,
            (Self::Grants(grants), Resource::Grant(plugin, entry)) => {
                grants.plugins.insert(plugin, entry);
            }
            _ => {}
        }
    }
}

/// One resource of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Of `trust`.
    Trust(PluginVersion, Arc<VersionTrust>),
    /// Of `plan`.
    Plan(PluginName, Arc<PlannedPlugin>),
    /// Of `policy`.
    Policy(Policy),
    /// Of `grants`.
    Grant(PluginName, Grant),
}

impl Resource {
    /// Its name in the manifest.
    pub fn name(&self) -> Arc<str> {
        match self {
            Self::Trust(version, _) => version.to_string().into(),
            Self::Plan(plugin, _) | Self::Grant(plugin, _) => plugin.as_str().into(),
            Self::Policy(_) => POLICY.into(),
        }
    }
}

/// Encodes a resource: its name in the manifest, its bytes, and their digest.
pub fn encode_resource(resource: &Resource) -> (Arc<str>, Bytes, Digest) {
    let bytes = match resource {
        Resource::Trust(version, trust) => v1::TrustEntry::from((version, trust.as_ref())).encode_to_vec(),
        Resource::Plan(plugin, planned) => v1::PlanEntry::from((plugin, planned.as_ref())).encode_to_vec(),
        Resource::Policy(policy) => v1::PolicyEntry::from(policy).encode_to_vec(),
        Resource::Grant(plugin, grant) => v1::GrantEntry::from((plugin, grant)).encode_to_vec(),
    };
    let digest = Digest::of(&bytes);
    (resource.name(), bytes.into(), digest)
}

/// Reads the bytes of the resource that the manifest of `part` calls `name`.
///
/// # Errors
/// Names the field that is wrong, or both names when the content has another.
pub fn decode_resource(part: Part, name: &str, bytes: &[u8]) -> Result<Resource, Error> {
    let resource = match part {
        Part::Trust => {
            let (version, trust) = decode::<v1::TrustEntry>("TrustEntry", bytes)?.try_into()?;
            Resource::Trust(version, Arc::new(trust))
        }
        Part::Plan => {
            let (plugin, planned) = decode::<v1::PlanEntry>("PlanEntry", bytes)?.try_into()?;
            Resource::Plan(plugin, Arc::new(planned))
        }
        Part::Policy => Resource::Policy(decode::<v1::PolicyEntry>("PolicyEntry", bytes)?.try_into()?),
        Part::Grants => {
            let (plugin, grant) = decode::<v1::GrantEntry>("GrantEntry", bytes)?.try_into()?;
            Resource::Grant(plugin, grant)
        }
    };
    let own = resource.name();
    if own.as_ref() == name {
        Ok(resource)
    } else {
        Err(Error::Misnamed { part, name: name.to_owned(), own: own.as_ref().to_owned() })
    }
}

/// A part as it travels and is stored: the manifest, and the bodies of its resources.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PartContent {
    /// Name to digest.
    pub manifest: Manifest,
    /// Digest to encoded resource; may have more than the manifest names.
    pub bodies: BTreeMap<Digest, Bytes>,
}

/// A resource that could not be read; the others of its part were.
#[derive(Debug)]
pub struct Rejected {
    /// Its name in the manifest.
    pub name: Arc<str>,
    /// Its digest there.
    pub digest: Digest,
    /// What is wrong.
    pub error: Error,
}

impl From<&Content> for PartContent {
    fn from(content: &Content) -> Self {
        let mut part = Self::default();
        let mut take = |resource: &Resource| {
            let (name, bytes, digest) = encode_resource(resource);
            part.manifest.0.insert(name, digest);
            part.bodies.insert(digest, bytes);
        };
        match content {
            Content::Trust(trust) => {
                trust.versions.iter().for_each(|(v, t)| take(&Resource::Trust(v.clone(), Arc::clone(t))));
            }
            Content::Plan(plan) => {
                plan.plugins
                    .iter()
                    .for_each(|(p, planned)| take(&Resource::Plan(p.clone(), Arc::clone(planned))));
            }
            Content::Policy(policy) => take(&Resource::Policy(policy.clone())),
            Content::Grants(grants) => {
                grants.plugins.iter().for_each(|(p, g)| take(&Resource::Grant(p.clone(), g.clone())));
            }
        }
        part
    }
}

impl PartContent {
    /// Digests that the manifest names and `bodies` lacks, each once.
    pub fn missing(&self) -> Vec<Digest> {
        let mut missing: Vec<Digest> =
            self.manifest.0.values().filter(|digest| !self.bodies.contains_key(digest)).copied().collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Reads every resource that can be read; the rest are named with what is wrong.
    pub fn read(&self, part: Part) -> (Content, Vec<Rejected>) {
        let mut content = Content::empty(part);
        let mut rejected = Vec::new();
        for (name, digest) in &self.manifest.0 {
            let resource = match self.bodies.get(digest) {
                Some(bytes) => decode_resource(part, name, bytes),
                None => Err(Error::NoBody { part, name: name.as_ref().to_owned(), digest: *digest }),
            };
            match resource {
                Ok(resource) => content.take(resource),
                Err(error) => rejected.push(Rejected { name: Arc::clone(name), digest: *digest, error }),
            }
        }
        (content, rejected)
    }
}

fn decode<M: prost::Message + Default>(message: &'static str, bytes: &[u8]) -> Result<M, Error> {
    M::decode(bytes).map_err(|source| Error::Decode { message, source })
}
