//! `pintle-server`: one server of the control plane, until it is told to stop.
//!
//! `pintle server` runs the same with more comfort; this binary is what images and service units
//! start. Settings are flags or environment variables; logs go to stderr.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use control_plane::{Config, Server};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// One server of a Pintle control plane.
#[derive(Debug, Parser)]
#[command(name = "pintle-server", version)]
struct Settings {
    /// Folder for the database, archives and keys; only its owner may read it.
    #[arg(long, env = "PINTLE_DATA")]
    data: PathBuf,
    /// `sqlite:PATH` or `postgres://…`; by default `pintle.db` in the data folder.
    #[arg(long, env = "PINTLE_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Address for people and their programs (plain HTTP, so only on loopback).
    #[arg(long, env = "PINTLE_LISTEN", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// Address for nodes (mutual TLS).
    #[arg(long, env = "PINTLE_NODE_LISTEN", default_value = "127.0.0.1:7401")]
    node_listen: SocketAddr,
    /// `HOST:PORT` that nodes are told to connect to; by default the address for nodes.
    #[arg(long, env = "PINTLE_NODE_ADDRESS")]
    node_address: Option<String>,
    /// The fleet's name; counts at the first start.
    #[arg(long, env = "PINTLE_FLEET_NAME", default_value = "fleet")]
    fleet_name: String,
    /// The key of the fleet's authority; by default `ca.key` in the data folder.
    #[arg(long, env = "PINTLE_CA_KEY")]
    ca_key: Option<PathBuf>,
    /// The key that secrets of connections are sealed with; by default `secrets.key` in the data folder.
    #[arg(long, env = "PINTLE_SECRETS_KEY")]
    secrets_key: Option<PathBuf>,
    /// A folder that secrets of connections may be read from; by default none are read from files.
    #[arg(long, env = "PINTLE_SECRETS_FOLDER")]
    secrets_folder: Option<PathBuf>,
    /// How long certificates of nodes last, such as `24h`; nodes renew them at half of it.
    #[arg(long, env = "PINTLE_NODE_CERTIFICATE_LIFE", default_value = "24h", value_parser = life)]
    node_certificate_life: Duration,
    /// Logs as JSON, one object a line.
    #[arg(long, env = "PINTLE_LOG_JSON")]
    log_json: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let settings = Settings::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if settings.log_json {
        logs.json().init();
    } else {
        logs.init();
    }

    let server = Server::start(Config {
        database: settings.database,
        people_listen: settings.listen,
        node_listen: settings.node_listen,
        node_address: settings.node_address,
        fleet_name: settings.fleet_name,
        authority_key: settings.ca_key,
        secrets_key: settings.secrets_key,
        secrets_folder: settings.secrets_folder,
        node_certificate_life: settings.node_certificate_life,
        ..Config::new(settings.data)
    })
    .await
    .context("the server did not start")?;
    tracing::info!(
        people.address = %server.people_address(),
        nodes.address = %server.node_address(),
        data = %server.data().display(),
        "server started"
    );
    stop_signal().await?;
    tracing::info!("server stops");
    server.stop().await;
    Ok(())
}

/// `90s`, `30m` or `24h`.
fn life(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err("write it with s, m or h, such as 24h".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "write it as a whole number with s, m or h".to_owned())?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

async fn stop_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
