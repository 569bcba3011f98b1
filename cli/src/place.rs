//! Where things are: the data folder, the control plane that runs from it, the token to it.
//!
//! `pintle up` and `pintle server` leave [`Running`] in the data folder; every other command finds them
//! by it unless flags or the environment name another control plane.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::failure::Failure;

/// Bytes of a token or address file that are read: a hundred times what they hold.
const MOST_BYTES: u64 = 16 * 1024;

/// The file in the data folder that says what runs from it.
const RUNNING: &str = "up.json";

/// The data folder and what lies where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    data: PathBuf,
}

/// Addresses of what runs from a data folder; stays there when it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// The people's port: `http://HOST:PORT`.
    pub people: String,
    /// The node port: `HOST:PORT`.
    pub node: String,
    /// The MCP endpoint of the node beside it: `http://HOST:PORT/mcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<String>,
    /// The process.
    pub pid: u32,
}

impl Place {
    /// The folder that was named, else `pintle` in the XDG data home.
    ///
    /// # Errors
    /// None was named and there is no home.
    pub(crate) fn new(named: Option<&Path>) -> Result<Self, Failure> {
        let env = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = named
            .map(Path::to_owned)
            .or_else(|| env("XDG_DATA_HOME").map(|home| home.join("pintle")))
            .or_else(|| env("HOME").map(|home| home.join(".local/share/pintle")));
        let data = data.ok_or_else(|| {
            Failure::usage("there is no home folder to keep data in")
                .remedy("name a data folder with --data DIR")
        })?;
        let data = std::path::absolute(&data)
            .map_err(|error| Failure::usage(format!("`{}` is no folder: {error}", data.display())))?;
        Ok(Self { data })
    }

    /// The data folder itself.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// What the control plane keeps.
    pub(crate) fn server(&self) -> PathBuf {
        self.data.join("server")
    }

    /// The token of the admin that the first start makes.
    pub(crate) fn admin_token(&self) -> PathBuf {
        self.server().join("admin.token")
    }

    /// What this machine's node keeps.
    pub(crate) fn node(&self) -> PathBuf {
        self.data.join("node")
    }

    /// What runs, or last ran, from the folder.
    ///
    /// # Errors
    /// The file is there but cannot be read.
    pub(crate) fn running(&self) -> Result<Option<Running>, Failure> {
        let path = self.data.join(RUNNING);
        let Some(text) = read_small(&path)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            Failure::failed(format!("`{}` is damaged: {error}", path.display()))
                .remedy("start `pintle up` again, which writes it anew")
        })
    }

    /// Notes what runs.
    ///
    /// # Errors
    /// The file system says no.
    pub(crate) fn note_running(&self, running: &Running) -> io::Result<()> {
        let partial = self.data.join(format!("{RUNNING}.part"));
        fs::write(&partial, serde_json::to_vec_pretty(running)?)?;
        fs::rename(partial, self.data.join(RUNNING))
    }
}

/// The text of a small file without the white space at its ends; `None` if there is no such file.
///
/// # Errors
/// It cannot be read, or is no small text.
pub(crate) fn read_small(path: &Path) -> Result<Option<String>, Failure> {
    let failed = |reason: String| Failure::failed(format!("`{}` cannot be read: {reason}", path.display()));
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
        Ok(meta) if meta.len() > MOST_BYTES => {
            return Err(failed(format!("{} bytes, where at most {MOST_BYTES} are expected", meta.len())));
        }
        Ok(_) => {}
    }
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    Ok(Some(text.trim().to_owned()))
}

/// The token in `file`.
///
/// # Errors
/// There is none; the remedy says how to get one.
pub(crate) fn token_from(file: &Path) -> Result<String, Failure> {
    match read_small(file)? {
        Some(token) if !token.is_empty() => Ok(token),
        _ => Err(Failure::new(Exit::Refused, format!("there is no token in `{}`", file.display()))
            .remedy("name the file that holds your token with --token-file FILE, or set PINTLE_TOKEN")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::new(Some(folder.path())).expect("a place");
        assert_eq!(place.running(), Ok(None));
        let running = Running {
            people: "http://127.0.0.1:7400".into(),
            node: "127.0.0.1:7401".into(),
            mcp: None,
            pid: 7,
        };
        place.note_running(&running).expect("written");
        assert_eq!(place.running(), Ok(Some(running)));
    }

    #[test]
    fn a_damaged_file_is_named_with_its_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(RUNNING), "{").expect("written");
        let failure = Place::new(Some(folder.path())).expect("a place").running().expect_err("damaged");
        assert!(failure.sentence.contains("up.json"), "{failure}");
        assert!(failure.remedy.is_some());
    }

    #[test]
    fn an_empty_token_file_is_no_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        fs::write(&file, "\n").expect("written");
        assert_eq!(token_from(&file).expect_err("empty").exit, Exit::Refused);
    }
}
