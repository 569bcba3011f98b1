//! Reads `tools`: each ID, and how its tool is run or reached.

use std::collections::BTreeMap;

use domain::id::ToolId;

use super::super::fault::{Faults, shown};
use super::super::reader::{At, Fields};
use super::super::variable::{Piece, pieces};
use super::super::{BashArgs, Connection, ToolSpec};
use super::{Ids, inside, url};
use crate::bundle::path;

/// Tools of one plugin: each is a process or a connection on every node of an edge.
const MOST_TOOLS: usize = 64;

/// The keys that say what kind a tool is; exactly one of them stands in each tool.
const KINDS: [&str; 5] = ["command", "url", "bash", "node", "python"];

/// The tools that could be read, and every key that stands under `tools`.
pub(super) fn read_all<'a>(
    top: &At<'a>,
    at: Option<&At<'a>>,
    ids: Ids,
    connections: &BTreeMap<String, Connection>,
    faults: &mut Faults,
) -> (BTreeMap<ToolId, ToolSpec>, Vec<&'a str>) {
    let mut tools = BTreeMap::new();
    let Some(at) = at else {
        let remedy = "add `tools:` with at least one tool";
        faults.add(top.line(), "tools", "the plugin has no tools", remedy);
        return (tools, Vec::new());
    };
    let members = at.members(faults);
    if members.is_empty() || members.len() > MOST_TOOLS {
        let what = format!("{} tools where 1 to {MOST_TOOLS} are possible", members.len());
        faults.add(at.line(), &at.path, what, "add a tool, or split the plugin");
    }
    let mut model_names: BTreeMap<String, &str> = BTreeMap::new();
    let mut named = Vec::new();
    for (key, line, at) in &members {
        named.push(*key);
        let id = id(key, *line, &at.path, ids, faults);
        let twin = model_names.insert(key.replace('.', "__"), key).filter(|twin| twin != key);
        if let (Some(twin), Ids::New) = (twin, ids) {
            let what = format!("`{}` and `{}` would be one name to a model", shown(twin), shown(key));
            faults.add(*line, &at.path, what, "rename one of the tools");
        }
        let spec = tool(at, connections, faults);
        if let (Some(id), Some(spec)) = (id, spec) {
            tools.insert(id, spec);
        }
    }
    (tools, named)
}

fn id(key: &str, line: usize, at: &str, ids: Ids, faults: &mut Faults) -> Option<ToolId> {
    let id = match ToolId::parse(key) {
        Ok(id) => id,
        Err(fault) => {
            let what = format!("`{}` cannot be {}", fault.got, fault.kind);
            faults.add(line, at, what, format!("use {}", fault.rule));
            return None;
        }
    };
    if ids == Ids::New && !id.is_well_formed() {
        let what = format!("`{}` cannot be a tool ID", shown(key));
        faults.add(line, at, what, "use a letter, then up to 47 of A-Z, a-z, 0-9, _ and -");
    }
    if ids == Ids::New && super::is_reserved(&id) {
        let what =
            format!("`{}` is reserved: a model would take its functions for the platform's own", shown(key));
        faults.add(line, at, what, "choose an ID that does not begin with `pintle__` and is not `pintle`");
    }
    Some(id)
}

fn tool(at: &At<'_>, connections: &BTreeMap<String, Connection>, faults: &mut Faults) -> Option<ToolSpec> {
    let present: Vec<&str> = at.members(faults).iter().map(|(key, ..)| *key).collect();
    let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| present.contains(kind)).collect();
    let [kind] = kinds.as_slice() else {
        if kinds.is_empty() {
            at.fields(
                &[&KINDS[..], &["env", "connection", "allow_http", "transport", "args"]].concat(),
                faults,
            );
            let remedy = "add one of `command`, `url`, `bash`, `node`, `python`";
            faults.add(at.line(), &at.path, "nothing says how the tool is run or reached", remedy);
        } else {
            let what = format!("{} at once", kinds.join(" and "));
            faults.add(at.line(), &at.path, what, "keep one of them, or make two tools");
        }
        return None;
    };
    if at.fields_quietly().get(kind).is_none() {
        faults.add(at.line(), &format!("{}.{kind}", at.path), "nothing stands here", "fill it in");
        return None;
    }
    match *kind {
        "command" => command(&at.fields(&["command", "env"], faults), faults),
        "url" => {
            let fields = at.fields(&["url", "connection", "allow_http", "transport"], faults);
            url::read(&fields, connections, faults)
        }
        "bash" => {
            let fields = at.fields(&["bash", "args"], faults);
            let args = fields.get("args").and_then(|at| at.word(&BashArgs::WORDS, faults));
            let path = fields.get("bash").and_then(|at| inside(at, faults))?;
            Some(ToolSpec::Bash { path, args: args.unwrap_or_default() })
        }
        "node" => Some(ToolSpec::Node { path: folder("node", at, faults)? }),
        _ => Some(ToolSpec::Python { path: folder("python", at, faults)? }),
    }
}

/// `node: DIR` or `node: { path: DIR }`.
fn folder(kind: &str, at: &At<'_>, faults: &mut Faults) -> Option<String> {
    let fields = at.fields(&[kind], faults);
    let at = fields.get(kind)?;
    if !matches!(at.node.value, super::yaml::Value::Map(_)) {
        return inside(at, faults);
    }
    let fields = at.fields(&["path"], faults);
    if let Some(path) = fields.get("path") {
        inside(path, faults)
    } else {
        faults.add(at.line(), &at.path, "the folder is missing", "add `path: tools/…`");
        None
    }
}

fn command(fields: &Fields<'_>, faults: &mut Faults) -> Option<ToolSpec> {
    let mut env = BTreeMap::new();
    for (key, line, at) in fields.get("env").map(|at| at.members(faults)).unwrap_or_default() {
        let good = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !good {
            let what = format!("`{}` cannot be the name of an environment variable", shown(key));
            faults.add(line, &at.path, what, "use A-Z, a-z, 0-9 and _, not beginning with a digit");
        }
        if let Some(text) = at.text(faults) {
            check_variables(text, &at, faults);
            env.insert(key.to_owned(), text.to_owned());
        }
    }
    let at = fields.get("command")?;
    let items = at.list(faults);
    let mut command = Vec::new();
    for item in &items {
        let Some(text) = item.text(faults) else { continue };
        check_variables(text, item, faults);
        command.push(text.to_owned());
    }
    match items.first() {
        Some(first) => check_program(first, faults),
        None if matches!(at.node.value, super::yaml::Value::List(_)) => {
            faults.add(at.line(), &at.path, "the command is empty", "name the program, then its arguments");
        }
        None => {}
    }
    Some(ToolSpec::Command { command, env })
}

/// Only the two folders can be put into a command: what else a tool needs is a parameter of its own.
fn check_variables(text: &str, at: &At<'_>, faults: &mut Faults) {
    for piece in pieces(text) {
        match piece {
            Piece::Text(_) | Piece::Variable("plugin" | "work") => {}
            Piece::Variable(name) => {
                let what = format!("`${{{}}}` is no variable here", shown(name));
                faults.add(at.line(), &at.path, what, "only `${plugin}` and `${work}` are");
            }
            Piece::Unclosed(_) => {
                faults.add(at.line(), &at.path, "a `${` without its `}`", "close it, as in `${plugin}`");
            }
        }
    }
}

/// A program is absolute, a file of the plugin, or a bare name that the node finds on its `PATH`.
fn check_program(at: &At<'_>, faults: &mut Faults) {
    let Some(text) = at.text(&mut Faults::new("")) else { return };
    let rule = if let Some(file) = text.strip_prefix("${plugin}/") {
        match path::check(file, &path::Bounds::default()) {
            Ok(()) => return,
            Err(rule) => rule,
        }
    } else if text.starts_with('/') || (!text.is_empty() && !text.contains(['/', '\\', '$'])) {
        return;
    } else {
        "it is neither absolute, nor under `${plugin}/`, nor a bare name to be found on PATH"
    };
    let what = format!("`{}` cannot be started: {rule}", shown(text));
    faults.add(at.line(), &at.path, what, "name a file of the plugin as `${plugin}/bin/server`");
}
