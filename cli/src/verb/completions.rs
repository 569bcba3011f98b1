//! `pintle completions`: the shell's completion script.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::context::Context;
use crate::exit::Exit;

/// Flags of `pintle completions`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  pintle completions bash > ~/.local/share/bash-completion/completions/pintle"
)]
pub(crate) struct Args {
    /// The shell
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// As writing to stdout does.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pintle", &mut script);
    context.out.line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}
