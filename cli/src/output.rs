//! What a command prints: results on stdout, everything about them on stderr.
//!
//! Verbs build tables, lines and JSON here and never write to the terminal themselves. Text from
//! elsewhere goes through [`shown`] first; callers of [`Output::line`] see to that.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use owo_colors::{OwoColorize, Style};
use serde::Serialize;

pub(crate) mod diff;
pub(crate) mod progress;
pub(crate) mod shown;
mod table;

pub(crate) use table::Table;

/// Columns assumed where the terminal does not say.
const USUAL_WIDTH: u16 = 100;

/// How this process prints; decided once from the flags and the terminal.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    width: Option<u16>,
    attended: bool,
    colour: bool,
}

#[expect(clippy::unused_self, reason = "who prints holds the one value that says how")]
impl Output {
    /// For this process: `json` prints machine-readable results only; `no_color` (or `NO_COLOR`) keeps
    /// colours away from both streams.
    pub(crate) fn new(json: bool, no_color: bool) -> Self {
        if no_color {
            anstream::ColorChoice::Never.write_global();
        }
        let out = io::stdout().is_terminal();
        let width =
            rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|w| *w > 0);
        Self {
            json,
            width: out.then_some(width.unwrap_or(USUAL_WIDTH)),
            attended: out && io::stdin().is_terminal() && !json,
            colour: anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
        }
    }

    /// Whether results are JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person sits at both ends, so that questions can be asked.
    pub(crate) const fn is_attended(&self) -> bool {
        self.attended
    }

    /// Whether stdout shows colours; where it does not, words mark what colours would.
    pub(crate) const fn is_coloured(&self) -> bool {
        self.colour
    }

    /// Columns to fit into; `None` where nobody looks and nothing is cut.
    pub(crate) const fn width(&self) -> Option<u16> {
        self.width
    }

    /// One line of the result.
    ///
    /// # Errors
    /// As writing to stdout does; a closed pipe ends the process quietly (see `crate::main`).
    pub(crate) fn line(&self, text: impl Display) -> io::Result<()> {
        writeln!(anstream::stdout(), "{text}")
    }

    /// The result as one JSON document.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        self.line(text)
    }

    /// Something about the result, on stderr; not printed with `--json`.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.json {
            self.tell(text);
        }
    }

    /// What to run next, on stderr; not printed with `--json`.
    pub(crate) fn hint(&self, text: impl Display) {
        self.note(format_args!("{} {text}", "next:".style(Style::new().dimmed())));
    }

    /// On stderr, with `--json` too.
    pub(crate) fn tell(&self, text: impl Display) {
        print_error(text);
    }

    /// A question on the terminal; `None` at the end of the input.
    ///
    /// # Errors
    /// As reading from stdin does.
    pub(crate) fn ask(&self, question: &str) -> io::Result<Option<String>> {
        write!(anstream::stderr(), "{question} ")?;
        anstream::stderr().flush()?;
        let mut answer = String::new();
        let got = io::stdin().read_line(&mut answer)?;
        Ok((got > 0).then(|| answer.trim().to_owned()))
    }
}

/// One line of a result, for verbs that have no flags about how to print.
///
/// # Errors
/// As writing to stdout does.
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    writeln!(anstream::stdout(), "{text}")
}

/// One line on stderr. A stderr that is gone is no reason to fail.
pub(crate) fn print_error(text: impl Display) {
    writeln!(anstream::stderr(), "{text}").ok();
}

/// Emphasis of a word or heading.
pub(crate) fn bold(text: impl Display) -> String {
    text.style(Style::new().bold()).to_string()
}

/// Good news.
pub(crate) fn good(text: impl Display) -> String {
    text.style(Style::new().green()).to_string()
}

/// Something that waits for a person.
pub(crate) fn waits(text: impl Display) -> String {
    text.style(Style::new().yellow()).to_string()
}

/// Less important.
pub(crate) fn dim(text: impl Display) -> String {
    text.style(Style::new().dimmed()).to_string()
}
