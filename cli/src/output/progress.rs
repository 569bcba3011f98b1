//! Progress on stderr: a bar with the rate for what has a length, a spinner for waits.
//!
//! Both are invisible where stderr is no terminal or results are JSON; scripts see results only.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Output;

/// How often a spinner turns: often enough to look alive, too seldom to cost anything.
const TICK: Duration = Duration::from_millis(120);

/// Something that takes a while.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar over `total` bytes, with rate and time left.
    pub(crate) fn bytes(out: &Output, what: &str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), target(out))
            .with_style(style("{msg} [{bar:28}] {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} left"));
        bar.set_message(what.to_owned());
        Self(bar)
    }

    /// A spinner with a message.
    pub(crate) fn wait(out: &Output, what: &str) -> Self {
        let bar =
            ProgressBar::with_draw_target(None, target(out)).with_style(style("{spinner} {msg} ({elapsed})"));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Bytes done so far.
    pub(crate) fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Bytes in all, once known.
    pub(crate) fn set_total(&self, total: u64) {
        self.0.set_length(total);
    }

    /// Adds bytes done.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Another message.
    pub(crate) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// Lets something be written where it stands.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }

    /// Takes it off the screen.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn target(out: &Output) -> ProgressDrawTarget {
    if out.is_json() || !io::stderr().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
        .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ")
}
