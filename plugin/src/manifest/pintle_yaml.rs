//! Reads `pintle.yaml`, the native manifest.
//!
//! Tools are read in [`tool`], remote URLs in [`url`]; this file reads what stands around them.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::id::{PluginName, ToolId};

use super::fault::{Faults, did_you_mean, shown};
use super::reader::{At, Fields};
use super::{
    Category, Connection, FILE_NAME, MOST_BYTES, Manifest, ManifestFault, Param, Permissions, ToolLimits,
    yaml,
};
use crate::bundle::path;

mod tool;
mod url;

/// Characters of a description: it is one line of a list, a README holds the rest.
const MOST_DESCRIPTION: usize = 2_000;

/// Which rules tool IDs are held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// All of today's.
    New,
    /// None that may have come after the bundle was accepted.
    Accepted,
}

/// Reads the whole manifest and collects every fault.
pub(super) fn read(text: &str, ids: Ids) -> Result<Manifest, Vec<ManifestFault>> {
    let mut faults = Faults::new(FILE_NAME);
    if text.len() as u64 > MOST_BYTES {
        let what = format!("{} bytes, more than the {MOST_BYTES} that a manifest may have", text.len());
        faults.add(0, "", what, "move data to files of the plugin");
        return Err(faults.into_list());
    }
    let Some(root) = yaml::parse(text, &mut faults) else {
        if faults.is_empty() {
            faults.add(0, "", "the file is empty", "write at least `name`, `version` and `tools`");
        }
        return Err(faults.into_list());
    };
    let top = At { node: &root, path: String::new() };
    let manifest = manifest(&top, ids, &mut faults);
    match (manifest, faults.is_empty()) {
        (Some(manifest), true) => Ok(manifest),
        _ => Err(faults.into_list()),
    }
}

const FIELDS: [&str; 10] = [
    "name",
    "version",
    "description",
    "tools",
    "permissions",
    "limits",
    "listing",
    "connections",
    "evals",
    "config_keys",
];

fn manifest(top: &At<'_>, ids: Ids, faults: &mut Faults) -> Option<Manifest> {
    let fields = top.fields(&FIELDS, faults);
    let name = name(top, &fields, faults);
    let version = version(top, &fields, faults);
    let connections = fields.get("connections").map(|at| connections(at, faults)).unwrap_or_default();
    let (tools, named) = tool::read_all(top, fields.get("tools"), ids, &connections, faults);
    // Tools that were named but not understood are no reason to complain of what refers to them.
    let known = Tools { named: &named };
    let permissions = fields.get("permissions").map(|at| permissions(at, &known, faults)).unwrap_or_default();
    let limits = fields.get("limits").map(|at| limits(at, &known, faults)).unwrap_or_default();
    let listing_ignore = fields.get("listing").map(|at| listing(at, &known, faults)).unwrap_or_default();
    let config_keys = fields.get("config_keys").map(|at| config_keys(at, faults)).unwrap_or_default();
    Some(Manifest {
        description: description(&fields, faults),
        evals: fields.get("evals").and_then(|at| inside(at, faults)),
        name: name?,
        version: version?,
        tools,
        permissions,
        limits,
        listing_ignore,
        connections,
        config_keys,
    })
}

/// The tool IDs that the manifest names, for what refers to them.
struct Tools<'a> {
    named: &'a [&'a str],
}

impl Tools<'_> {
    /// `key` as the ID of a tool of this manifest.
    fn find(&self, key: &str, line: usize, at: &str, faults: &mut Faults) -> Option<ToolId> {
        if self.named.contains(&key) {
            return ToolId::parse(key).ok();
        }
        let what = format!("the plugin has no tool `{}`", shown(key));
        faults.add(line, at, what, did_you_mean(key, self.named.iter().copied()));
        None
    }
}

fn name(top: &At<'_>, fields: &Fields<'_>, faults: &mut Faults) -> Option<PluginName> {
    let Some(at) = fields.get("name") else {
        faults.add(top.line(), "name", "the plugin has no name", "add `name: my-plugin`");
        return None;
    };
    let text = at.text(faults)?;
    PluginName::parse(text)
        .map_err(|fault| {
            let what = format!("`{}` cannot be {}", fault.got, fault.kind);
            faults.add(at.line(), &at.path, what, format!("use {}", fault.rule));
        })
        .ok()
}

fn version(top: &At<'_>, fields: &Fields<'_>, faults: &mut Faults) -> Option<semver::Version> {
    let Some(at) = fields.get("version") else {
        faults.add(top.line(), "version", "the plugin has no version", "add `version: 0.1.0`");
        return None;
    };
    let text = at.text(faults)?;
    if text.len() > 64 {
        // A version is part of file names and of table columns that people read.
        faults.add(at.line(), &at.path, "a version of more than 64 characters", "shorten it");
        return None;
    }
    semver::Version::parse(text)
        .map_err(|fault| {
            let what = format!("`{}` is no SemVer version ({fault})", shown(text));
            faults.add(at.line(), &at.path, what, "write three numbers, such as 1.4.0");
        })
        .ok()
}

fn description(fields: &Fields<'_>, faults: &mut Faults) -> String {
    let Some(at) = fields.get("description") else { return String::new() };
    let text = at.text(faults).unwrap_or_default();
    if text.chars().count() > MOST_DESCRIPTION {
        let what = format!("more than {MOST_DESCRIPTION} characters");
        faults.add(at.line(), &at.path, what, "keep the description short; a README holds the rest");
    }
    text.trim_end().to_owned()
}

fn permissions(at: &At<'_>, tools: &Tools<'_>, faults: &mut Faults) -> BTreeMap<ToolId, Permissions> {
    let mut all = BTreeMap::new();
    for (key, line, at) in at.members(faults) {
        let id = tools.find(key, line, &at.path, faults);
        let fields = at.fields(&["read", "write", "net", "category"], faults);
        let read = fields.get("read").map(|at| paths(at, faults)).unwrap_or_default();
        let write = fields.get("write").map(|at| paths(at, faults)).unwrap_or_default();
        let net = fields.get("net").map(|at| hosts(at, faults)).unwrap_or_default();
        let category = fields.get("category").and_then(|at| at.word(&Category::WORDS, faults));
        if let Some(id) = id {
            all.insert(id, Permissions { read, write, net, category });
        }
    }
    all
}

fn limits(at: &At<'_>, tools: &Tools<'_>, faults: &mut Faults) -> BTreeMap<ToolId, ToolLimits> {
    /// What an interpreter needs to start.
    const LEAST: (u64, u64, u64) = (16 << 20, 16, 1);
    let mut all = BTreeMap::new();
    for (key, line, at) in at.members(faults) {
        let id = tools.find(key, line, &at.path, faults);
        let known = ["memory", "files", "processes", "calls", "deadline", "probe"];
        let fields = at.fields(&known, faults);
        let memory = fields.get("memory").and_then(|at| amount(at, LEAST.0, "a size such as 512MiB", faults));
        let files = fields.get("files").and_then(|at| amount(at, LEAST.1, "a number", faults));
        let processes = fields.get("processes").and_then(|at| amount(at, LEAST.2, "a number", faults));
        let calls = fields.get("calls").and_then(|at| amount(at, 1, "a number", faults));
        let calls = calls.and_then(|calls| usize::try_from(calls).ok());
        let deadline = fields.get("deadline").and_then(|at| time(at, Duration::from_secs(1), faults));
        let probe = fields.get("probe").and_then(|at| time(at, Duration::from_millis(10), faults));
        if let Some(id) = id {
            all.insert(id, ToolLimits { memory, files, processes, calls, deadline, probe });
        }
    }
    all
}

/// A number, with a binary unit or without.
fn amount(at: &At<'_>, least: u64, what: &str, faults: &mut Faults) -> Option<u64> {
    const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];
    let text = at.text(faults)?;
    let unit = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?.trim_end(), size)));
    let count = unit.and_then(|(count, size)| count.parse::<u64>().ok()?.checked_mul(*size));
    let found = count.filter(|count| *count >= least);
    if found.is_none() {
        let got = format!("`{}` is not {what}, {least} or more", shown(text));
        faults.add(at.line(), &at.path, got, format!("write {what}"));
    }
    found
}

/// A time up to an hour, with its unit.
fn time(at: &At<'_>, least: Duration, faults: &mut Faults) -> Option<Duration> {
    const UNITS: [(&str, u64); 3] = [("ms", 1), ("s", 1_000), ("m", 60_000)];
    const MOST: Duration = Duration::from_hours(1);
    let text = at.text(faults)?;
    let unit = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?.trim_end(), size)));
    let time = unit.and_then(|(count, size)| count.parse::<u64>().ok()?.checked_mul(*size));
    let found = time.map(Duration::from_millis).filter(|time| (least..=MOST).contains(time));
    if found.is_none() {
        let got = format!("`{}` is not a time of {least:?} to an hour", shown(text));
        faults.add(at.line(), &at.path, got, "write a time such as 500ms, 30s or 5m");
    }
    found
}

/// Paths of permissions: absolute, or under one of the two folders, without steps upwards.
fn paths(at: &At<'_>, faults: &mut Faults) -> Vec<String> {
    let mut found = Vec::new();
    for item in at.list(faults) {
        let Some(text) = item.text(faults) else { continue };
        let under = text.strip_prefix("${plugin}").or_else(|| text.strip_prefix("${work}")).unwrap_or(text);
        let rooted = under.starts_with('/') || (under.is_empty() && !text.is_empty());
        if !rooted || under.contains("${") || under.split('/').any(|part| part == "..") {
            let what = format!("`{}` is no path that can be allowed", shown(text));
            faults.add(
                item.line(),
                &item.path,
                what,
                "begin with `/`, `${plugin}` or `${work}`, without `..`",
            );
        } else {
            found.push(text.to_owned());
        }
    }
    found
}

/// `host:port` pairs.
fn hosts(at: &At<'_>, faults: &mut Faults) -> Vec<String> {
    let mut found = Vec::new();
    for item in at.list(faults) {
        let Some(text) = item.text(faults) else { continue };
        let good = text.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty()
                && host.chars().all(|c| !c.is_whitespace() && !c.is_control() && !matches!(c, '/' | '@'))
                && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if good {
            found.push(text.to_owned());
        } else {
            let what = format!("`{}` is no host with a port", shown(text));
            faults.add(item.line(), &item.path, what, "write `host:port`, such as api.example.com:443");
        }
    }
    found
}

/// `listing: { ignore: { TOOL: [POINTER] } }`.
fn listing(at: &At<'_>, tools: &Tools<'_>, faults: &mut Faults) -> BTreeMap<ToolId, Vec<String>> {
    let mut all = BTreeMap::new();
    let fields = at.fields(&["ignore"], faults);
    let Some(ignore) = fields.get("ignore") else { return all };
    for (key, line, at) in ignore.members(faults) {
        let id = tools.find(key, line, &at.path, faults);
        let mut pointers = Vec::new();
        for item in at.list(faults) {
            let Some(text) = item.text(faults) else { continue };
            if is_meta_pointer(text) {
                pointers.push(text.to_owned());
            } else {
                let what = format!("`{}` is no JSON pointer below /_meta", shown(text));
                faults.add(
                    item.line(),
                    &item.path,
                    what,
                    "only members of `_meta` can be left out of a hash",
                );
            }
        }
        if let Some(id) = id {
            all.insert(id, pointers);
        }
    }
    all
}

/// RFC 6901, with at least one step below `/_meta`.
fn is_meta_pointer(text: &str) -> bool {
    text.strip_prefix("/_meta/").is_some_and(|rest| {
        !rest.is_empty() && rest.split('~').skip(1).all(|after| after.starts_with(['0', '1']))
    })
}

fn connections(at: &At<'_>, faults: &mut Faults) -> BTreeMap<String, Connection> {
    let mut all = BTreeMap::new();
    for (key, line, at) in at.members(faults) {
        check_word(key, line, &at.path, faults);
        let mut params = BTreeMap::new();
        let fields = at.fields(&["params"], faults);
        for (key, line, at) in fields.get("params").map(|at| at.members(faults)).unwrap_or_default() {
            check_word(key, line, &at.path, faults);
            let fields = at.fields(&["required", "secret", "description"], faults);
            let description = fields.get("description").and_then(|at| at.text(faults)).unwrap_or_default();
            params.insert(
                key.to_owned(),
                Param {
                    required: fields.get("required").is_some_and(|at| at.flag(faults)),
                    secret: fields.get("secret").is_some_and(|at| at.flag(faults)),
                    description: description.to_owned(),
                },
            );
        }
        all.insert(key.to_owned(), Connection { params });
    }
    all
}

fn config_keys(at: &At<'_>, faults: &mut Faults) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for item in at.list(faults) {
        let Some(text) = item.text(faults) else { continue };
        check_word(text, item.line(), &item.path, faults);
        if found.iter().any(|key| key == text) {
            faults.add(item.line(), &item.path, format!("`{}` stands here twice", shown(text)), "keep one");
        }
        found.push(text.to_owned());
    }
    found
}

/// Names that become part of variables and of environment names.
fn check_word(text: &str, line: usize, at: &str, faults: &mut Faults) {
    let good = text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !good {
        let what = format!("`{}` cannot be a name", shown(text));
        faults.add(line, at, what, "use 1 to 64 of A-Z, a-z, 0-9, _ and -, beginning with a letter");
    }
}

/// A path inside the plugin, as files of a bundle are named. One `/` at the end is dropped.
fn inside(at: &At<'_>, faults: &mut Faults) -> Option<String> {
    let text = at.text(faults)?;
    let clean = text.strip_suffix('/').unwrap_or(text);
    match path::check(clean, &path::Bounds::default()) {
        Ok(()) => Some(clean.to_owned()),
        Err(rule) => {
            let what = format!("`{}` is no path inside the plugin: {rule}", shown(text));
            faults.add(at.line(), &at.path, what, "write a path relative to the plugin's folder");
            None
        }
    }
}

/// Whether a model would take the tool's functions for the platform's own.
fn is_reserved(id: &ToolId) -> bool {
    domain::name::is_reserved_tool(id.as_str())
}
