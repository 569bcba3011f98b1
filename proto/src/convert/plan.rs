//! `PlanEntry` and `GrantEntry`, the resources of `plan` and `grants`.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::id::{PluginName, PluginVersion};
use domain::plugin_set::{
    Grant, GrantUse, Kind, PlannedConnection, PlannedPlugin, PlannedTool, PlannedVersion,
};

use super::fields::{at_most, cut, digest, id, named, plugin_version, short, tool, twice, value};
use super::{Error, LIST_MAX, NAME_MAX};
use crate::v1;

/// Most bytes of a tool's URL: what servers and proxies take in a request line.
const URL_MAX: usize = 8 * 1024;

impl From<(&PluginName, &PlannedPlugin)> for v1::PlanEntry {
    fn from((plugin, planned): (&PluginName, &PlannedPlugin)) -> Self {
        let candidate = planned.candidate.as_ref();
        Self {
            plugin: plugin.as_str().to_owned(),
            installed: planned.installed.as_ref().map(Into::into),
            candidate: candidate.map(|(_, version)| version.into()),
            candidate_source: candidate.map_or("", |(source, _)| cut(source, NAME_MAX)).to_owned(),
        }
    }
}

impl TryFrom<v1::PlanEntry> for (PluginName, PlannedPlugin) {
    type Error = Error;

    fn try_from(entry: v1::PlanEntry) -> Result<Self, Error> {
        let plugin = id("PlanEntry.plugin", PluginName::parse(&entry.plugin))?;
        let read = |version: &v1::PlannedVersion| planned_version(&plugin, version);
        let installed = entry.installed.as_ref().map(read).transpose()?;
        let candidate = match entry.candidate.as_ref().map(read).transpose()? {
            None => None,
            Some(version) => Some((named("PlanEntry.candidate_source", &entry.candidate_source)?, version)),
        };
        Ok((plugin, PlannedPlugin { installed, candidate }))
    }
}

impl From<&PlannedVersion> for v1::PlannedVersion {
    fn from(planned: &PlannedVersion) -> Self {
        let tools = planned.tools.iter().map(|(tool, planned)| v1::PlannedTool {
            tool: tool.as_str().to_owned(),
            kind: planned.kind.as_str().to_owned(),
            url: planned.url.as_deref().unwrap_or_default().to_owned(),
            connection: planned.connection.as_ref().map(connection_out),
        });
        Self {
            version: planned.version.version.to_string(),
            content_digest: planned.content_digest.as_bytes().to_vec(),
            archive_sha256: planned.archive_sha256.as_bytes().to_vec(),
            archive_length: planned.archive_length,
            tools: tools.collect(),
        }
    }
}

fn planned_version(plugin: &PluginName, wire: &v1::PlannedVersion) -> Result<PlannedVersion, Error> {
    let version =
        plugin_version(("PlanEntry.plugin", "PlannedVersion.version"), plugin.as_str(), &wire.version)?;
    at_most("PlannedVersion.tools", wire.tools.len(), LIST_MAX, "tools")?;
    let mut tools = BTreeMap::new();
    for planned in &wire.tools {
        let id = tool("PlannedTool.tool", &planned.tool)?;
        at_most("PlannedTool.url", planned.url.len(), URL_MAX, "bytes")?;
        let kind = Kind::parse(&planned.kind).ok_or_else(|| {
            value("PlannedTool.kind", &planned.kind, "a kind of tool that this version knows")
        })?;
        let url = (!planned.url.is_empty()).then(|| planned.url.as_str().into());
        let connection = planned.connection.as_ref().map(connection_in).transpose()?;
        if tools.insert(id, PlannedTool { kind, url, connection }).is_some() {
            return Err(twice("PlannedTool.tool", &planned.tool));
        }
    }
    Ok(PlannedVersion {
        version,
        content_digest: digest("PlannedVersion.content_digest", &wire.content_digest)?,
        archive_sha256: digest("PlannedVersion.archive_sha256", &wire.archive_sha256)?,
        archive_length: wire.archive_length,
        tools,
    })
}

fn connection_out(connection: &PlannedConnection) -> v1::PlannedConnection {
    let param = |(name, value): (&Arc<str>, &Arc<str>)| v1::Param {
        name: name.as_ref().to_owned(),
        value: value.as_ref().to_owned(),
    };
    v1::PlannedConnection {
        name: connection.name.as_ref().to_owned(),
        version: connection.version,
        params: connection.params.iter().map(param).collect(),
        problem: connection.problem.as_deref().unwrap_or_default().to_owned(),
    }
}

fn connection_in(wire: &v1::PlannedConnection) -> Result<PlannedConnection, Error> {
    at_most("PlannedConnection.params", wire.params.len(), LIST_MAX, "parameters")?;
    let mut params = BTreeMap::new();
    for param in &wire.params {
        let name = short("Param.name", &param.name)?;
        if params.insert(name, short("Param.value", &param.value)?).is_some() {
            return Err(twice("Param.name", &param.name));
        }
    }
    at_most("PlannedConnection.problem", wire.problem.len(), URL_MAX, "bytes")?;
    Ok(PlannedConnection {
        name: short("PlannedConnection.name", &wire.name)?,
        version: wire.version,
        params,
        problem: (!wire.problem.is_empty()).then(|| wire.problem.as_str().into()),
    })
}

impl From<(&PluginName, &Grant)> for v1::GrantEntry {
    fn from((plugin, grant): (&PluginName, &Grant)) -> Self {
        let usage = match grant.usage {
            GrantUse::Serve => "serve",
            GrantUse::Gate => "gate",
        };
        Self {
            plugin: plugin.as_str().to_owned(),
            source: cut(&grant.source, NAME_MAX).to_owned(),
            version: grant.version.version.to_string(),
            r#use: usage.to_owned(),
        }
    }
}

impl TryFrom<v1::GrantEntry> for (PluginName, Grant) {
    type Error = Error;

    fn try_from(entry: v1::GrantEntry) -> Result<Self, Error> {
        let fields = ("GrantEntry.plugin", "GrantEntry.version");
        let version: PluginVersion = plugin_version(fields, &entry.plugin, &entry.version)?;
        let usage = match entry.r#use.as_str() {
            "serve" => GrantUse::Serve,
            "gate" => GrantUse::Gate,
            other => return Err(value("GrantEntry.use", other, "serve or gate")),
        };
        let source = named("GrantEntry.source", &entry.source)?;
        Ok((version.plugin.clone(), Grant { source, version, usage }))
    }
}
