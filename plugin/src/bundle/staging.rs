//! The folder that a bundle is unpacked into before it is renamed into place.
//!
//! It starts empty and nothing but this makes anything in it, so no name in it is a link.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Error;

/// A folder in the making.
pub(super) struct Staging {
    root: PathBuf,
    /// Folders made so far, by path in the bundle.
    folders: BTreeSet<String>,
    open: Option<(PathBuf, File)>,
}

impl Staging {
    /// Takes an absent or empty folder.
    pub(super) fn new(root: &Path) -> Result<Self, Error> {
        match fs::create_dir(root) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut entries = fs::read_dir(root).map_err(Error::io("read the folder", root))?;
                if entries.next().is_some() {
                    return Err(Error::NotEmpty(root.to_owned()));
                }
            }
            Err(error) => return Err(Error::io("make the folder", root)(error)),
        }
        set_mode(root, 0o755)?;
        Ok(Self { root: root.to_owned(), folders: BTreeSet::new(), open: None })
    }

    /// Begins a file whose path was checked.
    pub(super) fn create(&mut self, path: &str, executable: bool) -> Result<(), Error> {
        for (at, _) in path.match_indices('/') {
            let folder = path.get(..at).unwrap_or_default();
            if self.folders.insert(folder.to_owned()) {
                let full = self.root.join(folder);
                fs::create_dir(&full).map_err(Error::io("make the folder", &full))?;
                set_mode(&full, 0o755)?;
            }
        }
        let full = self.root.join(path);
        let file = OpenOptions::new().write(true).create_new(true).open(&full);
        let file = file.map_err(Error::io("make the file", &full))?;
        set_mode(&full, if executable { 0o755 } else { 0o644 })?;
        self.open = Some((full, file));
        Ok(())
    }

    /// Writes to the file that was begun.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.open {
            Some((path, file)) => file.write_all(bytes).map_err(Error::io("write", path)),
            None => Ok(()),
        }
    }

    /// Ends the file and waits until it is on the disk.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        match self.open.take() {
            Some((path, file)) => file.sync_all().map_err(Error::io("sync", &path)),
            None => Ok(()),
        }
    }

    /// Waits until every name is on the disk as well.
    pub(super) fn sync(&self) -> Result<(), Error> {
        let folders = self.folders.iter().map(|folder| self.root.join(folder));
        for folder in folders.chain([self.root.clone()]) {
            sync_folder(&folder).map_err(Error::io("sync", &folder))?;
        }
        Ok(())
    }
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Sets the mode whatever the umask is.
#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;

    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(Error::io("set the mode of", path))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> Result<(), Error> {
    Ok(())
}
