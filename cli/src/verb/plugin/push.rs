//! `pintle plugin push`: uploads a bundle, packing a folder first.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use domain::digest::Digest;
use futures::StreamExt;
use sha2::{Digest as _, Sha256};
use tokio_util::io::ReaderStream;

use super::pack::pack;
use crate::client::Client;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::progress::Progress;

/// Bytes per chunk: large enough to keep a fast network busy, small enough for a smooth bar.
const CHUNK: usize = 256 * 1024;

/// Flags of `pintle plugin push`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle plugin push ./greeter\n  pintle plugin push greeter-1.0.0.pintle\n\nPushing the same content again changes nothing and succeeds."
)]
pub(crate) struct Args {
    /// A bundle that `pintle plugin pack` wrote, or a plugin's folder, which is packed first
    #[arg(value_name = "FILE|DIR")]
    pub path: PathBuf,
}

/// Uploads and says what the control plane made of it.
///
/// # Errors
/// The bundle cannot be packed or read, or the control plane does not take it.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    let pushed = push(&args.path, &client, out).await?;
    if out.is_json() {
        out.json(&pushed)?;
        return Ok(Exit::Done);
    }
    let text = |member: &str| pushed.get(member).and_then(|value| value.as_str()).unwrap_or("?").to_owned();
    let (plugin, version) = (text("plugin"), text("version"));
    let is_new = pushed.get("created").and_then(serde_json::Value::as_bool) != Some(false);
    let what = if is_new { "Pushed" } else { "Was there already, with the same content:" };
    out.line(format_args!("{what} {plugin}@{version}"))?;
    out.line(format_args!("  content digest  {}", text("content_digest")))?;
    out.hint(format_args!("pintle assign {plugin}@{version} --edge EDGE"));
    Ok(Exit::Done)
}

/// Uploads the bundle or folder at `path`; answers what the API did.
///
/// # Errors
/// As [`run`].
pub(crate) async fn push(path: &Path, client: &Client, out: &Output) -> Result<serde_json::Value> {
    let meta = tokio::fs::metadata(path).await.map_err(|error| {
        Failure::usage(format!("`{}` cannot be read: {error}", path.display()))
            .remedy("name a plugin's folder, or a file that `pintle plugin pack` wrote")
    })?;
    if !meta.is_dir() {
        let sha256 = digest(path.to_owned()).await?;
        return upload(path, &sha256.to_string(), meta.len(), client, out).await;
    }
    let folder = Scratch::new()?;
    let packed = pack(path, &folder.0, out).await?;
    upload(&packed.path, &packed.archive_sha256.to_string(), packed.archive_len, client, out).await
}

async fn upload(
    path: &Path,
    sha256: &str,
    length: u64,
    client: &Client,
    out: &Output,
) -> Result<serde_json::Value> {
    let file = tokio::fs::File::open(path).await.with_context(|| format!("open `{}`", path.display()))?;
    let bar = Arc::new(Progress::bytes(out, "Pushing", length));
    let counted = Arc::clone(&bar);
    let body = ReaderStream::with_capacity(file, CHUNK).inspect(move |chunk| {
        if let Ok(chunk) = chunk {
            counted.add(chunk.len() as u64);
        }
    });
    let pushed = client.upload("/plugins/versions", sha256, length, body).await;
    bar.end();
    Ok(pushed?)
}

async fn digest(path: PathBuf) -> Result<Digest> {
    let name = path.display().to_string();
    let hashing = tokio::task::spawn_blocking(move || {
        let mut file = std::fs::File::open(path)?;
        let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK]);
        loop {
            let got = file.read(&mut chunk)?;
            if got == 0 {
                break;
            }
            hash.update(chunk.get(..got).unwrap_or_default());
        }
        Ok::<_, std::io::Error>(Digest::from_bytes(hash.finalize().into()))
    });
    hashing.await.context("read the bundle")?.with_context(|| format!("read `{name}`"))
}

/// A folder of this process in the system's temporary one, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("pintle-push-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).with_context(|| format!("make the folder `{}`", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning of its temporary folder.
        std::fs::remove_dir_all(&self.0).ok();
    }
}
