//! From the manifest of an installed version to what a tool is started from.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::connection::fill_url;
use domain::id::{PluginVersion, ToolId};
use domain::listing::MetaPointer;
use domain::origin::{AddressClass, ClassPolicy, ShownUrl, parse_tool_url};
use domain::plugin_set::{self, OriginTrust, PlannedConnection, Policy, Trust};
use plugin::manifest::{self, Manifest, Permissions, Place, Transport, expand};
use tools::{
    AddressRule, CommandSpec, Confinement, Headers, Limits, Offers, Opening, ProcessLimits, ToolSpec, UrlSpec,
};

use super::opening::Memory;
use crate::credentials::Credentials;
use crate::gateway::CallLimits;

/// Settings of the node that its tools live under.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `PATH` of tools that are processes.
    pub(crate) path: String,
    /// What tools are told that agents can be asked for.
    pub(crate) offers: Offers,
    /// What is waited for and read of tools, where the manifest says nothing else.
    pub(crate) limits: Limits,
    /// What they are reached with.
    pub(crate) credentials: Credentials,
    /// How remote tools are reached.
    pub(crate) egress: crate::node::Egress,
    /// What starts the tools' shims.
    pub(crate) shim: Option<PathBuf>,
    /// The node's own listeners, which no remote tool is.
    pub(crate) listeners: Vec<SocketAddr>,
    /// Working folders of tools are made below it.
    pub(crate) work: PathBuf,
    /// Logs of tools are kept below it.
    pub(crate) logs: PathBuf,
}

/// An installed version, as its verified manifest says.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    pub(crate) version: PluginVersion,
    pub(crate) folder: PathBuf,
    pub(crate) manifest: Arc<Manifest>,
}

impl Bundle {
    /// Kind and origin of each tool. An origin that cannot be read is that of no pin.
    pub(crate) fn tools(&self) -> impl Iterator<Item = (&ToolId, plugin_set::Kind, Option<Arc<str>>)> {
        self.manifest.tools.iter().map(|(id, spec)| {
            let origin = match spec {
                manifest::ToolSpec::Url { url, allow_http, .. } => {
                    let parsed = parse_tool_url(url, *allow_http);
                    let origin = parsed.map_or_else(
                        |_| ShownUrl::from(url.as_str()).to_string(),
                        |parsed| parsed.origin.to_string(),
                    );
                    Some(origin.into())
                }
                _ => None,
            };
            (id, kind(spec.kind()), origin)
        })
    }

    /// Whether the tool is at a URL.
    pub(crate) fn is_remote(&self, tool: &ToolId) -> bool {
        matches!(self.manifest.tools.get(tool), Some(manifest::ToolSpec::Url { .. }))
    }

    /// The connection that the tool is reached with.
    pub(crate) fn connection(&self, tool: &ToolId) -> Option<&str> {
        match self.manifest.tools.get(tool) {
            Some(manifest::ToolSpec::Url { connection, .. }) => connection.as_deref(),
            _ => None,
        }
    }

    /// Members of `_meta` that do not count for this tool.
    pub(crate) fn ignored(&self, tool: &ToolId) -> Vec<MetaPointer> {
        let pointers = self.manifest.listing_ignore.get(tool).into_iter().flatten();
        pointers.filter_map(|pointer| MetaPointer::parse(pointer).ok()).collect()
    }

    /// What the tool is started from.
    ///
    /// # Errors
    /// A sentence for people.
    pub(crate) fn spec(
        &self,
        tool: &ToolId,
        (settings, connection): (&Settings, Option<&PlannedConnection>),
        trust: &Trust,
        policy: &Policy,
    ) -> Result<ToolSpec, String> {
        match self.manifest.tools.get(tool) {
            Some(manifest::ToolSpec::Command { command, env }) => {
                let work = self.work_folder(tool, &settings.work)?;
                let place = Place { plugin: text(&self.folder)?, work: text(&work)? };
                Ok(ToolSpec::Command(CommandSpec {
                    command: command.iter().map(|word| expand(word, place)).collect(),
                    env: env.iter().map(|(name, value)| (name.clone(), expand(value, place))).collect(),
                    work_dir: work.clone(),
                    path: settings.path.clone(),
                    shim: settings.shim.clone(),
                    log: Some(self.log(tool, &settings.logs)),
                    process: self.process(tool, policy),
                    confine: self
                        .manifest
                        .permissions
                        .get(tool)
                        .map(|it| confinement(it, place, settings, command)),
                    offers: settings.offers,
                    opening: Opening::Probe,
                    limits: self.limits(tool, settings),
                }))
            }
            Some(manifest::ToolSpec::Url { url, allow_http, transport, .. }) => {
                let value = |name: &str| connection.and_then(|it| it.params.get(name)).map(AsRef::as_ref);
                let parsed = fill_url(url, *allow_http, value).map_err(|fault| fault.to_string())?;
                Ok(ToolSpec::Url(UrlSpec {
                    url: parsed.url,
                    headers: Headers::default(),
                    addresses: self.addresses(tool, settings, trust, policy),
                    resolve: settings.egress.resolve.clone(),
                    extra_ca: settings.egress.extra_ca.iter().map(|(_, pem)| pem.clone()).collect(),
                    proxy: settings.egress.proxy(),
                    offers: settings.offers,
                    opening: match transport {
                        Transport::Http => Opening::Probe,
                        Transport::Sse => Opening::Older,
                    },
                    limits: self.limits(tool, settings),
                }))
            }
            Some(other) => {
                Err(format!("this version of the node does not run tools of kind {}", other.kind()))
            }
            None => Err(format!("the manifest of {} has no tool {tool}", self.version)),
        }
    }

    /// What is waited for and read of the tool.
    fn limits(&self, tool: &ToolId, settings: &Settings) -> Limits {
        let own = self.manifest.limits.get(tool).copied().unwrap_or_default();
        Limits { probe: own.probe.unwrap_or(settings.limits.probe), ..settings.limits }
    }

    /// What the manifest says of the tool's calls.
    pub(crate) fn calls(&self, tool: &ToolId) -> CallLimits {
        let own = self.manifest.limits.get(tool).copied().unwrap_or_default();
        CallLimits { calls: own.calls, deadline: own.deadline }
    }

    /// What the edge's policy allows each tool process, and no more than the manifest asks for.
    fn process(&self, tool: &ToolId, policy: &Policy) -> ProcessLimits {
        let most = policy.tool_limits;
        let own = self.manifest.limits.get(tool).copied().unwrap_or_default();
        let least = |own: Option<u64>, most: u64| Some(own.map_or(most, |own| own.min(most)));
        ProcessLimits {
            memory: least(own.memory, most.memory),
            files: least(own.files, most.files),
            processes: least(own.processes, most.processes),
        }
    }

    /// Which addresses the pin, once it knows, and the edge's policy allow.
    pub(crate) fn addresses(
        &self,
        tool: &ToolId,
        settings: &Settings,
        trust: &Trust,
        policy: &Policy,
    ) -> AddressRule {
        let trust = trust.versions.get(&self.version).and_then(|version| version.tools.get(tool));
        let class = match trust.and_then(|trust| trust.origin.as_ref()) {
            Some(OriginTrust::Pinned { address_class: Some(class), .. }) => Some(class),
            _ => None,
        };
        let classes = [AddressClass::Public, AddressClass::Private, AddressClass::Loopback];
        let allowed = policy.allow_private_addresses;
        AddressRule {
            pinned: class.and_then(|class| classes.into_iter().find(|one| one.name() == &**class)),
            policy: ClassPolicy { private: allowed, loopback: allowed },
            never: settings.listeners.clone(),
        }
    }

    /// The tool's own folder, made if it is not there. It outlives restarts and not the version.
    fn work_folder(&self, tool: &ToolId, below: &Path) -> Result<PathBuf, String> {
        let folder = below.join(self.version.to_string()).join(file_name(tool));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("make its folder {}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// How the tool was opened by an earlier start. Blocks.
    pub(super) fn opened(&self, tool: &ToolId, below: &Path) -> Memory {
        let url = match self.manifest.tools.get(tool) {
            Some(manifest::ToolSpec::Url { url, .. }) => url.as_str(),
            _ => "",
        };
        let name = format!("{}.opening", file_name(tool));
        Memory::read(below.join(self.version.to_string()).join(name), url)
    }

    /// Where the tool's log is kept. It outlives the version, until newer ones need the room.
    fn log(&self, tool: &ToolId, below: &Path) -> PathBuf {
        let folder = below.join(self.version.to_string());
        if !folder.exists() {
            make_room(below);
        }
        folder.join(format!("{}.log", file_name(tool)))
    }
}

/// What a tool may reach: what it declares, its plugin, its working folder, and what its program is started
/// from.
fn confinement(
    permissions: &Permissions,
    place: Place<'_>,
    settings: &Settings,
    command: &[String],
) -> Confinement {
    let paths = |paths: &[String]| -> Vec<PathBuf> {
        paths.iter().map(|path| PathBuf::from(expand(path, place))).collect()
    };
    let mut read = paths(&permissions.read);
    read.push(place.plugin.into());
    read.extend(
        command.first().map(|program| PathBuf::from(expand(program, place))).filter(|it| it.is_absolute()),
    );
    for folder in settings.path.split(':').filter(|folder| !folder.is_empty()) {
        // Run times live beside the folder that their programs are in.
        let folder = Path::new(folder);
        read.push(folder.to_owned());
        if let Some(prefix) = folder.parent().filter(|_| folder.ends_with("bin")) {
            read.extend(["lib", "lib64", "libexec", "share"].map(|name| prefix.join(name)));
        }
    }
    let mut write = paths(&permissions.write);
    write.push(place.work.into());
    let port = |net: &String| net.rsplit_once(':')?.1.parse().ok();
    Confinement { read, write, connect: permissions.net.iter().filter_map(port).collect() }
}

/// Removes the logs of the versions that were started longest ago.
fn make_room(logs: &Path) {
    /// Versions whose logs are kept: what a node runs, and some before that.
    const MOST: usize = 64;
    let entries = std::fs::read_dir(logs).into_iter().flatten().flatten();
    let mut folders: Vec<_> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    folders.sort();
    for (_, folder) in folders.iter().take((folders.len() + 1).saturating_sub(MOST)) {
        if let Err(error) = std::fs::remove_dir_all(folder) {
            tracing::warn!(path = %folder.display(), error = %error, "old logs cannot be removed");
        }
    }
}

/// Older bundles may have tool IDs that are no file names.
fn file_name(tool: &ToolId) -> String {
    tool.as_str().bytes().map(readable_byte).collect()
}

fn readable_byte(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str()
        .ok_or_else(|| format!("the node's data folder {} has a name that is no UTF-8", path.display()))
}

const fn kind(kind: manifest::Kind) -> plugin_set::Kind {
    match kind {
        manifest::Kind::Command => plugin_set::Kind::Command,
        manifest::Kind::Url => plugin_set::Kind::Url,
        manifest::Kind::Bash => plugin_set::Kind::Bash,
        manifest::Kind::Node => plugin_set::Kind::Node,
        manifest::Kind::Python => plugin_set::Kind::Python,
    }
}
