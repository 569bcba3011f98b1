//! How a tool was best opened the last time, in a small file beside its working folder, which goes with the
//! version. It spares a server that stays silent at the probe the wait for it, and nothing else hangs on it: what
//! cannot be read counts for none.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use domain::digest::Digest;
use tools::Opening;

use crate::ledger::{self, write_whole};

/// The form's name; another form gets another.
const FORM: &str = "pintle-opening-v1";

/// What is read of the file; it is shorter.
const MOST: u64 = 256;

/// The memory of one tool.
#[derive(Debug)]
pub(super) struct Memory {
    path: PathBuf,
    /// Of the URL that is opened, which may hold a secret.
    of: Digest,
    /// What the file says.
    noted: Opening,
}

impl Memory {
    /// Reads what an earlier start left for what is opened at `url` (empty for a process). Blocks.
    pub(super) fn read(path: PathBuf, url: &str) -> Self {
        let of = Digest::of(url.as_bytes());
        let noted = read(&path).and_then(|text| parse(&text, of)).unwrap_or_default();
        Self { path, of, noted }
    }

    /// What it is opened by.
    pub(super) const fn noted(&self) -> Opening {
        self.noted
    }

    /// Writes it down if it is another than before.
    pub(super) async fn note(&mut self, opening: Opening) {
        if self.noted == opening {
            return;
        }
        let (path, of) = (self.path.clone(), self.of);
        match tokio::task::spawn_blocking(move || write(&path, of, opening)).await {
            Ok(Ok(())) => self.noted = opening,
            Ok(Err(error)) => {
                tracing::warn!(reason = %crate::sentence(&error), "how a tool is opened cannot be written down; it is probed when the node starts again");
            }
            Err(_) => tracing::error!("the task that writes down how a tool is opened broke"),
        }
    }
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

fn write(path: &Path, of: Digest, opening: Opening) -> Result<(), ledger::Error> {
    let io = |verb, source| ledger::Error::Io { verb, path: path.to_owned(), source };
    let Some(word) = word(opening) else {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io("remove", error)),
            _ => Ok(()),
        };
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| io("make the folder of", error))?;
    }
    write_whole(path, &[format!("{FORM} {word} {of}\n").as_bytes()])
}

/// `None` for the probe, which is what no file says.
const fn word(opening: Opening) -> Option<&'static str> {
    match opening {
        Opening::Probe => None,
        Opening::Handshake => Some("handshake"),
        Opening::Older => Some("older"),
    }
}

fn parse(text: &str, of: Digest) -> Option<Opening> {
    let rest = text.strip_suffix('\n')?.strip_prefix(FORM)?.strip_prefix(' ')?;
    let (said, digest) = rest.split_once(' ')?;
    let known = [Opening::Handshake, Opening::Older];
    let opening = known.into_iter().find(|opening| word(*opening) == Some(said))?;
    (Digest::parse(digest).ok()? == of).then_some(opening)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_noted_is_read_again_and_what_is_torn_or_of_another_url_counts_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("team@1.0.0/wx.opening");
        let url = "https://a.example/mcp?key=SECRET";
        let at = |url: &str| Memory::read(path.clone(), url);
        assert_eq!(at(url).noted(), Opening::Probe);
        for opening in [Opening::Older, Opening::Handshake] {
            at(url).note(opening).await;
            assert_eq!((at(url).noted(), at("").noted()), (opening, Opening::Probe));
        }
        let whole = std::fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&whole).contains("SECRET"));
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(at(url).noted(), Opening::Probe, "{length}");
        }
        std::fs::write(&path, [&*whole, &[b'\n'; 1_000]].concat()).unwrap();
        assert_eq!(at(url).noted(), Opening::Probe);
        std::fs::write(&path, &whole).unwrap();
        let mut memory = at(url);
        memory.note(Opening::Probe).await;
        assert!(!path.exists() && memory.noted() == Opening::Probe);
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_tried_again_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("team@1.0.0");
        std::fs::write(&blocked, "no folder").unwrap();
        let path = blocked.join("wx.opening");
        let mut memory = Memory::read(path.clone(), "");
        memory.note(Opening::Handshake).await;
        assert_eq!(memory.noted(), Opening::Probe);
        std::fs::remove_file(&blocked).unwrap();
        memory.note(Opening::Handshake).await;
        assert_eq!(Memory::read(path, "").noted(), Opening::Handshake);
    }
}
