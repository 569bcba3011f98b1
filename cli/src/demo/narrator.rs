//! Tells the story: a sentence per step, what was observed, and how long it took.

use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::output::{Output, bold, dim, good};

/// Speaks to stdout; with `--json` only the observations at the end.
#[derive(Debug)]
pub(crate) struct Narrator<'a> {
    out: &'a Output,
    step: usize,
    began: Instant,
    observed: Vec<Value>,
}

impl<'a> Narrator<'a> {
    /// Begins the story.
    pub(crate) fn new(out: &'a Output) -> Self {
        Self { out, step: 0, began: Instant::now(), observed: Vec::new() }
    }

    /// How this process prints.
    pub(crate) const fn out(&self) -> &'a Output {
        self.out
    }

    /// The step that is being played.
    pub(crate) const fn step(&self) -> usize {
        self.step
    }

    /// Begins a step with its sentence.
    ///
    /// # Errors
    /// As writing to stdout does.
    pub(crate) fn chapter(&mut self, sentence: &str) -> io::Result<()> {
        self.step += 1;
        self.say(&format!("\n{} {}", bold(format!("{}.", self.step)), bold(sentence)))
    }

    /// What was observed, and after how long.
    ///
    /// # Errors
    /// As [`Narrator::chapter`].
    pub(crate) fn observed(&mut self, what: &str, took: Option<Duration>) -> io::Result<()> {
        let ms = took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        self.observed.push(json!({"step": self.step, "what": what, "ms": ms}));
        let time = ms.map(|ms| dim(format!("  ({ms} ms)"))).unwrap_or_default();
        self.say(&format!("   {} {what}{time}", good("✓")))
    }

    /// Lines that are shown as they are, indented.
    ///
    /// # Errors
    /// As [`Narrator::chapter`].
    pub(crate) fn quote<T: AsRef<str>>(&self, lines: impl IntoIterator<Item = T>) -> io::Result<()> {
        lines
            .into_iter()
            .flat_map(|text| text.as_ref().lines().map(str::to_owned).collect::<Vec<_>>())
            .try_for_each(|line| self.say(&format!("     {line}")))
    }

    /// Ends the story.
    ///
    /// # Errors
    /// As [`Narrator::chapter`].
    pub(crate) fn end(&self) -> io::Result<()> {
        let took = self.began.elapsed();
        if self.out.is_json() {
            return self.out.json(&json!({"ok": true, "ms": took.as_millis(), "observed": self.observed}));
        }
        let sentence = format!("Every step was observed, in {:.1} s.", took.as_secs_f64());
        self.say(&format!("\n{}", good(sentence)))
    }

    /// A line.
    ///
    /// # Errors
    /// As [`Narrator::chapter`].
    pub(crate) fn say(&self, line: &str) -> io::Result<()> {
        if self.out.is_json() { Ok(()) } else { self.out.line(line) }
    }
}
