//! `pintle server`: the control plane alone, in the foreground.

#![expect(clippy::doc_markdown, reason = "these comments are help texts, which terminals show as they are")]

mod ca;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::context::Context;
use crate::embed;
use crate::exit::Exit;
use crate::place::Running;

/// Flags of `pintle server`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example:\n  pintle server --database postgres://pintle@db/pintle --node-listen 0.0.0.0:7401 --node-address fleet.example.com:7401"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Where people and this program reach it
    #[arg(long, default_value = "127.0.0.1:7400", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// Where nodes reach it
    #[arg(long, default_value = "127.0.0.1:7401", value_name = "ADDR")]
    pub node_listen: SocketAddr,
    /// What join tokens tell nodes to connect to [default: the address above]
    #[arg(long, value_name = "HOST:PORT")]
    pub node_address: Option<String>,
    /// postgres://… [default: SQLite in the data folder]
    #[arg(long, value_name = "URL", env = "PINTLE_DATABASE", hide_env_values = true)]
    pub database: Option<String>,
    /// The key of the fleet's authority, the same for all servers [default: ca.key in the data folder]
    #[arg(long, value_name = "FILE")]
    pub ca_key: Option<PathBuf>,
    /// The key that secrets of connections are sealed with, the same for all servers [default: secrets.key in the data folder]
    #[arg(long, value_name = "FILE")]
    pub secrets_key: Option<PathBuf>,
    /// A folder that secrets of connections may be read from (--secret-path) [default: none are read from files]
    #[arg(long, value_name = "FOLDER")]
    pub secrets_folder: Option<PathBuf>,
    /// How long certificates of nodes last; nodes renew them at half of it
    #[arg(long, default_value = "24h", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub node_certificate_life: Duration,
}

/// What else is done with a server's folder.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Takes the fleet to another authority, step by step
    Ca(ca::Args),
}

/// Runs until Ctrl-C or SIGTERM.
///
/// # Errors
/// An address is in use, or the data cannot be opened.
pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    if let Some(Command::Ca(args)) = &args.command {
        return ca::run(args, context);
    }
    embed::log_to_stderr();
    let place = &context.place;
    std::fs::create_dir_all(place.server())
        .with_context(|| format!("make `{}`", place.server().display()))?;
    let server = embed::start_server(embed::ServerPlan {
        data: place.server(),
        database: args.database,
        people: args.listen,
        node: args.node_listen,
        node_address: args.node_address,
        authority_key: args.ca_key,
        secrets_key: args.secrets_key,
        secrets_folder: args.secrets_folder,
        node_certificate_life: Some(args.node_certificate_life),
    })
    .await?;
    let running = Running {
        people: format!("http://{}", server.people_address()),
        node: server.node_address().to_string(),
        mcp: None,
        pid: std::process::id(),
    };
    place.note_running(&running).context("note what runs in the data folder")?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"running": running, "token_file": place.admin_token()}))?;
    } else {
        out.line(format_args!(
            "The control plane runs at {}; nodes reach it at {}",
            running.people, running.node
        ))?;
        out.line(format_args!("  admin token  {}", place.admin_token().display()))?;
        out.hint("pintle edge create eu-1 && pintle node token --edge eu-1");
    }
    embed::until_told_to_stop().await?;
    out.note("Stopping.");
    server.stop().await;
    Ok(Exit::Done)
}
