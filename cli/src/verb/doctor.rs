//! `pintle doctor`: what is wrong with the fleet, and what people decide about what a restored database
//! lost.

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::{Node, Orphan};
use crate::client::Client;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, Table, good, shown, waits};

/// The word that names everything that waits.
const ALL: &str = "all";

/// Flags of `pintle doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle doctor\n  pintle doctor --adopt 5f0c1b2a9d3e,77aa01c2bd4f\n  pintle doctor --drop all"
)]
pub(crate) struct Args {
    /// Goes by these again, which only nodes hold since the database was restored, or `all`
    #[arg(long, value_delimiter = ',', value_name = "ID,…", conflicts_with = "drop")]
    pub adopt: Vec<String>,
    /// Forgets these
    #[arg(long, value_delimiter = ',', value_name = "ID,…")]
    pub drop: Vec<String>,
    /// Does not ask; needs a token that may approve unattended
    #[arg(long)]
    pub yes: bool,
}

/// Tells what is wrong, or decides.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let client = context.client()?;
    let mut orphans: Vec<Value> = client.list("/orphans?limit=1000").await?;
    let place = |orphan: &Value| {
        ["edge", "plugin", "version", "tool", "function"].map(|key| orphan.get(key).map(Value::to_string))
    };
    orphans.sort_by_cached_key(place);
    let chosen = if args.adopt.is_empty() { &args.drop } else { &args.adopt };
    if chosen.is_empty() {
        return look(&client, context, orphans).await;
    }
    let orphans: Vec<Orphan> = serde_json::from_value(Value::Array(orphans))?;
    let ids: Vec<String> = if chosen.iter().any(|id| id == ALL) {
        orphans.iter().map(|orphan| orphan.id.clone()).collect()
    } else {
        chosen.clone()
    };
    decide(&client, context, args, (&orphans, &ids)).await
}

async fn look(client: &Client, context: &Context, orphans: Vec<Value>) -> Result<Exit> {
    let out = &context.out;
    let status: Value = client.get("/status").await?;
    let nodes: Vec<Node> = client.list("/nodes").await?;
    let away: Vec<&str> =
        nodes.iter().filter(|node| !node.connected).map(|node| node.name.as_str()).collect();
    let problems: Vec<String> = nodes
        .iter()
        .flat_map(|node| node.problems.iter().map(|problem| format!("{}: {problem}", node.name)))
        .collect();
    let number = |key: &str| status.get(key).and_then(Value::as_u64).unwrap_or_default();
    let is_well = orphans.is_empty() && problems.is_empty() && number("fanout_missed") == 0;
    if out.is_json() {
        out.json(
            &json!({"orphans": orphans, "not_connected": away, "problems": problems, "status": status}),
        )?;
        return Ok(if is_well { Exit::Done } else { Exit::Open });
    }
    let orphans: Vec<Orphan> = serde_json::from_value(Value::Array(orphans))?;
    if number("fanout_missed") > 0 {
        let sentence = format!("{} changes were late on their way to nodes", number("fanout_missed"));
        out.line(waits(format!("{sentence}; its log says which, please report it")))?;
    }
    for problem in &problems {
        out.line(waits(shown::line(problem)))?;
    }
    if !away.is_empty() {
        out.line(format_args!("Not connected: {}", shown::line(&away.join(", "))))?;
    }
    if !orphans.is_empty() {
        out.line(waits("The database was restored from a copy. Only nodes hold, as approved:"))?;
        print(out, &orphans)?;
        out.hint("pintle doctor --adopt all");
        out.hint("pintle doctor --drop all");
    }
    if is_well {
        out.line(good("Nothing is wrong."))?;
    }
    Ok(if is_well { Exit::Done } else { Exit::Open })
}

fn print(out: &Output, orphans: &[Orphan]) -> Result<()> {
    let mut table = Table::new(&["ID", "WHAT", "HELD", "EDGE", "NODE"]);
    for orphan in orphans {
        let version = format!("{}@{}", orphan.plugin, orphan.version);
        let what = match (&orphan.tool, &orphan.function) {
            (Some(tool), Some(function)) => format!("{version} {tool}.{function}"),
            (Some(tool), None) => format!("{version} {tool}"),
            (None, _) => format!("{version}, which was never pushed here"),
        };
        let held = orphan.held.as_deref().unwrap_or("-");
        table.row([orphan.id.as_str(), &what, held, &orphan.edge, &orphan.node]);
    }
    Ok(table.print(out)?)
}

async fn decide(
    client: &Client,
    context: &Context,
    args: &Args,
    (orphans, ids): (&[Orphan], &[String]),
) -> Result<Exit> {
    let out = &context.out;
    if ids.is_empty() {
        out.note("Nothing waits.");
        return Ok(Exit::Done);
    }
    let (verb, done, question) = if args.adopt.is_empty() {
        ("drop", "dropped", "Forget this?")
    } else {
        ("adopt", "adopted", "Have the fleet go by this again?")
    };
    if !args.yes {
        let named: Vec<Orphan> = orphans.iter().filter(|one| ids.contains(&one.id)).cloned().collect();
        if !out.is_json() {
            print(out, &named)?;
        }
        if !out.is_attended() {
            return Err(Failure::new(Exit::Open, "nothing was changed; a person decides this")
                .remedy(format!("{} doctor --{verb} {} --yes", context.program(), ids.join(",")))
                .into());
        }
        let answer = out.ask(&format!("{question} [y/N]"))?;
        if !answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes")) {
            out.note("Nothing was changed.");
            return Ok(Exit::Open);
        }
    }
    let body = json!({"ids": ids, "attended": !args.yes});
    let decided: Value = client.post(&format!("/orphans/{verb}"), &body).await?;
    if out.is_json() {
        out.json(&decided)?;
    } else {
        let count = decided.get(done).and_then(Value::as_array).map_or(0, Vec::len);
        out.line(good(format!("{count} {done}.")))?;
    }
    Ok(Exit::Done)
}
