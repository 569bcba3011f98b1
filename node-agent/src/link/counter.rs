//! The session counter on the disk: what tells this node from copies of it (`domain::clone`).

use std::path::PathBuf;

use proto::convert::counter_in;

use crate::identity::{self, Files, read, write_private};

/// The newest counter that is durable, sealed by the control plane.
#[derive(Debug)]
pub(crate) struct Counter {
    path: PathBuf,
    sealed: Vec<u8>,
}

impl Counter {
    /// Reads it; a node that never had one has an empty one. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn open(files: &Files) -> Result<Self, identity::Error> {
        let path = files.session.clone();
        let sealed = read(&path)?.unwrap_or_default();
        Ok(Self { path, sealed })
    }

    /// As it is shown.
    pub(super) fn sealed(&self) -> &[u8] {
        &self.sealed
    }

    /// Makes another one durable. Blocks until it is on the disk.
    ///
    /// # Errors
    /// The file system's; the one before stays.
    pub(super) fn keep(&mut self, sealed: &[u8]) -> Result<(), identity::Error> {
        write_private(&self.path, sealed)?;
        self.sealed = sealed.to_vec();
        Ok(())
    }
}

/// The value of a counter that is newer than the one before. An older one is a control plane's mistake and
/// changes nothing.
pub(super) fn newer(before: &[u8], sealed: &[u8]) -> Option<u64> {
    counter_in(sealed).filter(|value| Some(*value) > counter_in(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(value: u64) -> Vec<u8> {
        let mut sealed = vec![1];
        sealed.extend_from_slice(&value.to_be_bytes());
        sealed.extend_from_slice(&[7; 32]);
        sealed
    }

    #[test]
    fn a_counter_is_durable_before_it_is_told_and_never_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let mut counter = Counter::open(&files).unwrap();
        assert!(counter.sealed().is_empty());
        assert_eq!(newer(counter.sealed(), &sealed(7)), Some(7));
        counter.keep(&sealed(7)).unwrap();
        for other in [sealed(7), sealed(6), vec![1, 2], Vec::new()] {
            assert_eq!(newer(counter.sealed(), &other), None);
        }
        assert_eq!(Counter::open(&files).unwrap().sealed(), sealed(7));
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert!(counter.keep(&sealed(9)).is_err());
        assert_eq!(counter.sealed(), sealed(7), "what is not on the disk is not shown");
    }
}
