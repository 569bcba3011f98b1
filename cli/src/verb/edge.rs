//! `pintle edge …`: the named groups of nodes that share a plugin set.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::{Candidate, Edge};
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Table, good, shown};

mod policy;
mod set;

/// Verbs of `pintle edge`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Makes an edge
    #[command(after_help = "Example:\n  pintle edge create eu-1")]
    Create {
        /// 1 to 64 of a-z, 0-9 and -, beginning with a letter
        name: String,
    },
    /// Every edge, its nodes and what is installed on it
    #[command(after_help = "Example:\n  pintle edge list")]
    List,
    /// One edge: what is installed on it, what it tries on which nodes, how far its nodes are
    #[command(after_help = "Example:\n  pintle edge show eu-1")]
    Show {
        /// The edge
        name: String,
    },
    /// Sets what the nodes of an edge may do
    Set(set::Args),
}

/// Carries out one of them.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit> {
    match command {
        Command::Create { name } => create(&name, context).await,
        Command::List => list(context).await,
        Command::Show { name } => show(&name, context).await,
        Command::Set(args) => set::run(&args, context).await,
    }
}

async fn create(name: &str, context: &Context) -> Result<Exit> {
    let created: Value = context.client()?.post("/edges", &json!({"name": name})).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&created)?;
        return Ok(Exit::Done);
    }
    let name = shown::line(name);
    out.line(good(format!("Made the edge {name}.")))?;
    out.hint(format_args!("pintle node token --edge {name}"));
    out.hint(format_args!("pintle assign PLUGIN@VERSION --edge {name}"));
    Ok(Exit::Done)
}

async fn list(context: &Context) -> Result<Exit> {
    let items: Vec<Value> = context.client()?.list("/edges").await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"items": items}))?;
        return Ok(Exit::Done);
    }
    let edges: Vec<Edge> = serde_json::from_value(Value::Array(items))?;
    if edges.is_empty() {
        out.note("There is no edge yet.");
        out.hint("pintle edge create eu-1");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["EDGE", "NODES", "CONNECTED", "INSTALLED"]);
    for edge in &edges {
        let installed: Vec<String> = edge
            .assignments
            .iter()
            .map(|installed| format!("{}@{}", installed.plugin, installed.version))
            .collect();
        let installed = if installed.is_empty() { "-".to_owned() } else { installed.join(", ") };
        table.row([
            edge.name.clone(),
            edge.nodes_total.to_string(),
            edge.nodes_connected.to_string(),
            installed,
        ]);
    }
    table.print(out)?;
    Ok(Exit::Done)
}

async fn show(name: &str, context: &Context) -> Result<Exit> {
    let client = context.client()?;
    let path = format!("/edges/{}", escape(name));
    let document: Value = client.get(&path).await?;
    let parts: Value = client.get(&format!("{path}/parts")).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"edge": document, "parts": parts}))?;
        return Ok(Exit::Done);
    }
    let edge: Edge = serde_json::from_value(document)?;
    out.line(format_args!(
        "{}: {} of {} nodes connected",
        shown::line(&edge.name),
        edge.nodes_connected,
        edge.nodes_total
    ))?;
    for (setting, value) in policy::lines(&edge.policy) {
        out.line(format_args!("  {setting:<14} {value}"))?;
    }
    let mut table = Table::new(&["PLUGIN", "INSTALLED", "CANDIDATE", "ON"]);
    let installed = edge.assignments.iter().map(|one| (one.plugin.as_str(), one.version.as_str()));
    let installed: BTreeMap<&str, &str> = installed.collect();
    let tried: BTreeMap<&str, &Candidate> =
        edge.candidates.iter().map(|one| (one.plugin.as_str(), one)).collect();
    for plugin in installed.keys().chain(tried.keys()).collect::<BTreeSet<_>>() {
        let candidate = tried.get(*plugin);
        let on = candidate.map(|one| one.nodes.join(", ")).unwrap_or_default();
        table.row([
            *plugin,
            installed.get(*plugin).copied().unwrap_or("-"),
            candidate.map_or("-", |one| one.version.as_str()),
            on.as_str(),
        ]);
    }
    table.print(out)?;
    let mut table = Table::new(&["PART", "GENERATION", "HELD BY", "WAITS FOR"]);
    for (name, part) in parts.as_object().into_iter().flatten() {
        let number = |key: &str| part.get(key).and_then(Value::as_u64).unwrap_or_default();
        let waiting = part.get("waiting").and_then(Value::as_array).into_iter().flatten();
        let waiting: Vec<&str> = waiting.filter_map(Value::as_str).collect();
        table.row([
            name.clone(),
            format!("{}.{}", number("epoch"), number("generation")),
            format!("{} of {}", number("acknowledged"), number("connected")),
            waiting.join(", "),
        ]);
    }
    table.print(out)?;
    Ok(Exit::Done)
}
