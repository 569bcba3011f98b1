//! `pintle plugin pack`: a plugin's folder as one file, the same bytes on every machine.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use plugin::bundle::{self, Packed};
use serde_json::json;

use crate::context::Context;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::progress::Progress;

/// Flags of `pintle plugin pack`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle plugin pack ./greeter --out dist/")]
pub(crate) struct Args {
    /// The plugin's folder
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// The file to write, or the folder to write NAME-VERSION.pintle into
    #[arg(long, short, default_value = ".", value_name = "PATH")]
    pub out: PathBuf,
}

/// Packs and prints the digests.
///
/// # Errors
/// What keeps the folder from being a bundle, with the path.
pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let packed = pack(&args.dir, &args.out, &context.out).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&json!({
            "plugin": packed.version.plugin.as_str(),
            "version": packed.version.version.to_string(),
            "path": packed.path,
            "content_digest": packed.content_digest.to_string(),
            "archive_sha256": packed.archive_sha256.to_string(),
            "archive_length": packed.archive_len,
            "files": packed.files,
        }))?;
        return Ok(Exit::Done);
    }
    out.line(format_args!("Packed {} into {}", packed.version, packed.path.display()))?;
    out.line(format_args!("  files           {}", packed.files))?;
    out.line(format_args!(
        "  archive         {} bytes, sha256 {}",
        packed.archive_len, packed.archive_sha256
    ))?;
    out.line(format_args!("  content digest  {}", packed.content_digest))?;
    out.hint(format_args!("pintle plugin push {}", packed.path.display()));
    Ok(Exit::Done)
}

/// Packs beside the runtime's workers, with a bar where someone looks.
///
/// # Errors
/// As [`bundle::pack`].
pub(crate) async fn pack(dir: &Path, into: &Path, out: &Output) -> Result<Packed> {
    let bar = Progress::bytes(out, "Packing", 0);
    let (dir, into) = (dir.to_owned(), into.to_owned());
    let packing = tokio::task::spawn_blocking(move || {
        bundle::pack(&dir, &into, &mut |done, total| {
            bar.set_total(total);
            bar.set(done);
        })
    });
    Ok(packing.await.context("pack the plugin")??)
}
