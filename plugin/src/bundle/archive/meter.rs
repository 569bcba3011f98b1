//! Counts the bytes of an archive as they come, and remembers whether their source failed.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// What is known about the source.
#[derive(Default)]
pub(super) struct Meter {
    taken: Cell<u64>,
    failed: Cell<bool>,
}

impl Meter {
    /// Bytes taken so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// Whether the source gave an error, rather than bytes that could not be understood.
    pub(super) fn source_failed(&self) -> bool {
        self.failed.get()
    }
}

/// A source with its meter.
pub(super) struct Metered<R> {
    inner: R,
    meter: Rc<Meter>,
}

impl<R> Metered<R> {
    pub(super) const fn new(inner: R, meter: Rc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer).inspect_err(|error| {
            self.meter.failed.set(error.kind() != io::ErrorKind::Interrupted);
        })?;
        self.meter.taken.set(self.meter.taken.get().saturating_add(got as u64));
        Ok(got)
    }
}
