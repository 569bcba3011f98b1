//! The demo tool's own record of calls: an outside witness of what reached it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

/// Appends one JSON line per call, or nowhere.
#[derive(Debug, Clone)]
pub(crate) struct Log(pub(crate) Option<PathBuf>);

impl Log {
    /// Notes a call before it is carried out. Several processes may share a file: a line is one write.
    pub(crate) fn call(&self, function: &str, arguments: &Value) {
        let Some(path) = &self.0 else { return };
        let line = format!("{}\n", json!({"function": function, "arguments": arguments}));
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(log.path = %path.display(), %error, "a call could not be noted");
        }
    }
}
