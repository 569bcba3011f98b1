//! `pintle assign`: makes a version the installed one of an edge, or has some of its nodes try it beside
//! the installed one, and watches the nodes take it up.

use std::time::{Duration, Instant};

use anyhow::Result;
use domain::id::PluginVersion;
use serde_json::{Value, json};

use crate::api::{Moved, Node, NodeState, Plugin};
use crate::client::{Client, escape};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::{Output, Table, good, shown, waits};
use crate::verb::plugin::notices;

/// Between two looks at what nodes do.
const LOOK: Duration = Duration::from_millis(100);

/// For what nodes listed to be recorded once they serve it: one round trip and a transaction.
const SNAPSHOTS: Duration = Duration::from_secs(5);

/// Flags of `pintle assign`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle assign team@1.4.0 --edge eu-1 --wait\n  pintle assign team@1.5.0 --edge eu-1 --candidate --nodes node-1,node-2"
)]
pub(crate) struct Args {
    /// The version, as NAME@VERSION
    #[arg(value_name = "NAME@VERSION")]
    pub version: String,
    /// The edge
    #[arg(long)]
    pub edge: String,
    /// Only the nodes of --nodes serve it, beside the installed version; assigned without this, it is promoted
    #[arg(long, requires = "nodes")]
    pub candidate: bool,
    /// The nodes that try the candidate, exactly these
    #[arg(long, requires = "candidate", value_delimiter = ',', value_name = "NODE,…")]
    pub nodes: Vec<String>,
    /// Waits until every connected node serves it [default on a terminal]
    #[arg(long, overrides_with = "no_wait")]
    pub wait: bool,
    /// Returns once it is assigned
    #[arg(long)]
    pub no_wait: bool,
    /// Longest wait
    #[arg(long, default_value = "2m", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub timeout: Duration,
}

/// Assigns, then waits if asked to.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let version = PluginVersion::parse(&args.version)
        .map_err(|fault| Failure::usage(format!("`{}` is not {}: {}", fault.got, fault.kind, fault.rule)))?;
    let (client, out) = (context.client()?, &context.out);
    let assigned = assign(&client, args, &version).await?;
    if !out.is_json() {
        out.line(good(sentence(args, &version)))?;
        print_moves(out, &assigned, &version)?;
        print_off(out, &assigned, &args.edge)?;
        print_unset(out, &assigned)?;
    }
    let waits_for_nodes = args.wait || (out.is_attended() && !args.no_wait);
    if !waits_for_nodes {
        if out.is_json() {
            out.json(&assigned)?;
        }
        return Ok(Exit::Done);
    }
    let states = wait(&client, out, &version, args).await?;
    let unlisted = if verdict(&states) == Exit::Done {
        wait_for_snapshots(&client, &version).await?
    } else {
        Vec::new()
    };
    if out.is_json() {
        let nodes: Vec<Value> = states
            .iter()
            .map(|one| json!({"node": one.node, "state": one.state, "reason": one.reason}))
            .collect();
        out.json(&json!({"assigned": assigned, "nodes": nodes, "without_snapshot": unlisted}))?;
    } else {
        print(out, &states)?;
        if !unlisted.is_empty() {
            let tools = shown::line(&unlisted.join(", "));
            out.note(format_args!("Not listed completely yet, so not called yet: {tools}"));
        }
    }
    Ok(verdict(&states))
}

async fn assign(client: &Client, args: &Args, version: &PluginVersion) -> Result<Value, Failure> {
    let wanted = version.version.to_string();
    let edge = escape(&args.edge);
    if args.candidate {
        let path = format!("/edges/{edge}/candidates/{}", version.plugin);
        return client.put(&path, &json!({"version": wanted, "nodes": args.nodes})).await;
    }
    let path = format!("/edges/{edge}/assignments/{}", version.plugin);
    client.put(&path, &json!({"version": wanted})).await
}

fn sentence(args: &Args, version: &PluginVersion) -> String {
    let edge = shown::line(&args.edge);
    if args.candidate {
        let nodes = shown::line(&args.nodes.join(", "));
        return format!("{version} is a candidate of edge {edge}, on {nodes}.");
    }
    format!("{version} is the installed version of edge {edge}.")
}

/// Asks until every connected node of the edge serves the version or failed, at most as long as was
/// asked for.
async fn wait(
    client: &Client,
    out: &Output,
    version: &PluginVersion,
    args: &Args,
) -> Result<Vec<NodeState>, Failure> {
    let began = Instant::now();
    let spinner = Progress::wait(out, "Waiting for the nodes");
    loop {
        let mut states = look(client, version, &args.edge).await?;
        states.retain(|state| !args.candidate || args.nodes.contains(&state.node));
        let serving = states.iter().filter(|state| is_serving(state)).count();
        spinner.say(&format!("{serving} of {} nodes serve {version}", states.len()));
        let is_over = states.iter().all(|state| is_serving(state) || is_failed(state));
        if is_over || began.elapsed() >= args.timeout {
            return Ok(states);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The tools that have no snapshot yet. Nodes say that they serve a moment before what they listed is
/// recorded, so this waits a little; a tool that cannot be listed is no reason to wait longer.
async fn wait_for_snapshots(client: &Client, version: &PluginVersion) -> Result<Vec<String>, Failure> {
    let (began, wanted) = (Instant::now(), version.version.to_string());
    loop {
        let plugin: Plugin = client.get(&format!("/plugins/{}", version.plugin)).await?;
        let tools = plugin.versions.into_iter().filter(|one| one.version == wanted).flat_map(|one| one.tools);
        let unlisted: Vec<String> =
            tools.filter(|tool| tool.snapshot.is_none()).map(|tool| tool.tool).collect();
        if unlisted.is_empty() || began.elapsed() >= SNAPSHOTS {
            return Ok(unlisted);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What each connected node of an edge does with a version.
///
/// # Errors
/// As the API's.
pub(crate) async fn look(
    client: &Client,
    version: &PluginVersion,
    edge: &str,
) -> Result<Vec<NodeState>, Failure> {
    let nodes: Vec<Node> = client.list(&format!("/nodes?edge={}", escape(edge))).await?;
    let wanted = version.version.to_string();
    let connected = nodes.into_iter().filter(|node| node.connected && node.edge == edge);
    Ok(connected.map(|node| state_of(node, version.plugin.as_str(), &wanted)).collect())
}

fn state_of(node: Node, plugin: &str, wanted: &str) -> NodeState {
    let said = node.versions.into_iter().find(|said| said.plugin == plugin && said.version == wanted);
    let (state, reason) = said.map_or_else(|| ("waiting".to_owned(), None), |said| (said.state, said.reason));
    NodeState { node: node.name, edge: node.edge, version: wanted.to_owned(), state, reason }
}

fn is_serving(state: &NodeState) -> bool {
    state.state == "serving"
}

fn is_failed(state: &NodeState) -> bool {
    state.state == "failed"
}

fn print(out: &Output, states: &[NodeState]) -> std::io::Result<()> {
    if states.is_empty() {
        out.note("None of the nodes is connected; each takes it up when it returns.");
        out.hint("pintle node list");
        return Ok(());
    }
    let mut table = Table::new(&["NODE", "STATE", "REASON"]);
    for state in states {
        table.row([state.node.as_str(), &state.state, state.reason.as_deref().unwrap_or_default()]);
    }
    table.print(out)
}

/// The tools that wait for approval because the version names another origin.
fn print_moves(out: &Output, assigned: &Value, version: &PluginVersion) -> Result<()> {
    let moves = assigned.get("moved").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for one in moves {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let from = one.get("from").and_then(Value::as_array).into_iter().flatten();
        let moved = Moved {
            version: version.version.to_string(),
            tool: text(one.get("tool")),
            edge: None,
            from: from.map(|origin| text(Some(origin))).collect(),
            to: text(one.get("to")),
        };
        out.line(waits(format!("  {}", notices::moved(&moved))))?;
    }
    if !moves.is_empty() {
        out.hint(format_args!("pintle plugin approve-tools {}", version.plugin));
    }
    Ok(())
}

/// What the edge's nodes will not run is said before anybody waits for it.
fn print_off(out: &Output, assigned: &Value, edge: &str) -> Result<()> {
    let off = assigned.get("kind_off").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let edge = shown::line(edge);
    for one in off {
        let text = |member: &str| shown::line(one.get(member).and_then(Value::as_str).unwrap_or_default());
        let (tool, kind) = (text("tool"), text("kind"));
        out.line(waits(format!(
            "  {tool} is of kind {kind}, which edge {edge} forbids: nodes do not run it and refuse its functions."
        )))?;
    }
    if !off.is_empty() {
        out.hint(format_args!("pintle edge set {edge} --forbid-kinds none"));
    }
    Ok(())
}

fn print_unset(out: &Output, assigned: &Value) -> Result<()> {
    for one in assigned.get("connections").and_then(Value::as_array).into_iter().flatten() {
        let text = |member: &str| shown::line(one.get(member).and_then(Value::as_str).unwrap_or_default());
        out.line(waits(format!("  {} is not called yet: {}", text("tool"), text("reason"))))?;
    }
    Ok(())
}

fn verdict(states: &[NodeState]) -> Exit {
    if states.iter().any(is_failed) {
        Exit::Failed
    } else if !states.is_empty() && states.iter().all(is_serving) {
        Exit::Done
    } else {
        Exit::TimedOut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(state: &str) -> NodeState {
        NodeState {
            node: "n".into(),
            edge: "e".into(),
            version: "1.0.0".into(),
            state: state.into(),
            reason: None,
        }
    }

    #[test]
    fn it_is_done_only_when_every_node_serves() {
        assert_eq!(verdict(&[state("serving"), state("serving")]), Exit::Done);
        assert_eq!(verdict(&[state("serving"), state("failed")]), Exit::Failed);
        assert_eq!(verdict(&[state("serving"), state("installing")]), Exit::TimedOut);
        assert_eq!(verdict(&[]), Exit::TimedOut);
    }
}
