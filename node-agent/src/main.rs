//! `pintle-node`: the node agent as a program of its own. The same verbs as `pintle node`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

const USAGE: &str = "pintle-node: the node agent of Pintle

usage:
  pintle-node join STRING [--data DIR] [--name NAME]   make this machine a node of a fleet
  pintle-node run [--data DIR] [--listen ADDRESS] [--set NAME=VALUE]...
                                                       run the node until SIGTERM or SIGINT
  pintle-node --version

  --data DIR        the node's folder (default: ./pintle-node)
  --name NAME       the node's name (default: this machine's)
  --listen ADDRESS  where MCP clients connect (default: 127.0.0.1:7410)
  --set NAME=VALUE  a setting, such as gateway.call_deadline=20m; `pintle node run --help` lists them
";

struct Arguments {
    verb: String,
    join_string: Option<String>,
    data: PathBuf,
    name: Option<String>,
    listen: Option<String>,
    settings: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    if node_agent::shim::is_shim() {
        return Ok(node_agent::shim::run());
    }
    match act() {
        // As `pintle node run` has it: the command line cannot be carried out as written.
        Err(error) if error.is::<node_agent::setting::Fault>() => {
            writeln!(std::io::stderr(), "Error: failed to {error}").context("write to stderr")?;
            Ok(ExitCode::from(2))
        }
        outcome => outcome.map(|()| ExitCode::SUCCESS),
    }
}

#[tokio::main]
async fn act() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .init();
    let arguments = read(std::env::args().skip(1))?;
    match arguments.verb.as_str() {
        "join" => join(&arguments).await,
        "run" => run(arguments).await,
        "--version" => say(&format!("pintle-node {}\n", node_agent::VERSION)),
        "--help" | "-h" | "help" => say(USAGE),
        other => bail!("there is no verb `{other}`\n\n{USAGE}"),
    }
}

fn read(mut words: impl Iterator<Item = String>) -> anyhow::Result<Arguments> {
    let verb = words.next().unwrap_or_else(|| "--help".to_owned());
    let data = PathBuf::from("pintle-node");
    let mut arguments =
        Arguments { verb, join_string: None, data, name: None, listen: None, settings: Vec::new() };
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--data" => arguments.data = value()?.into(),
            "--name" => arguments.name = Some(value()?),
            "--set" => arguments.settings.push(value()?),
            "--listen" => arguments.listen = Some(value()?),
            other if other.starts_with("--") => bail!("there is no option `{other}`\n\n{USAGE}"),
            _ => arguments.join_string = Some(word),
        }
    }
    Ok(arguments)
}

async fn join(arguments: &Arguments) -> anyhow::Result<()> {
    let join_string = arguments.join_string.as_deref().context("`join` needs the join string")?;
    let name = arguments.name.clone().unwrap_or_else(machine_name);
    let joined = node_agent::join(join_string, &arguments.data, &name).await?;
    say(&format!(
        "joined: node {} ({}) of edge {}, fleet {}\nrun it with: pintle-node run --data {}\n",
        joined.name,
        joined.node,
        joined.edge,
        joined.fleet,
        arguments.data.display()
    ))
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut config = node_agent::Config::new(arguments.data);
    if let Some(listen) = arguments.listen {
        config.gateway.listen = listen.parse().with_context(|| format!("`{listen}` is no address"))?;
    }
    for setting in &arguments.settings {
        node_agent::setting::set(&mut config, setting)?;
    }
    let node = node_agent::Node::start(config).await?;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result?,
        _ = terminate.recv() => {}
    }
    node.stop().await;
    Ok(())
}

/// The machine's name, with what no node's name may have written as `-`.
fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '-' };
    let name: String = name.trim().chars().map(allowed).take(64).collect();
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) { name } else { "node".to_owned() }
}

fn say(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("write to stdout")
}
