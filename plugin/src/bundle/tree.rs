//! The files of a plugin's folder that go into its bundle, sorted; nothing is read but names.

use std::fs;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{Error, Limits, path};

/// The file that says what is not packed, in the syntax of `.gitignore`, at the plugin's root only.
const IGNORE_FILE: &str = ".pintleignore";

/// Bytes of that file: it is read into memory.
const MOST_IGNORE_BYTES: u64 = 64 * 1024;

/// Never packed, whatever [`IGNORE_FILE`] says: histories hold what authors took out again.
const NEVER: [&str; 3] = [".git", ".hg", ".svn"];

/// Not packed unless [`IGNORE_FILE`] takes it back in with a `!`: what machines, editors and package
/// tools leave behind, secrets of the author's own, and bundles packed before.
const DEFAULTS: [&str; 14] = [
    "node_modules/",
    "__pycache__/",
    "*.pyc",
    ".venv/",
    ".DS_Store",
    "Thumbs.db",
    "desktop.ini",
    "*~",
    "*.swp",
    ".idea/",
    ".vscode/",
    ".env",
    "*.pintle",
    ".*.pintle.part",
];

/// One file to be packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its path in the bundle.
    pub(crate) path: String,
    /// Where it is.
    pub(crate) source: PathBuf,
    /// Its bytes.
    pub(crate) len: u64,
}

/// Every file to be packed, sorted by the bytes of its path.
pub(crate) fn list(dir: &Path, limits: &Limits) -> Result<Vec<Found>, Error> {
    let mut walk = Walk { ignore: ignores(dir)?, limits, found: Vec::new(), total: 0 };
    walk.folder(dir, "")?;
    walk.found.sort_by(|a, b| a.path.cmp(&b.path));
    let mut names = path::Names::default();
    for file in &walk.found {
        names.add_file(&file.path).map_err(|clash| Error::Clash {
            path: file.path.clone(),
            earlier: clash.earlier,
            rule: clash.rule,
        })?;
    }
    Ok(walk.found)
}

fn ignores(dir: &Path) -> Result<Gitignore, Error> {
    let mut builder = GitignoreBuilder::new(dir);
    let bad = |line| move |source| Error::Ignore { line, source };
    for line in DEFAULTS {
        builder.add_line(None, line).map_err(bad(0))?;
    }
    let file = dir.join(IGNORE_FILE);
    match fs::symlink_metadata(&file) {
        Ok(meta) if !meta.is_file() => return Err(Error::path(IGNORE_FILE, "it is no regular file")),
        Ok(meta) if meta.len() > MOST_IGNORE_BYTES => {
            let (got, limit) = (meta.len(), MOST_IGNORE_BYTES);
            return Err(Error::Limit { path: IGNORE_FILE.into(), what: "bytes", got, limit });
        }
        Ok(_) => {
            let text = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
            for (index, line) in text.lines().enumerate() {
                builder.add_line(None, line).map_err(bad(index + 1))?;
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io("read", &file)(error)),
    }
    builder.build().map_err(bad(0))
}

struct Walk<'a> {
    ignore: Gitignore,
    limits: &'a Limits,
    found: Vec<Found>,
    total: u64,
}

impl Walk<'_> {
    fn folder(&mut self, dir: &Path, prefix: &str) -> Result<(), Error> {
        for entry in fs::read_dir(dir).map_err(Error::io("read the folder", dir))? {
            let entry = entry.map_err(Error::io("read the folder", dir))?;
            let source = entry.path();
            let kind = entry.file_type().map_err(Error::io("look at", &source))?;
            let os_name = entry.file_name();
            let name = os_name.to_string_lossy();
            let path = format!("{prefix}{name}");
            if NEVER.contains(&&*name) || self.ignore.matched(&source, kind.is_dir()).is_ignore() {
                continue;
            }
            if os_name.to_str().is_none() {
                return Err(Error::path(&path, "its name is not UTF-8"));
            }
            let bounds = path::Bounds { bytes: self.limits.path_bytes, depth: self.limits.path_depth };
            path::check(&path, &bounds).map_err(|rule| Error::path(&path, rule))?;
            if kind.is_dir() {
                self.folder(&source, &format!("{path}/"))?;
            } else if kind.is_symlink() {
                return Err(Error::path(
                    &path,
                    "it is a symbolic link; put the file itself there, or ignore it",
                ));
            } else if kind.is_file() {
                let len = entry.metadata().map_err(Error::io("look at", &source))?.len();
                self.file(Found { path, source, len })?;
            } else {
                return Err(Error::path(&path, "it is neither a file nor a folder"));
            }
        }
        Ok(())
    }

    fn file(&mut self, file: Found) -> Result<(), Error> {
        self.total = self.total.saturating_add(file.len);
        let counts = [
            ("bytes in one file", file.len, self.limits.file_bytes),
            ("bytes in all files", self.total, self.limits.total_bytes),
            ("files", self.found.len() as u64 + 1, self.limits.files as u64),
        ];
        for (what, got, limit) in counts {
            if got > limit {
                return Err(Error::Limit { path: file.path, what, got, limit });
            }
        }
        self.found.push(file);
        Ok(())
    }
}
