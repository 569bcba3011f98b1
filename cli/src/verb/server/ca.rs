//! `pintle server ca …`: takes a fleet to another authority, step by step, by moving key files.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;

use crate::context::Context;
use crate::embed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::good;

/// Flags of `pintle server ca`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle server ca begin\n\n\
    1. begin, restart the server; wait until every node has renewed its certificate (GET /api/v1/status counts those that have not)\n\
    2. switch, restart the server; wait again\n\
    3. finish, restart the server; join strings from before step 2 no longer work")]
pub(crate) struct Args {
    /// What to do
    #[arg(value_name = "STEP")]
    pub step: Step,
    /// The key of the authority that issues [default: ca.key in the server's folder]
    #[arg(long, value_name = "FILE", env = "PINTLE_CA_KEY")]
    pub ca_key: Option<PathBuf>,
}

/// A step of a roll-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Makes the next authority's key; it is trusted beside the present one
    Begin,
    /// The next authority issues; the present one is trusted beside it
    Switch,
    /// Takes a switch back
    Back,
    /// The authority of before is trusted no longer; its key is put aside
    Finish,
}

/// Moves the key files.
///
/// # Errors
/// A file that must be there is not, or one that must not be is.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let key = args.ca_key.clone().unwrap_or_else(|| context.place.server().join("ca.key"));
    let step = match args.step {
        Step::Begin => embed::Move::Begin,
        Step::Switch => embed::Move::Switch,
        Step::Back => embed::Move::Back,
        Step::Finish => embed::Move::Finish,
    };
    let folder = key.parent().unwrap_or(&key).to_owned();
    embed::move_authority(&key, step).map_err(|error| {
        Failure::from_error(&error).remedy(format!("look at the key files in `{}`", folder.display()))
    })?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"folder": folder}))?;
        return Ok(Exit::Done);
    }
    let (done, next) = match args.step {
        Step::Begin => {
            ("The next authority's key is made (ca.next.key).", "give every server this file and restart it")
        }
        Step::Switch => (
            "The next authority's key is ca.key.",
            "give every server these files and restart it, one after the other",
        ),
        Step::Back => ("The key files are as they were before the switch.", "restart the server"),
        Step::Finish => ("The authority of before is put aside (ca.retired.key).", "restart every server"),
    };
    out.line(good(done))?;
    out.hint(next);
    Ok(Exit::Done)
}
