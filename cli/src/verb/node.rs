//! `pintle node …`: join tokens, joining, running a node, the list of nodes, taking nodes out, logs.

use anyhow::Result;
use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;

mod expel;
mod join;
mod keep;
mod list;
mod logs;
mod rm;
mod run;
mod show;
mod token;

/// Verbs of `pintle node`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Makes, lists and revokes join tokens: one string that holds all a node needs
    Token(token::Args),
    /// Joins this machine to a fleet
    Join(join::Args),
    /// Runs this machine's node until Ctrl-C
    Run(run::Args),
    /// Every node, and what is wrong with it
    List(list::Args),
    /// One node: how it stands, what it has and is granted, what its tools are confined to, what is wrong with it
    Show(show::Args),
    /// Takes a node out of the fleet: it stops at once and must join again
    #[command(after_help = "Example:\n  pintle node evict node-3 --reason 'the disk is replaced'")]
    Evict(expel::Args),
    /// Takes a node out of the fleet for ever
    #[command(after_help = "Example:\n  pintle node ban node-3 --reason 'the laptop was stolen'")]
    Ban(expel::Args),
    /// Of a node that has copies, picks the one that goes on
    Keep(keep::Args),
    /// Takes an evicted node off the list
    Rm(rm::Args),
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
        Command::Evict(args) => expel::run(expel::Way::Evict, &args, context).await,
        Command::Ban(args) => expel::run(expel::Way::Ban, &args, context).await,
        Command::Keep(args) => keep::run(&args, context).await,
        Command::Rm(args) => rm::run(&args, context).await,
        Command::Logs(args) => logs::run(&args, context).await,
    }
}
