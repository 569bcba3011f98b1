//! One tool's log on disk: the file, the one put aside before it, and how far they were read.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::output::shown;

/// Bytes of one file that are read at a time: twice what a node writes into one.
const MOST_BYTES: u64 = 2 << 20;

/// A tool's log.
#[derive(Debug)]
pub(super) struct Source {
    version: String,
    tool: String,
    path: PathBuf,
    at: Option<At>,
}

/// How far which file was read.
#[derive(Debug, Clone, Copy)]
struct At {
    inode: u64,
    offset: u64,
}

/// Every log below a node's folder of logs, in the order of their names.
///
/// # Errors
/// A folder is there and cannot be read.
pub(super) fn find(logs: &Path) -> io::Result<Vec<Source>> {
    let mut found = Vec::new();
    for version in names(logs)? {
        for file in names(&logs.join(&version))? {
            if let Some(tool) = file.strip_suffix(".log") {
                let path = logs.join(&version).join(&file);
                let (version, tool) = (shown::line(&version), shown::line(tool));
                found.push(Source { version, tool, path, at: None });
            }
        }
    }
    Ok(found)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

impl Source {
    /// `PLUGIN@VERSION`.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The tool.
    pub(super) fn tool(&self) -> &str {
        &self.tool
    }

    /// `PLUGIN@VERSION/TOOL`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.version, self.tool)
    }

    /// The whole lines that were not read yet.
    ///
    /// # Errors
    /// A file is there and cannot be read.
    pub(super) fn more(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let aside = self.path.with_extension("log.1");
        match (self.at, inode(&self.path)?) {
            (None, _) => _ = read(&aside, 0, &mut lines)?,
            (Some(at), Some(inode)) if inode == at.inode => {}
            (Some(at), _) => {
                // It was put aside meanwhile; if twice, the lines in between are gone.
                self.at = None;
                let offset = if inode(&aside)? == Some(at.inode) { at.offset } else { 0 };
                read(&aside, offset, &mut lines)?;
            }
        }
        let offset = self.at.map_or(0, |at| at.offset);
        self.at = read(&self.path, offset, &mut lines)?.or(self.at);
        Ok(lines)
    }
}

fn inode(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some(meta.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads whole lines from `offset` on; where it came to, if there is such a file.
fn read(path: &Path, offset: u64, lines: &mut Vec<String>) -> io::Result<Option<At>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let meta = file.metadata()?;
    // Shorter than what was read: it is another file of the same number.
    let offset = if offset > meta.len() { 0 } else { offset };
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
    lines.extend(text.lines().map(str::to_owned));
    Ok(Some(At { inode: meta.ino(), offset: offset + whole as u64 }))
}
