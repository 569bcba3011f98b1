//! `wire-diff`: random exchanges between agents and tools, directly and through a node, compared.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{Parser, Subcommand};
use e2e::differential::{self, Plan};
use e2e::fleet::Fleet;

/// Plays random exchanges directly and through a node, and compares what arrives at both ends.
#[derive(Debug, Parser)]
#[command(name = "wire-diff", version, about, long_about = None)]
struct Arguments {
    /// How many exchanges.
    #[arg(long, default_value_t = 100_000)]
    exchanges: u64,
    /// What they are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the exchange of this number.
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// How many go on at once.
    #[arg(long, default_value_t = 8)]
    workers: usize,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What the node starts as a tool.
    #[command(hide = true)]
    Pipe {
        /// Where the test listens.
        address: SocketAddr,
        /// `modern` or `handshake`.
        era: String,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let logs = tracing_subscriber::EnvFilter::new("warn");
    tracing_subscriber::fmt().with_env_filter(logs).with_writer(std::io::stderr).init();
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool> {
    if let Some(Command::Pipe { address, era }) = arguments.command {
        differential::pipe(address, &era).await?;
        return Ok(true);
    }
    let Arguments { exchanges, seed, only, workers, .. } = arguments;
    let fleet = Fleet::start(1).await?;
    let begin = Instant::now();
    let program = std::env::current_exe()?;
    let report = differential::run(&fleet, &program, Plan { exchanges, seed, only, workers }).await?;
    for difference in &report.differences {
        tracing::error!("{difference}");
    }
    let (played, count) = (report.played, report.differences.len());
    tracing::warn!("{played} exchanges in {:.1} s, {count} differences", begin.elapsed().as_secs_f64());
    Ok(count == 0)
}
