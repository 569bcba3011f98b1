//! The files of the authorities' keys, and the moves by which a fleet goes from one authority to another. Made by
//! people on a server's folder (`pintle server ca`); servers read them when they start.

use std::path::{Path, PathBuf};

use rcgen::PKCS_ECDSA_P256_SHA256;

use super::{Error, key_file};

/// Where the keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// Of the authority that issues: `ca.key`.
    pub issuing: PathBuf,
    /// Of the one that the fleet goes over to: `ca.next.key`.
    pub next: PathBuf,
    /// Of the one that it comes from: `ca.previous.key`.
    pub previous: PathBuf,
}

/// One move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Makes the next authority's key.
    Begin,
    /// The next one issues, the one before is trusted beside it.
    Switch,
    /// Takes a switch back.
    Back,
    /// The one before is trusted no longer; its key is put aside.
    Finish,
}

impl AuthorityFiles {
    /// Those beside the issuing authority's key.
    pub fn new(issuing: &Path) -> Self {
        let beside = |extension| issuing.with_extension(extension);
        Self { issuing: issuing.to_owned(), next: beside("next.key"), previous: beside("previous.key") }
    }

    /// Makes one move. A server goes by it when it starts next.
    ///
    /// # Errors
    /// A file that must be there is not, or one that must not be is; the file system's.
    pub fn make(&self, step: Move) -> Result<(), Error> {
        match step {
            Move::Begin => {
                present(&self.issuing)?;
                absent(&self.next)?;
                absent(&self.previous)?;
                key_file::create(&self.next, &PKCS_ECDSA_P256_SHA256).map(drop)
            }
            Move::Switch => {
                present(&self.next)?;
                absent(&self.previous)?;
                rename(&self.issuing, &self.previous)?;
                rename(&self.next, &self.issuing)
            }
            Move::Back => {
                present(&self.previous)?;
                absent(&self.next)?;
                rename(&self.issuing, &self.next)?;
                rename(&self.previous, &self.issuing)
            }
            Move::Finish => {
                absent(&self.next)?;
                rename(&self.previous, &self.issuing.with_extension("retired.key"))
            }
        }
    }
}

fn present(path: &Path) -> Result<(), Error> {
    if path.exists() { Ok(()) } else { Err(Error::Step { path: path.to_owned(), state: "is not there" }) }
}

fn absent(path: &Path) -> Result<(), Error> {
    if path.exists() { Err(Error::Step { path: path.to_owned(), state: "is there already" }) } else { Ok(()) }
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    present(from)?;
    std::fs::rename(from, to).map_err(|source| Error::File { verb: "rename", path: from.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_move_only_in_the_order_of_a_roll_over() {
        let folder = tempfile::tempdir().unwrap();
        let files = AuthorityFiles::new(&folder.path().join("ca.key"));
        for step in [Move::Begin, Move::Switch, Move::Back, Move::Finish] {
            assert!(matches!(files.make(step), Err(Error::Step { .. })), "{step:?} of nothing");
        }
        key_file::create(&files.issuing, &PKCS_ECDSA_P256_SHA256).unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let old = read(&files.issuing);
        files.make(Move::Begin).unwrap();
        let new = read(&files.next);
        assert!(files.make(Move::Begin).is_err() && files.make(Move::Finish).is_err());
        files.make(Move::Switch).unwrap();
        assert_eq!((read(&files.issuing), read(&files.previous)), (new.clone(), old.clone()));
        files.make(Move::Back).unwrap();
        assert_eq!((read(&files.issuing), read(&files.next)), (old.clone(), new.clone()));
        files.make(Move::Switch).unwrap();
        files.make(Move::Finish).unwrap();
        assert!(!files.previous.exists() && !files.next.exists());
        assert_eq!((read(&files.issuing), read(&folder.path().join("ca.retired.key"))), (new, old));
    }
}
