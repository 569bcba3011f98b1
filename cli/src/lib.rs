//! The `pintle` command line: every verb, and the two that embed a whole fleet (`up`, `demo`).
//!
//! [`main`] reads the command line and hands it to a file under `verb`; verbs talk to a control plane
//! through `client` and print through `output`. Nothing here decides what may be called.

use std::io;
use std::process::ExitCode;

use clap::Parser;

mod api;
mod args;
mod called;
mod client;
mod config;
mod context;
mod demo;
mod demo_tool;
mod embed;
mod exit;
mod failure;
mod output;
mod place;
mod verb;

use args::{Cli, Command};
use context::Context;
use exit::Exit;
use failure::Failure;
use output::Output;

/// Runs the command line of this process and says how it ended.
pub fn main() -> ExitCode {
    if node_agent::shim::is_shim() {
        return node_agent::shim::run();
    }
    // Ring is the one provider of cryptography; a second call finds it there and changes nothing.
    rustls::crypto::ring::default_provider().install_default().ok();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            error.print().ok();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let is_json = cli.global.json;
    let out = Output::new(is_json, cli.global.no_color);
    let outcome = Context::new(cli.global, out)
        .map_err(anyhow::Error::from)
        .and_then(|context| run(cli.command, &context));
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) if is_closed_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            let failure = Failure::from_error(&error);
            report(&failure, is_json);
            failure.exit.into()
        }
    }
}

fn report(failure: &Failure, is_json: bool) {
    if is_json {
        output::print_error(failure.as_json());
        return;
    }
    for line in failure.lines() {
        output::print_error(line);
    }
}

fn run(command: Command, context: &Context) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(verb::run(command, context));
    // Reads of stdin cannot be cancelled; they must not hold the process up.
    runtime.shutdown_background();
    outcome
}

/// Whether whoever reads our output (`head`, a pager) has seen enough.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
