//! `pintle demo`: the whole story, narrated and measured, with nothing but this program.

use anyhow::Result;

use crate::context::Context;
use crate::demo;
use crate::exit::Exit;

/// Flags of `pintle demo`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle demo\n  pintle demo --stay\n\nEverything runs on 127.0.0.1 and from a temporary folder; it exits with 0 only if every step was observed."
)]
pub(crate) struct Args {
    /// Leaves everything running at the end and says what to try
    #[arg(long)]
    pub stay: bool,
}

/// Plays it.
///
/// # Errors
/// The step that was not observed, and where the log is.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    demo::play(args.stay, &context.out).await
}
