//! `pintle block`: stops calls of a function, a tool or a plugin, whatever was approved or assigned.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::plugin::in_force::{self, InForce};
use crate::api::{Block, Raised};
use crate::client::Client;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Output, good, shown};

/// What is meant, for both verbs.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct What {
    /// One function, by its ID
    #[arg(long, value_name = "TOOL.FUNCTION")]
    pub function: Option<String>,
    /// All of a tool
    #[arg(long, value_name = "TOOL", conflicts_with = "function")]
    pub tool: Option<String>,
    /// All of a plugin, or of one version of it
    #[arg(long, value_name = "NAME[@VERSION]", conflicts_with_all = ["function", "tool"])]
    pub plugin: Option<String>,
    /// Only on this edge [default: on every edge]
    #[arg(long, value_name = "EDGE")]
    pub edge: Option<String>,
}

/// Flags of `pintle block`.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).multiple(false).args(["function", "tool", "plugin"]),
    after_help = "Examples:\n  pintle block --function mail.send --reason 'sends to the wrong people'\n  pintle block --plugin team@1.4.0 --edge eu-1 --reason 'leaks memory'\n\nIt outranks every approval and assignment until `pintle unblock`. Connected nodes stop within two seconds; one that \
                  is out of reach stops when it returns."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub what: What,
    /// Why: agents and people read it in each refused call
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

/// Blocks, and waits until the connected nodes go by it.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let client = context.client()?;
    let mut body = args.what.body();
    body.insert("reason".to_owned(), json!(args.reason));
    let document: Value = client.post("/blocks", &Value::Object(body)).await?;
    let sentence = |block: &Block, is_new: bool| {
        let (target, by) = (shown::line(&block.target), shown::line(&block.blocked_by));
        if is_new {
            format!("Blocked {target}{}.", there(block))
        } else {
            format!("{by} blocked {target}{} before: {}", there(block), shown::line(&block.reason))
        }
    };
    tell(&client, &context.out, document, sentence).await
}

impl What {
    /// For the API.
    pub(crate) fn body(&self) -> Map<String, Value> {
        let members = [
            ("function", &self.function),
            ("tool", &self.tool),
            ("plugin", &self.plugin),
            ("edge", &self.edge),
        ];
        let named =
            members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))));
        named.collect()
    }
}

/// Where a block holds.
pub(crate) fn there(block: &Block) -> String {
    block
        .edge
        .as_ref()
        .map_or_else(|| " on every edge".to_owned(), |edge| format!(" on edge {}", shown::line(edge)))
}

/// Says what became of each block, and how far it has come.
///
/// # Errors
/// As the API's.
pub(crate) async fn tell(
    client: &Client,
    out: &Output,
    mut document: Value,
    sentence: impl Fn(&Block, bool) -> String,
) -> Result<Exit> {
    let member = |name: &str| document.get(name).cloned().unwrap_or_default();
    let blocks: Vec<Block> = serde_json::from_value(member("blocks"))?;
    let raised: Vec<Raised> = serde_json::from_value(member("edges"))?;
    let is_new = member("changed") == Value::Bool(true);
    let force: InForce = in_force::in_force(client, out, &raised).await?;
    if out.is_json() {
        if let Some(members) = document.as_object_mut() {
            members.insert("in_force".to_owned(), force.as_json());
        }
        out.json(&document)?;
    } else {
        for block in &blocks {
            out.line(good(sentence(block, is_new)))?;
        }
        if is_new && raised.is_empty() {
            out.note("No edge has a version of it; those that get one are told with it.");
        } else if is_new {
            for line in force.lines() {
                out.line(line)?;
            }
        }
    }
    Ok(if force.is_whole() { Exit::Done } else { Exit::TimedOut })
}
