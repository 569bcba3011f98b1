//! `pintle plugin …`: an author's commands and those of who approves.

use anyhow::Result;
use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;

mod approve_tools;
pub(crate) mod in_force;
mod init;
mod lint;
mod list;
pub(crate) mod notices;
pub(crate) mod open;
mod pack;
pub(crate) mod push;
mod reject_tools;
mod show;
mod take_back;

/// Verbs of `pintle plugin`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Writes a new plugin that works as it is
    Init(init::Args),
    /// Says what would go wrong with a plugin, without running it
    Lint(lint::Args),
    /// Packs a plugin's folder into one file
    Pack(pack::Args),
    /// Uploads a bundle, packing a folder first
    Push(push::Args),
    /// Every plugin, and what of it needs attention
    List(list::Args),
    /// One plugin, its versions and what its nodes do with it
    Show(show::Args),
    /// Shows what tools changed and makes it what the fleet goes by
    ApproveTools(approve_tools::Args),
    /// Keeps a changed listing refused and out of the alerts
    RejectTools(reject_tools::Args),
}

/// Carries out one of them.
///
/// # Errors
/// As the verb does.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit> {
    match command {
        Command::Init(args) => init::run(&args, context),
        Command::Lint(args) => lint::run(&args, context),
        Command::Pack(args) => pack::run(args, context).await,
        Command::Push(args) => push::run(&args, context).await,
        Command::List(args) => list::run(&args, context).await,
        Command::Show(args) => show::run(&args, context).await,
        Command::ApproveTools(args) => approve_tools::run(&args, context).await,
        Command::RejectTools(args) => reject_tools::run(&args, context).await,
    }
}
