//! `TrustEntry`, the resource of `trust`: one version, its tools, their functions and origins.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::block::{Block, Target};
use domain::digest::ListingHash;
use domain::id::PluginVersion;
use domain::plugin_set::{FunctionTrust, OriginTrust, ToolTrust, VersionTrust};
use domain::time::Timestamp;

use super::fields::{at_most, digest, id, named, plugin_version, short, tool, twice, value};
use super::{BLOCKS_MAX, Error, FUNCTIONS_MAX, LIST_MAX, NAME_MAX};
use crate::v1;
use crate::v1::origin_trust::State;

impl From<(&PluginVersion, &VersionTrust)> for v1::TrustEntry {
    fn from((version, trust): (&PluginVersion, &VersionTrust)) -> Self {
        let tools = trust.tools.iter().map(|(tool, trust)| v1::ToolTrust {
            tool: tool.as_str().to_owned(),
            snapshot_taken: trust.snapshot_taken,
            functions: trust.functions.iter().map(function_entry).collect(),
            origin: trust.origin.as_ref().map(Into::into),
        });
        Self {
            plugin: version.plugin.as_str().to_owned(),
            version: version.version.to_string(),
            tools: tools.collect(),
            blocks: trust.blocks.iter().map(block_entry).collect(),
        }
    }
}

impl TryFrom<v1::TrustEntry> for (PluginVersion, VersionTrust) {
    type Error = Error;

    fn try_from(entry: v1::TrustEntry) -> Result<Self, Error> {
        let fields = ("TrustEntry.plugin", "TrustEntry.version");
        let version = plugin_version(fields, &entry.plugin, &entry.version)?;
        at_most("TrustEntry.tools", entry.tools.len(), LIST_MAX, "tools")?;
        let mut tools = BTreeMap::new();
        for trust in entry.tools {
            let id = tool("ToolTrust.tool", &trust.tool)?;
            if tools.insert(id, tool_trust(&trust)?).is_some() {
                return Err(twice("ToolTrust.tool", &trust.tool));
            }
        }
        at_most("TrustEntry.blocks", entry.blocks.len(), BLOCKS_MAX, "blocks")?;
        let mut blocks = BTreeMap::new();
        for entry in &entry.blocks {
            if blocks.insert(named("Block.id", &entry.id)?, block(entry)?).is_some() {
                return Err(twice("Block.id", &entry.id));
            }
        }
        Ok((version, VersionTrust { tools, blocks }))
    }
}

fn block(entry: &v1::Block) -> Result<Block, Error> {
    Ok(Block {
        target: id("Block.target", Target::parse(&entry.target))?,
        is_fleet_wide: entry.fleet_wide,
        reason: short("Block.reason", &entry.reason)?,
        by: named("Block.blocked_by", &entry.blocked_by)?,
        at: Timestamp::from_millis(entry.blocked_at_ms),
    })
}

fn block_entry((id, block): (&Arc<str>, &Block)) -> v1::Block {
    v1::Block {
        id: id.as_ref().to_owned(),
        target: block.target.to_string(),
        fleet_wide: block.is_fleet_wide,
        reason: block.reason.as_ref().to_owned(),
        blocked_by: block.by.as_ref().to_owned(),
        blocked_at_ms: block.at.as_millis(),
    }
}

fn tool_trust(trust: &v1::ToolTrust) -> Result<ToolTrust, Error> {
    at_most("ToolTrust.functions", trust.functions.len(), FUNCTIONS_MAX, "functions")?;
    let mut functions = BTreeMap::new();
    for entry in &trust.functions {
        let name = named("FunctionTrust.name", &entry.name)?;
        let hash = ListingHash::from_digest(digest("FunctionTrust.hash", &entry.hash)?);
        if functions.insert(name, FunctionTrust { hash, rank: entry.rank }).is_some() {
            return Err(twice("FunctionTrust.name", &entry.name));
        }
    }
    let origin = trust.origin.as_ref().map(OriginTrust::try_from).transpose()?;
    Ok(ToolTrust { snapshot_taken: trust.snapshot_taken, functions, origin })
}

fn function_entry((name, trust): (&Arc<str>, &FunctionTrust)) -> v1::FunctionTrust {
    v1::FunctionTrust {
        name: name.as_ref().to_owned(),
        hash: trust.hash.digest().as_bytes().to_vec(),
        rank: trust.rank,
    }
}

impl From<&OriginTrust> for v1::OriginTrust {
    fn from(trust: &OriginTrust) -> Self {
        let mut wire = Self::default();
        match trust {
            OriginTrust::Pinned { origin, address_class } => {
                wire.set_state(State::Pinned);
                origin.as_ref().clone_into(&mut wire.origin);
                address_class.as_deref().unwrap_or_default().clone_into(&mut wire.address_class);
            }
            OriginTrust::Moved { origin, earlier } => {
                wire.set_state(State::Moved);
                origin.as_ref().clone_into(&mut wire.origin);
                wire.earlier = earlier.iter().map(|origin| origin.as_ref().to_owned()).collect();
            }
            OriginTrust::New { origin } => {
                wire.set_state(State::New);
                origin.as_ref().clone_into(&mut wire.origin);
            }
            OriginTrust::Connection => wire.set_state(State::Connection),
        }
        wire
    }
}

impl TryFrom<&v1::OriginTrust> for OriginTrust {
    type Error = Error;

    fn try_from(wire: &v1::OriginTrust) -> Result<Self, Error> {
        let origin = || named("OriginTrust.origin", &wire.origin);
        match State::try_from(wire.state) {
            Ok(State::Pinned) => {
                let class = short("OriginTrust.address_class", &wire.address_class)?;
                Ok(Self::Pinned { origin: origin()?, address_class: (!class.is_empty()).then_some(class) })
            }
            Ok(State::Moved) => {
                at_most("OriginTrust.earlier", wire.earlier.len(), NAME_MAX, "origins")?;
                let earlier = wire.earlier.iter().map(|origin| named("OriginTrust.earlier", origin));
                Ok(Self::Moved { origin: origin()?, earlier: earlier.collect::<Result<_, _>>()? })
            }
            Ok(State::New) => Ok(Self::New { origin: origin()? }),
            Ok(State::Connection) => Ok(Self::Connection),
            Ok(State::Unspecified) | Err(_) => {
                Err(value("OriginTrust.state", &wire.state.to_string(), "pinned, moved, new or connection"))
            }
        }
    }
}
