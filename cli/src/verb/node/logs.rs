//! `pintle node logs`: what the tools of this machine's node write to stderr.

mod source;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::context::Context;
use crate::embed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, shown};
use source::Source;

/// Between two looks for more; a person does not see the difference.
const LOOK: Duration = Duration::from_millis(250);

/// Flags of `pintle node logs`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle node logs team\n  pintle node logs greeter@1.0.0/team --follow\n\nEach line begins with its time. A tool's log holds 1 to 2 MiB; older lines are gone."
)]
pub(crate) struct Args {
    /// Only this tool: TOOL of every version, or PLUGIN@VERSION/TOOL
    pub tool: Option<String>,
    /// Goes on with what is written from now on, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// What the node keeps [default: node in the data folder]
    #[arg(long, value_name = "DIR", env = "PINTLE_NODE_DATA")]
    pub node_data: Option<PathBuf>,
}

/// Prints the lines in the order of their times; those of several tools with where they are from.
///
/// # Errors
/// There is no node in the folder, no log of that tool, or a log cannot be read.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let data = args.node_data.clone().unwrap_or_else(|| context.place.node());
    if !data.is_dir() {
        let what = format!("there is no node's folder at `{}`", data.display());
        return Err(Failure::failed(what).remedy("name the node's folder with --node-data DIR").into());
    }
    let logs = data.join("logs");
    let out = &context.out;
    let mut sources = Vec::new();
    look(&logs, args.tool.as_deref(), &mut sources)?;
    if sources.is_empty() && !args.follow {
        return none(args, &logs, out);
    }
    let lines = read(&mut sources)?;
    if out.is_json() && !args.follow {
        let items: Vec<Value> = lines.iter().map(|line| line.json(&sources)).collect();
        out.json(&json!({"items": items}))?;
        return Ok(Exit::Done);
    }
    print(&lines, &sources, out)?;
    if args.follow {
        tokio::select! {
            told = embed::until_told_to_stop() => told?,
            failed = follow(&logs, args.tool.as_deref(), sources, out) => failed?,
        }
    }
    Ok(Exit::Done)
}

/// One line of one of the sources.
struct Line {
    source: usize,
    text: String,
}

impl Line {
    fn json(&self, sources: &[Source]) -> Value {
        let source = sources.get(self.source);
        json!({
            "version": source.map(Source::version),
            "tool": source.map(Source::tool),
            "line": self.text,
        })
    }

    /// The time that it begins with; RFC 3339 in UTC sorts as text.
    fn time(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }
}

fn none(args: &Args, logs: &Path, out: &Output) -> Result<Exit> {
    let mut all = Vec::new();
    look(logs, None, &mut all)?;
    match &args.tool {
        Some(tool) => {
            let known: Vec<String> = all.iter().map(Source::name).collect();
            let what = format!("there is no log of a tool `{}` on this node", shown::line(tool));
            let remedy = if known.is_empty() {
                "no tool has been started yet: see `pintle plugin list`".to_owned()
            } else {
                format!("name one of {}", known.join(", "))
            };
            Err(Failure::failed(what).remedy(remedy).into())
        }
        None if out.is_json() => {
            out.json(&json!({"items": []}))?;
            Ok(Exit::Done)
        }
        None => {
            out.note("No tool has been started on this node yet.");
            Ok(Exit::Done)
        }
    }
}

/// Adds the logs that are wanted and not among `sources` yet.
fn look(logs: &Path, tool: Option<&str>, sources: &mut Vec<Source>) -> Result<(), Failure> {
    let found = source::find(logs).map_err(|error| {
        Failure::failed(format!("the logs in `{}` cannot be read: {error}", logs.display()))
    })?;
    for source in found {
        let wanted = tool.is_none_or(|tool| tool == source.tool() || tool == source.name());
        if wanted && !sources.iter().any(|known| known.name() == source.name()) {
            sources.push(source);
        }
    }
    Ok(())
}

fn read(sources: &mut [Source]) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for (number, source) in sources.iter_mut().enumerate() {
        let more = source.more().map_err(|error| {
            Failure::failed(format!("the log of {} cannot be read: {error}", source.name()))
        })?;
        lines.extend(more.into_iter().map(|text| Line { source: number, text }));
    }
    // Stable: lines of one time keep their order.
    lines.sort_by(|a, b| a.time().cmp(b.time()));
    Ok(lines)
}

fn print(lines: &[Line], sources: &[Source], out: &Output) -> Result<()> {
    for line in lines {
        if out.is_json() {
            out.line(line.json(sources))?;
            continue;
        }
        let text = shown::block(&line.text);
        match sources.get(line.source) {
            Some(source) if sources.len() > 1 => out.line(format_args!("{}: {text}", source.name()))?,
            _ => out.line(text)?,
        }
    }
    Ok(())
}

async fn follow(logs: &Path, tool: Option<&str>, mut sources: Vec<Source>, out: &Output) -> Result<()> {
    loop {
        tokio::time::sleep(LOOK).await;
        look(logs, tool, &mut sources)?;
        let lines = read(&mut sources)?;
        print(&lines, &sources, out)?;
    }
}
