//! `pintle rollout start`.

use std::time::Duration;

use anyhow::{Context as _, Result};
use domain::id::PluginVersion;
use serde_json::{Value, json};

use super::{text, watch};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, Table, good, shown};

/// Bytes of a plan's file.
const PLAN_MAX: u64 = 1 << 20;

/// Flags of `pintle rollout start`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle rollout start team@1.5.0 --edges eu-1 --canary 1 --hold 10m\n  pintle rollout start team@1.5.0 --edges eu-1 --edges us-1,us-2 --steps 1,10%,50%,100% --hold 15m --watch\n  pintle rollout start team@1.5.0 --plan rollout.json --dry-run\n\nEach --edges is a wave; the edges of a wave go through the steps one after the other, or --parallel at once. An edge's \
                  version becomes the installed one when its last step has held."
)]
pub(crate) struct Args {
    /// The version, as NAME@VERSION
    #[arg(value_name = "NAME@VERSION")]
    pub version: String,
    /// The edges of a wave; given again, of the next one
    #[arg(long, value_name = "EDGE,…", required_unless_present = "plan")]
    pub edges: Vec<String>,
    /// How many nodes have it, step by step; the last step is all of them
    #[arg(long, value_delimiter = ',', value_name = "N|N%,…", conflicts_with = "canary")]
    pub steps: Vec<String>,
    /// Short for --steps N,100%
    #[arg(long, value_name = "N|N%")]
    pub canary: Option<String>,
    /// How long each step but the last holds
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub hold: Duration,
    /// Edges of a wave that go at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub parallel: u32,
    /// A plan as a JSON file, in place of the flags above
    #[arg(long, value_name = "FILE", conflicts_with_all = ["edges", "steps", "canary"])]
    pub plan: Option<std::path::PathBuf>,
    /// How long nothing may move before it has failed
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub deadline: Duration,
    /// How long a node that is away is waited for
    #[arg(long, default_value = "5m", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub offline_grace: Duration,
    /// Nodes that may fail to run it
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub failed_nodes: u32,
    /// Where functions of it wait for approval: wait as well, or go on without them
    #[arg(long, default_value = "wait", value_parser = ["wait", "go-on"], value_name = "wait|go-on")]
    pub on_changes: String,
    /// When it has failed: every edge goes back, or it waits for a person
    #[arg(long, default_value = "roll-back", value_parser = ["roll-back", "pause"], value_name = "roll-back|pause")]
    pub on_failure: String,
    /// Why a version is tried again that was rolled back
    #[arg(long, value_name = "REASON")]
    pub force: Option<String>,
    /// Says what it would do, and does nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Follows it until it has ended
    #[arg(long, conflicts_with = "dry_run")]
    pub watch: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let version = PluginVersion::parse(&args.version)
        .map_err(|fault| Failure::usage(format!("`{}` is not {}: {}", fault.got, fault.kind, fault.rule)))?;
    let (client, out) = (context.client()?, &context.out);
    let plan = match &args.plan {
        Some(file) => read_plan(file)?,
        None => plan(args),
    };
    let body = |dry_run: bool| {
        json!({
            "plugin": version.plugin.as_str(),
            "version": version.version.to_string(),
            "plan": plan,
            "force": args.force,
            "dry_run": dry_run,
        })
    };
    let will: Value = client.post("/rollouts", &body(true)).await?;
    if !out.is_json() {
        print_plan(out, &will, &version)?;
    }
    if args.dry_run {
        if out.is_json() {
            out.json(&will)?;
        }
        return Ok(Exit::Done);
    }
    let started: Value = client.post("/rollouts", &body(false)).await?;
    let id = text(&started, "id");
    if args.watch {
        let watched = watch::Args { id, timeout: None };
        return watch::run(&watched, context).await;
    }
    if out.is_json() {
        out.json(&started)?;
        return Ok(Exit::Done);
    }
    out.line(good(format!("Started rollout {id} of {version}.")))?;
    out.hint(format_args!("pintle rollout watch {id}"));
    Ok(Exit::Done)
}

fn read_plan(file: &std::path::Path) -> Result<Value> {
    use std::io::Read as _;
    let mut read = String::new();
    let opened = std::fs::File::open(file).with_context(|| format!("read `{}`", file.display()))?;
    opened.take(PLAN_MAX).read_to_string(&mut read).with_context(|| format!("read `{}`", file.display()))?;
    serde_json::from_str(&read)
        .map_err(|fault| Failure::usage(format!("`{}` is no JSON: {fault}", file.display())).into())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn plan(args: &Args) -> Value {
    let shares = match &args.canary {
        Some(canary) => vec![canary.clone(), "100%".to_owned()],
        None if args.steps.is_empty() => vec!["1".to_owned(), "100%".to_owned()],
        None => args.steps.clone(),
    };
    let last = shares.len().saturating_sub(1);
    let steps: Vec<Value> = shares
        .iter()
        .enumerate()
        .map(|(at, share)| {
            let nodes =
                share.trim().parse::<u32>().map_or_else(|_| json!(share.trim()), |count| json!(count));
            json!({ "nodes": nodes, "hold_ms": if at == last { 0 } else { millis(args.hold) } })
        })
        .collect();
    let wave = |edges: &String| {
        let edges: Vec<&str> = edges.split(',').map(str::trim).collect();
        json!({ "edges": edges, "parallel_edges": args.parallel, "steps": steps })
    };
    json!({
        "waves": args.edges.iter().map(wave).collect::<Vec<_>>(),
        "progress_deadline_ms": millis(args.deadline),
        "offline_grace_ms": millis(args.offline_grace),
        "failed_nodes": args.failed_nodes,
        "on_changes": args.on_changes.replace('-', "_"),
        "on_failure": args.on_failure.replace('-', "_"),
    })
}

/// What it will do, before it does it.
fn print_plan(out: &Output, will: &Value, version: &PluginVersion) -> Result<()> {
    let nodes = |edge: &str| {
        let mut counted = will.get("nodes").and_then(Value::as_array).into_iter().flatten();
        let of_edge = counted.find(|one| one.get("edge").and_then(Value::as_str) == Some(edge));
        of_edge.and_then(|one| one.get("nodes")).and_then(Value::as_u64).unwrap_or_default()
    };
    let least = will.get("least_ms").and_then(Value::as_u64).unwrap_or_default();
    out.line(format!("{version} goes to:"))?;
    let mut table = Table::new(&["WAVE", "EDGE", "NODES", "STEPS"]);
    for wave in will.pointer("/plan/waves").and_then(Value::as_array).into_iter().flatten() {
        let steps: Vec<String> =
            wave.get("steps").and_then(Value::as_array).into_iter().flatten().map(step).collect();
        for edge in wave.get("edges").and_then(Value::as_array).into_iter().flatten() {
            let edge = edge.as_str().unwrap_or_default();
            table.row([
                text(wave, "name"),
                shown::line(edge),
                nodes(edge).to_string(),
                shown::line(&steps.join(", ")),
            ]);
        }
    }
    table.print(out)?;
    let least = humantime::format_duration(Duration::from_millis(least));
    out.line(format!("Everywhere in {least} at the earliest."))?;
    Ok(())
}

fn step(step: &Value) -> String {
    let nodes =
        step.get("nodes").map(|nodes| nodes.as_str().map_or_else(|| nodes.to_string(), str::to_owned));
    let nodes = nodes.unwrap_or_default();
    match step.get("hold_ms").and_then(Value::as_u64).unwrap_or_default() {
        0 => nodes,
        hold => format!("{nodes} for {}", humantime::format_duration(Duration::from_millis(hold))),
    }
}
