//! An error with everything under it on one line, for logs and terminals.

use std::error::Error;
use std::fmt;

/// Displays `error: source: source of that`.
#[derive(Debug)]
pub struct Chain<'e>(pub &'e (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(source) = next {
            write!(f, ": {source}")?;
            next = source.source();
        }
        Ok(())
    }
}
