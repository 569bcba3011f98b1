//! Downloading one archive into a file, from where it broke off last time.

use std::io::Read as _;
use std::path::Path;

use domain::digest::Digest;
use domain::plugin_set::PlannedVersion;
use reqwest::StatusCode;
use reqwest::header::RANGE;
use sha2::{Digest as _, Sha256};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

use super::{Error, io};

/// Bytes that are read at once of what was downloaded before.
const CHUNK: usize = 64 * 1024;

/// Downloads the archive; when this returns, the file has exactly the bytes that the plan names.
pub(super) async fn download(
    http: &reqwest::Client,
    url: &str,
    planned: &PlannedVersion,
    into: &Path,
) -> Result<(), Error> {
    let (mut hash, mut have) = resume(into).await?;
    if have > planned.archive_length {
        remove(into).await?;
        (hash, have) = (Sha256::new(), 0);
    }
    if have < planned.archive_length || planned.archive_length == 0 {
        have = fetch(http, url, planned, into, &mut hash, have).await?;
    }
    if have != planned.archive_length {
        // Short: the next try goes on from here.
        return Err(Error::Length { got: have, planned: planned.archive_length });
    }
    let got = Digest::from_bytes(hash.finalize().into());
    if got != planned.archive_sha256 {
        remove(into).await?;
        return Err(Error::Corrupt { got, planned: planned.archive_sha256 });
    }
    Ok(())
}

async fn fetch(
    http: &reqwest::Client,
    url: &str,
    planned: &PlannedVersion,
    into: &Path,
    hash: &mut Sha256,
    mut have: u64,
) -> Result<u64, Error> {
    let broken = |error: reqwest::Error| Error::Download(crate::sentence(&error.without_url()));
    let mut request = http.get(url);
    if have > 0 {
        request = request.header(RANGE, format!("bytes={have}-"));
    }
    let mut answer = request.send().await.map_err(broken)?;
    let append = match answer.status() {
        StatusCode::PARTIAL_CONTENT if have > 0 => true,
        StatusCode::OK => false,
        StatusCode::NOT_FOUND => {
            return Err(Error::Download(format!(
                "the control plane has no bundle {} for this node",
                planned.archive_sha256
            )));
        }
        status => return Err(Error::Download(format!("the control plane answers {status}"))),
    };
    if !append {
        (*hash, have) = (Sha256::new(), 0);
    }
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(append).truncate(!append);
    let mut file = options.open(into).await.map_err(io("open", into))?;
    while let Some(chunk) = answer.chunk().await.map_err(broken)? {
        have += chunk.len() as u64;
        if have > planned.archive_length {
            return Err(Error::Length { got: have, planned: planned.archive_length });
        }
        hash.update(&chunk);
        file.write_all(&chunk).await.map_err(io("write", into))?;
    }
    file.flush().await.map_err(io("write", into))?;
    Ok(have)
}

/// The hash and length of what is there already.
async fn resume(path: &Path) -> Result<(Sha256, u64), Error> {
    let path = path.to_owned();
    let read = move || {
        let mut hash = Sha256::new();
        let mut length = 0;
        let mut file = match std::fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((hash, 0)),
            Err(error) => return Err(io("open", &path)(error)),
        };
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = file.read(&mut chunk).map_err(io("read", &path))?;
            if count == 0 {
                return Ok((hash, length));
            }
            hash.update(chunk.get(..count).unwrap_or_default());
            length += count as u64;
        }
    };
    tokio::task::spawn_blocking(read).await.map_err(|_| Error::Task)?
}

async fn remove(path: &Path) -> Result<(), Error> {
    match File::open(path).await {
        Ok(_) => tokio::fs::remove_file(path).await.map_err(io("remove", path)),
        Err(_) => Ok(()),
    }
}
