//! `pintle plugin init`: a new plugin from a template.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use plugin::init::{Template, init};
use serde_json::json;

use crate::context::Context;
use crate::exit::Exit;

/// Flags of `pintle plugin init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle plugin init greeter --template python")]
pub(crate) struct Args {
    /// The folder to write; the plugin is named after it
    pub dir: PathBuf,
    /// What it begins as
    #[arg(long, value_enum, default_value = "python")]
    pub template: Kind,
}

/// The templates, as the command line writes them.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
    /// An MCP server over stdio, in Python's standard library
    Python,
    /// The URL of a remote MCP server
    Remote,
}

/// Writes the plugin and says what to do next.
///
/// # Errors
/// The folder is not empty or its name can be no plugin's.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let template = match args.template {
        Kind::Python => Template::Python,
        Kind::Remote => Template::Remote,
    };
    let created = init(&args.dir, template)?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({"name": created.name.as_str(), "files": created.files}))?;
        return Ok(Exit::Done);
    }
    out.line(format_args!("Wrote the plugin `{}`:", created.name))?;
    for file in &created.files {
        out.line(format_args!("  {}", file.display()))?;
    }
    out.hint(format_args!("pintle plugin lint {}", args.dir.display()));
    out.hint(format_args!("pintle plugin push {}", args.dir.display()));
    Ok(Exit::Done)
}
