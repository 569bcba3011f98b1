//! The bearer token that local clients show: made once, kept in a file that only its owner reads.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq as _;

/// Shorter ones could be guessed.
const SHORTEST: usize = 32;
/// A header's value; ours have 64 characters.
const LONGEST: usize = 512;

/// Why the token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFault {
    /// The file cannot be read or made.
    #[error("use the MCP token in {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Others than owner and group may read it.
    #[error(
        "use the MCP token in {}: its mode is {mode:o}, so everybody on this machine can read it; make it 600, or 640 for a group of agents",
        .path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// What it holds is no token.
    #[error(
        "use the MCP token in {}: it holds {length} characters, and 32 to 512 visible ones are expected; delete it to get a new one",
        .path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Characters found.
        length: usize,
    },
}

/// A bearer token. Its text is never shown by `Debug`.
#[derive(Clone)]
pub struct Token(Box<str>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A new random token of 256 bits.
    pub fn random() -> Self {
        Self(hex::encode(rand::random::<[u8; 32]>()).into())
    }

    /// Reads the token of `path`, or makes one there (mode 600).
    ///
    /// # Errors
    /// The file cannot be used, or everybody may read it. A group may, if someone set it so.
    pub fn load_or_create(path: &Path) -> Result<Self, TokenFault> {
        match Self::load(path) {
            Err(TokenFault::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let token = Self::random();
                token.write(path).map_err(|source| TokenFault::File { path: path.into(), source })?;
                Self::load(path)
            }
            outcome => outcome,
        }
    }

    /// Reads the token of `path`, as `pintle mcp` and `pintle call` do.
    ///
    /// # Errors
    /// As [`Token::load_or_create`], and a file that is not there.
    pub fn load(path: &Path) -> Result<Self, TokenFault> {
        let file = |source| TokenFault::File { path: path.into(), source };
        let mode = fs::metadata(path).map_err(file)?.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(TokenFault::Open { path: path.into(), mode });
        }
        let text = fs::read_to_string(path).map_err(file)?;
        let text = text.trim();
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || !(SHORTEST..=LONGEST).contains(&text.len()) {
            return Err(TokenFault::Unusable { path: path.into(), length: text.len() });
        }
        Ok(Self(text.into()))
    }

    /// The text, to be sent as `Authorization: Bearer …`.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What stands for whoever shows this token: state that we seal is bound to it.
    pub(super) fn principal(&self) -> [u8; 32] {
        use sha2::{Digest as _, Sha256};
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// Whether an `Authorization` header shows this token. Takes as long for a wrong one as for a
    /// right one of the same length.
    pub(super) fn is_shown_by(&self, header: &[u8]) -> bool {
        let Some((scheme, shown)) = header.split_at_checked(7) else { return false };
        scheme.eq_ignore_ascii_case(b"bearer ") && shown.trim_ascii().ct_eq(self.0.as_bytes()).into()
    }

    /// Whole or not at all, and never readable by others in between.
    fn write(&self, path: &Path) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{:016x}", rand::random::<u64>()));
        let new = path.with_file_name(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let written = file.write_all(self.0.as_bytes()).and_then(|()| file.write_all(b"\n"));
        written.and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.token");
        (folder, path)
    }

    #[test]
    fn a_token_that_everybody_can_read_is_refused() {
        let (_folder, path) = place();
        Token::load_or_create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Token::load_or_create(&path).unwrap_err().to_string();
        assert!(error.contains("644") && error.contains("make it 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        Token::load_or_create(&path).unwrap();
    }

    #[test]
    fn a_short_or_hidden_token_is_refused() {
        let (_folder, path) = place();
        for bad in ["", "short", &format!("{} {}", "a".repeat(20), "b".repeat(20))] {
            fs::write(&path, bad).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(matches!(Token::load_or_create(&path), Err(TokenFault::Unusable { .. })), "{bad}");
        }
    }

    #[test]
    fn a_token_is_made_once_for_its_owner_alone() {
        let (folder, path) = place();
        let first = Token::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::load_or_create(&path).unwrap().reveal(), first.reveal());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(!format!("{first:?}").contains(first.reveal()));
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = Token::random();
        assert!(token.is_shown_by(format!("Bearer {}", token.reveal()).as_bytes()));
        assert!(token.is_shown_by(format!("bearer  {}", token.reveal()).as_bytes()));
        let half = token.reveal().get(..32).unwrap();
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            token.reveal(),
            &format!("Bearer {half}"),
            &format!("Basic {}", token.reveal()),
        ] {
            assert!(!token.is_shown_by(bad.as_bytes()), "{bad}");
        }
    }
}
