//! The file of the checks that are expected to fail, and what does not agree with it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::{Outcome, Outcomes};

/// Reasons by `SCENARIO:CHECK` of one run.
type Expected = BTreeMap<String, String>;

/// Reads a run's section. A section begins with `[RUN]`; a line of it is `SCENARIO:CHECK REASON`.
///
/// # Errors
/// The file cannot be read, or a line has no reason.
fn section(path: &Path, run: &str) -> Result<Expected> {
    let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut expected = Expected::new();
    let mut is_ours = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(runs) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_ours = runs.split(',').any(|name| name.trim() == run);
        } else if is_ours {
            let (check, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            ensure!(!reason.trim().is_empty(), "{}: `{line}` has no reason", path.display());
            expected.insert(check.to_owned(), reason.trim().to_owned());
        }
    }
    Ok(expected)
}

/// Holds what came out against what is expected; each disagreement as a line.
///
/// # Errors
/// As [`section`].
pub fn hold(outcomes: &Outcomes, path: &Path, run: &str) -> Result<Vec<String>> {
    let expected = section(path, run)?;
    let mut wrong = Vec::new();
    for (check, outcome) in outcomes {
        if let (Outcome::Fails(message), false) = (outcome, expected.contains_key(check)) {
            wrong.push(format!("[{run}] {check} fails: {message}"));
        }
    }
    for (check, reason) in &expected {
        match outcomes.get(check) {
            Some(Outcome::Fails(_)) => {}
            Some(_) => wrong.push(format!("[{run}] {check} does not fail, but is expected to: {reason}")),
            None => wrong.push(format!("[{run}] {check} is expected to fail, but was not made")),
        }
    }
    Ok(wrong)
}
