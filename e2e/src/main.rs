//! `bench`: the product's figures, side by side with what they are compared with, in one run.
//!
//! `cargo run --release --bin bench -- gateway`, `-- push --nodes 10000`, `storm` and `idle`. The hidden commands are the
//! processes that the benchmarks start beside themselves.

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures the product on this machine.
#[derive(Debug, Parser)]
#[command(name = "bench", version, about, long_about = None)]
struct Arguments {
    /// Print the figures as JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// What a call through a node's gateway adds to the direct call, beside a bare raw hop and mcp-proxy.
    Gateway(bench::gateway::Options),
    /// From an approval to its acknowledgement by every node, with the server's memory and CPU per node.
    Push(bench::push::Options),
    /// From `kill -9` of the server to every node holding its set again.
    Storm(bench::storm::Options),
    /// What a fleet costs that does nothing: database writes, processor time, memory.
    Idle(bench::idle::Options),
    /// A bare tonic server that writes the same bytes to all streams.
    #[command(hide = true)]
    BareServer(bench::bare::Options),
    /// A small tool server that echoes, over stdio or HTTP.
    #[command(hide = true)]
    EchoServer(bench::echo::Options),
    /// A hop that swaps ids between HTTP and stdio and does nothing else.
    #[command(hide = true)]
    RawHop(bench::hop::Options),
}

fn main() -> ExitCode {
    if node_agent::shim::is_shim() {
        return node_agent::shim::run();
    }
    // The fleets that are measured run from this same binary, so that nothing else has to be built first.
    if std::env::args_os().next().is_some_and(|name| name == "pintle") {
        return cli::main();
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let logs = tracing_subscriber::EnvFilter::new("warn");
    tracing_subscriber::fmt().with_env_filter(logs).with_writer(std::io::stderr).init();
    let arguments = Arguments::parse();
    match arguments.benchmark {
        Benchmark::Gateway(options) => bench::gateway::run(&options, arguments.json).await,
        Benchmark::Push(options) => bench::push::run(&options, arguments.json).await,
        Benchmark::Storm(options) => bench::storm::run(&options, arguments.json).await,
        Benchmark::Idle(options) => bench::idle::run(&options, arguments.json).await,
        Benchmark::BareServer(options) => bench::bare::serve(&options).await,
        Benchmark::EchoServer(options) => bench::echo::run(&options).await,
        Benchmark::RawHop(options) => bench::hop::run(&options).await,
    }
}
