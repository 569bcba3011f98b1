//! The admin token of the first start, in a file that only the server's user reads.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use domain::role::Role;

use super::{Scope, authenticate};
use crate::operation::issue_token::{TokenRequest, issue_token};
use crate::operation::{By, Error};
use crate::store::Store;

/// The file's name in the data folder.
pub const FILE_NAME: &str = "admin.token";

/// The admin token of this data folder. Made if the file is not there, or holds one that is not in
/// force, so that whoever owns the folder can always get in.
///
/// # Errors
/// What the store or the file system says.
pub async fn admin_token(store: &Store, by: &By, data: &Path) -> Result<String, Error> {
    let path = data.join(FILE_NAME);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let token = text.trim();
            if authenticate(store, by.now, token).await?.is_some() {
                return Ok(token.to_owned());
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => return Err(folder("read", &path, source)),
    }
    let request = TokenRequest {
        name: "admin".to_owned(),
        roles: vec![Role::Admin],
        scopes: vec![Scope::ApproveUnattended],
        expires_at: None,
    };
    let token = issue_token(store, by, &request).await?.token;
    write(&path, &token).map_err(|source| folder("write", &path, source))?;
    Ok(token)
}

/// Through a file beside it, so that a crash leaves the old one or the new one.
fn write(path: &Path, token: &str) -> std::io::Result<()> {
    let beside: PathBuf = path.with_extension("token.new");
    if beside.exists() {
        std::fs::remove_file(&beside)?;
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

fn folder(what: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Folder { what, path: path.display().to_string(), source }
}
