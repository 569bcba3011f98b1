//! `pintle edge …`: the named groups of nodes that share a plugin set.

use anyhow::Result;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::Edge;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Table, good, shown};

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
}

/// Carries out one of them.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit> {
    match command {
        Command::Create { name } => create(&name, context).await,
        Command::List => list(context).await,
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
