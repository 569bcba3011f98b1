//! `pintle node …`: join tokens, joining, running a node, the list of nodes, logs.

use anyhow::Result;
use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;

mod join;
mod list;
mod logs;
mod run;
mod show;
mod token;

/// Verbs of `pintle node`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Makes a join token: one string that holds all a node needs
    Token(token::Args),
    /// Joins this machine to a fleet
    Join(join::Args),
    /// Runs this machine's node until Ctrl-C
    Run(run::Args),
    /// Every node, and what is wrong with it
    List(list::Args),
    /// One node: what it has and is granted, what its tools are confined to, what is wrong with it
    Show(show::Args),
    /// What the tools of this machine's node write to stderr
    Logs(logs::Args),
}

/// Carries out one of them.
///
/// # Errors
/// As the verb does.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit> {
    match command {
        Command::Token(args) => token::run(&args, context).await,
        Command::Join(args) => join::run(&args, context).await,
        Command::Run(args) => run::run(&args, context).await,
        Command::List(args) => list::run(&args, context).await,
        Command::Show(args) => show::run(&args, context).await,
        Command::Logs(args) => logs::run(&args, context).await,
    }
}
