//! Why a tool did not start, as a sentence for the person who can mend it.

use std::time::Duration;

use crate::error::Error;

/// Why a tool did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The command names nothing.
    #[error("start the tool: its command is empty; name a program in the manifest")]
    EmptyCommand,
    /// No such program.
    #[error("start the tool: there is no program `{program}` {place}; {remedy}")]
    NoProgram {
        /// As the command names it.
        program: Box<str>,
        /// Where it was looked for.
        place: Box<str>,
        /// What to do.
        remedy: &'static str,
    },
    /// The system refused to start it.
    #[error("start the tool: the system does not run `{program}`")]
    Spawn {
        /// The file.
        program: Box<str>,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It ended before it had answered.
    #[error("start the tool: `{program}` {status} before it answered; run it by hand to see why{}", end_of_stderr(.stderr))]
    Exited {
        /// As the command names it.
        program: Box<str>,
        /// For example `ended with exit code 3`.
        status: Box<str>,
        /// The end of its stderr, made visible.
        stderr: Box<str>,
    },
    /// It wrote no message in time.
    #[error(
        "start the tool: `{program}` did not answer within {} s{}; a tool must speak MCP on stdin and stdout{}",
        .after.as_secs(), noise_note(.noise), end_of_stderr(.stderr)
    )]
    Silent {
        /// As the command names it.
        program: Box<str>,
        /// The limit.
        after: Duration,
        /// What came instead: a sentence, or empty.
        noise: Box<str>,
        /// The end of its stderr, made visible.
        stderr: Box<str>,
    },
    /// No revision in common.
    #[error(
        "agree with the tool on a protocol revision: it offers `{offered}`, this node speaks {spoken}; update the tool or the node"
    )]
    Version {
        /// What it offers.
        offered: Box<str>,
        /// What we speak.
        spoken: Box<str>,
    },
    /// The endpoint's URL, headers or certificates cannot be used.
    #[error("use the tool's settings: {0}")]
    Settings(Box<str>),
    /// The opening failed for another reason.
    #[error(transparent)]
    Opening(#[from] Error),
}

/// The revisions this build speaks, for [`StartError::Version`].
pub(crate) fn spoken() -> Box<str> {
    let mut spoken = vec![crate::wire::MODERN];
    spoken.extend(crate::wire::HANDSHAKE);
    spoken.join(", ").into()
}

fn end_of_stderr(stderr: &str) -> String {
    if stderr.is_empty() {
        "; its stderr is empty".to_owned()
    } else {
        format!("; the end of its stderr: {stderr}")
    }
}

fn noise_note(noise: &str) -> String {
    if noise.is_empty() { String::new() } else { format!(", {noise}") }
}
