//! The control file: what the demo tool lists, as `{"tools": [ENTRY, …]}`, read again when it changes.
//!
//! A file that is absent or half written leaves the last good list in place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

/// Between two looks: a person changing the file sees it at once, and it costs next to nothing.
const LOOK: Duration = Duration::from_millis(50);

/// What is listed, entry by entry, byte for byte.
pub(crate) type Listed = Arc<Vec<Box<RawValue>>>;

#[derive(Deserialize)]
struct Control {
    tools: Vec<Box<RawValue>>,
}

/// Reads the text of a control file.
///
/// # Errors
/// It is no JSON, or has no `tools`.
pub(crate) fn parse(text: &str) -> serde_json::Result<Listed> {
    serde_json::from_str::<Control>(text).map(|control| Arc::new(control.tools))
}

/// Writes a control file in one step, so that no reader sees half of it.
///
/// # Errors
/// As the file system says.
pub(crate) fn write(path: &Path, entries: &[&str]) -> io::Result<()> {
    let partial = path.with_extension("part");
    fs::write(&partial, format!(r#"{{"tools":[{}]}}"#, entries.join(",")))?;
    fs::rename(partial, path)
}

/// Watches `path` from now on; `first` is listed until the file says otherwise.
pub(crate) fn watch(path: Option<PathBuf>, first: Listed) -> watch::Receiver<Listed> {
    let text = path.as_deref().and_then(|path| fs::read_to_string(path).ok());
    let listed = text.as_deref().and_then(|text| parse(text).ok()).unwrap_or(first);
    let (sender, receiver) = watch::channel(listed);
    if let Some(path) = path {
        tokio::spawn(follow(path, text, sender));
    } else {
        // Keeps the channel open without a change ever coming.
        tokio::spawn(async move { sender.closed().await });
    }
    receiver
}

async fn follow(path: PathBuf, mut last: Option<String>, sender: watch::Sender<Listed>) {
    let mut tick = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = sender.closed() => return,
            _ = tick.tick() => {}
        }
        let Ok(text) = tokio::fs::read_to_string(&path).await else { continue };
        if last.as_ref() == Some(&text) {
            continue;
        }
        if let Ok(listed) = parse(&text) {
            sender.send_replace(listed);
        }
        last = Some(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_changed_file_is_noticed_and_a_broken_one_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.json");
        write(&path, &[r#"{"name":"a","n":1E2}"#]).expect("written");
        let mut listed = watch(Some(path.clone()), Arc::default());
        assert_eq!(listed.borrow().first().expect("an entry").get(), r#"{"name":"a","n":1E2}"#);
        fs::write(&path, r#"{"tools":["#).expect("written");
        write(&path, &[r#"{"name":"b"}"#]).expect("written");
        listed.changed().await.expect("the watcher runs");
        assert_eq!(listed.borrow().first().expect("an entry").get(), r#"{"name":"b"}"#);
    }
}
