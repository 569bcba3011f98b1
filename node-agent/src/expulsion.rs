//! A node that is no longer of its fleet: it was evicted or banned. It calls nothing, stops its tools, drops its
//! key, its plugin set and its bundles, says so to whoever asks, and does not come back by itself.
//!
//! That it was so is on the disk first (`expelled.json`), so that a kill in the middle, or a restart, changes
//! nothing: the rest is dropped at the next start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::id::EdgeName;
use domain::refusal::{Code, Refusal};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::identity::{self, Files, read, remove, write_private};
use crate::reliance::Reliance;
use crate::supervisor::Supervisor;

/// How long tools may take to end.
const TOOLS_STOP: Duration = Duration::from_secs(10);

/// The marker's file.
const MARKER: &str = "expelled.json";

/// That a node was evicted or banned.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Expulsion {
    /// `evicted` or `banned`.
    code: String,
    /// The control plane's sentence.
    reason: String,
    at_ms: i64,
}

impl Expulsion {
    /// What a Goodbye's code says; `None` if it ends nothing for good.
    pub(crate) fn of(code: &str, reason: &str) -> Option<Self> {
        let is_final = matches!(code, "evicted" | "banned");
        let reason = domain::visible::make_visible_up_to(reason, 1_000);
        is_final.then(|| Self { code: code.to_owned(), reason, at_ms: crate::now().as_millis() })
    }

    /// The node that this folder was of was expelled. Blocks.
    ///
    /// # Errors
    /// The marker cannot be read.
    pub(crate) fn read(data: &Path) -> Result<Option<Self>, identity::Error> {
        let path = data.join(MARKER);
        let Some(text) = read(&path)? else { return Ok(None) };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| identity::Error::File { path, reason: error.to_string() })
    }

    /// The folder is a joined node's again. Blocks.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn forget(data: &Path) -> Result<(), identity::Error> {
        remove(&data.join(MARKER))
    }

    /// Whether it is a ban.
    pub(crate) fn is_ban(&self) -> bool {
        self.code == "banned"
    }

    /// What every call is answered with.
    pub(crate) fn refusal(&self, edge: &EdgeName, data: &Path) -> Refusal {
        let reason = &self.reason;
        let sentence = if self.is_ban() {
            format!(
                "This node is banned from its fleet: {reason}. It calls nothing, and the fleet does not take it \
                 back. Ask an operator why."
            )
        } else {
            format!(
                "This node was taken out of its fleet: {reason}. It calls nothing and does not come back by itself. \
                 Ask an operator for a join string (pintle node token --edge {edge}), then run on this machine: {}",
                rejoin(data)
            )
        };
        Refusal::new(Code::NodeEvicted, sentence)
    }

    /// Writes it down and drops what lets the node work. Blocks.
    fn keep(&self, data: &Path) -> Result<(), identity::Error> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        write_private(&data.join(MARKER), &text)?;
        let files = Files::new(data);
        remove(&files.key)?;
        remove(&files.session)?;
        remove_folder(&data.join("ledger"))
    }

    /// Drops what is left of a node that was expelled, at its start. Blocks.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn finish(&self, data: &Path) -> Result<(), identity::Error> {
        self.keep(data)?;
        remove_folder(&data.join("bundles"))?;
        remove_folder(&data.join("staging"))
    }
}

/// How this machine joins again.
pub(crate) fn rejoin(data: &Path) -> String {
    format!("pintle node join STRING --node-data {}", data.display())
}

/// What a node of which copies were seen answers every call with.
pub(crate) fn quarantined(reason: &str) -> Refusal {
    let reason = domain::visible::make_visible_up_to(reason, 1_000);
    let sentence = format!(
        "This node calls nothing: {reason}. It serves again by itself once a person picked this machine; ask an \
         operator to do so."
    );
    Refusal::new(Code::NodeEvicted, sentence)
}

/// Carries it out on a running node.
pub(crate) struct Expeller {
    pub(crate) data: PathBuf,
    pub(crate) edge: EdgeName,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) reliance: Arc<Reliance>,
    /// Everything that would begin something new.
    pub(crate) stop: Vec<CancellationToken>,
}

impl Expeller {
    /// The node was expelled: it calls nothing from now on. Returns when its tools are down.
    pub(crate) async fn expel(&self, expulsion: Expulsion) {
        tracing::error!(
            code = expulsion.code,
            reason = expulsion.reason,
            "this node was taken out of its fleet"
        );
        self.supervisor.expel(expulsion.refusal(&self.edge, &self.data));
        self.reliance.end();
        let (data, kept) = (self.data.clone(), expulsion.clone());
        let done = tokio::task::spawn_blocking(move || kept.keep(&data)).await;
        log(done);
        self.stop.iter().for_each(CancellationToken::cancel);
        self.supervisor.stop_all(TOOLS_STOP).await;
        let data = self.data.clone();
        log(tokio::task::spawn_blocking(move || expulsion.finish(&data)).await);
    }

    /// A node that waits for its plugin set never gets it: its certificate ended too long ago. One that still
    /// serves goes on.
    pub(crate) fn lapsed(&self, reason: &str) {
        let (edge, rejoin) = (&self.edge, rejoin(&self.data));
        self.supervisor.turn_away_waiting(Refusal::new(
            Code::NodeEvicted,
            format!(
                "This node is of its fleet no longer: {reason}. Ask an operator for a join string (pintle node token \
                 --edge {edge}), then run on this machine: {rejoin}"
            ),
        ));
    }
}

fn log(done: Result<Result<(), identity::Error>, tokio::task::JoinError>) {
    if let Ok(Err(error)) = done {
        let reason = crate::sentence(&error);
        tracing::error!(reason, "files of a node that was taken out of its fleet could not be dropped");
    }
}

fn remove_folder(path: &Path) -> Result<(), identity::Error> {
    match std::fs::remove_dir_all(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(identity::Error::Io { verb: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_eviction_and_a_ban_end_a_node_for_good() {
        for code in ["drain", "superseded", "refused", "quarantined", "repeat", ""] {
            assert!(Expulsion::of(code, "x").is_none(), "{code}");
        }
        let edge = EdgeName::parse("eu-1").unwrap();
        let evicted = Expulsion::of("evicted", "by token/admin\u{200b}").unwrap();
        let sentence = evicted.refusal(&edge, Path::new("/data/node")).sentence;
        for part in
            ["by token/admin\\u{200B}", "pintle node token --edge eu-1", "join STRING --node-data /data/node"]
        {
            assert!(sentence.contains(part), "{sentence}");
        }
        let banned = Expulsion::of("banned", "x").unwrap();
        assert!(!banned.refusal(&edge, Path::new("/d")).sentence.contains("join"));
    }

    #[test]
    fn what_lets_a_node_work_is_dropped_and_the_marker_outlives_it() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        for file in ["node.key", "node.pem", "node.json", "session"] {
            std::fs::write(data.join(file), "x").unwrap();
        }
        for folder in ["ledger", "bundles", "staging", "logs"] {
            std::fs::create_dir(data.join(folder)).unwrap();
            std::fs::write(data.join(folder).join("x"), "x").unwrap();
        }
        assert!(Expulsion::read(data).unwrap().is_none());
        Expulsion::of("evicted", "gone").unwrap().keep(data).unwrap();
        let read = Expulsion::read(data).unwrap().unwrap();
        assert_eq!(read.reason, "gone");
        read.finish(data).unwrap();
        read.finish(data).unwrap();
        for gone in ["node.key", "session", "ledger", "bundles", "staging"] {
            assert!(!data.join(gone).exists(), "{gone}");
        }
        for kept in ["node.pem", "node.json", "logs"] {
            assert!(data.join(kept).exists(), "{kept}");
        }
        Expulsion::forget(data).unwrap();
        assert!(Expulsion::read(data).unwrap().is_none());
    }
}
