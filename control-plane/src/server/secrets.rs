//! What remote tools are reached with, as a server starts: the key that it is sealed with, the folder it may be in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::time::Timestamp;

use super::{Config, Error};
use crate::connector::Connector;
use crate::oauth::Asker;
use crate::operation::By;
use crate::operation::start_fleet::bind_secrets;
use crate::store::{Store, meta};
use crate::vault::Vault;

pub(super) async fn open(
    config: &Config,
    store: &Store,
    by: &By,
    clock: fn() -> Timestamp,
) -> Result<Connector, Error> {
    let vault = Arc::new(open_vault(config, store, by).await?);
    let asker = Asker::new().map_err(Error::Asker)?;
    let files = config.secrets_folder.as_deref().map(|at| open_folder(at, config)).transpose()?;
    Ok(Connector::new(store.clone(), vault, asker, files, clock))
}

/// A folder for secrets that has nothing of the server's own in it, nor is in what has.
fn open_folder(path: &Path, config: &Config) -> Result<PathBuf, Error> {
    let fault = |why: String| Error::SecretsFolder { path: path.to_owned(), why };
    let real =
        |path: &Path| path.canonicalize().map_err(|error| fault(format!("{}: {error}", path.display())));
    let folder = real(path)?;
    if !folder.is_dir() {
        return Err(fault("it is no folder".to_owned()));
    }
    let keys = config.authority_key.iter().chain(&config.secrets_key);
    for own in std::iter::once(&config.data).chain(keys) {
        let own = real(own)?;
        if own.starts_with(&folder) || folder.starts_with(&own) {
            return Err(fault(format!("{} is there, which is the server's own", own.display())));
        }
    }
    Ok(folder)
}

/// What the fleet's secrets are sealed with: made by the first server, the same for each after it.
async fn open_vault(config: &Config, store: &Store, by: &By) -> Result<Vault, Error> {
    let path = config.secrets_key.clone().unwrap_or_else(|| config.data.join("secrets.key"));
    let mut tx = store.read().await.map_err(Error::Store)?;
    let bound = meta::get(&mut tx, meta::SECRETS_KEY).await.map_err(Error::Store)?;
    drop(tx);
    let vault = Vault::open(&path, bound.as_deref())?;
    // Of two servers that start at once on a new database, one binds its key and the other stops.
    let bound = bind_secrets(store, by, &vault.key_sha256()).await.map_err(Error::Prepare)?;
    vault.check_bound(&path, &bound)?;
    Ok(vault)
}
