//! What a person or a script is told when a command fails: one sentence, a remedy, an exit code.
//!
//! Errors of other crates come here through `anyhow` and are printed as `failed to …` with their chain.

use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output::shown;

/// A failure in words for the person at the keyboard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub(crate) struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// What happened, one sentence without its stop.
    pub sentence: String,
    /// What to do about it, often an exact command.
    pub remedy: Option<String>,
    /// The stable code of a problem or refusal.
    pub code: Option<String>,
    /// Finds the request in the control plane's log.
    pub request_id: Option<String>,
}

impl Failure {
    /// A failure that ends the process with `exit`.
    pub(crate) fn new(exit: Exit, sentence: impl Into<String>) -> Self {
        Self { exit, sentence: sentence.into(), remedy: None, code: None, request_id: None }
    }

    /// A plain failure.
    pub(crate) fn failed(sentence: impl Into<String>) -> Self {
        Self::new(Exit::Failed, sentence)
    }

    /// A command line that cannot be carried out as written.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self::new(Exit::Usage, sentence)
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// From any error: itself if it is a failure, else its chain as one sentence.
    pub(crate) fn from_error(error: &anyhow::Error) -> Self {
        if let Some(failure) = error.downcast_ref::<Self>() {
            return failure.clone();
        }
        let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
        Self::failed(format!("failed to {}", chain.join(": ")))
    }

    /// For `--json`: a stable shape on stderr.
    pub(crate) fn as_json(&self) -> Value {
        json!({"error": {
            "sentence": self.sentence,
            "remedy": self.remedy,
            "code": self.code,
            "request_id": self.request_id,
            "exit": self.exit.code(),
        }})
    }

    /// For people: at most three lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("error: {}", shown::block(&self.sentence))];
        if let Some(remedy) = &self.remedy {
            lines.push(format!("  try: {}", shown::block(remedy)));
        }
        match (&self.code, &self.request_id) {
            (Some(code), Some(id)) => {
                lines.push(format!("  ({}, request {})", shown::line(code), shown::line(id)));
            }
            (Some(code), None) => lines.push(format!("  ({})", shown::line(code))),
            (None, _) => {}
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_becomes_one_sentence() {
        let error = anyhow::Error::from(std::io::Error::other("disk is full")).context("write `x`");
        assert_eq!(Failure::from_error(&error).sentence, "failed to write `x`: disk is full");
    }

    #[test]
    fn a_failure_passes_through_anyhow_unchanged() {
        let failure = Failure::new(Exit::Open, "two changes wait").remedy("pintle plugin list");
        assert_eq!(Failure::from_error(&anyhow::Error::from(failure.clone())), failure);
    }

    #[test]
    fn text_from_elsewhere_is_shown_visible() {
        let lines = Failure::failed("a\u{202E}b").lines();
        assert_eq!(lines, ["error: a\\u{202E}b"]);
    }
}
