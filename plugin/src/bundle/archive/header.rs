//! Extension headers of a tar: long names as GNU tar writes them, and POSIX records.
//!
//! Only a path is taken from them. A record that would change what an entry is or how long it is
//! makes the archive one that two readers may understand differently, and is refused.

use std::io::{self, Read};

use tar::EntryType;

/// Bytes of an extension header: the longest path, times, and a comment.
const MOST_BYTES: u64 = 8 * 1024;

/// Records that say nothing about what an entry is.
const HARMLESS: [&[u8]; 8] = [b"mtime", b"atime", b"ctime", b"uid", b"gid", b"uname", b"gname", b"comment"];

/// What an extension header says about the next entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Extension {
    /// Its path.
    Path(Vec<u8>),
    /// Nothing that counts.
    Nothing,
}

/// Its bytes, or `None` if there are more than any path needs.
pub(super) fn read_bounded(entry: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    entry.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MOST_BYTES).then_some(bytes))
}

/// Reads one extension header.
///
/// # Errors
/// The rule that it breaks, as a fragment.
pub(super) fn extension(kind: EntryType, bytes: &[u8]) -> Result<Extension, &'static str> {
    if kind == EntryType::GNULongName {
        return Ok(Extension::Path(bytes.strip_suffix(b"\0").unwrap_or(bytes).to_vec()));
    }
    let mut path = None;
    let mut rest = bytes;
    while !rest.is_empty() {
        let (key, value, next) = record(rest).ok_or("an extension header is damaged")?;
        match key {
            b"path" if kind == EntryType::XHeader && path.is_none() => path = Some(value.to_vec()),
            b"path" => return Err("an extension header gives a path twice, or to many entries"),
            _ if HARMLESS.contains(&key) => {}
            _ => return Err("an extension header holds a record that no bundle needs"),
        }
        rest = next;
    }
    Ok(path.map_or(Extension::Nothing, Extension::Path))
}

/// `LENGTH KEY=VALUE\n`, where the length counts the whole record.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    let digits = std::str::from_utf8(bytes.get(..space)?).ok()?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let len: usize = digits.parse().ok()?;
    let body = bytes.get(space + 1..len)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    Some((body.get(..equals)?, body.get(equals + 1..)?, bytes.get(len..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_changes_an_entry_is_refused() {
        let bad: [&[u8]; 9] = [
            b"12 size=10\n",
            b"16 linkpath=a/b\n",
            b"22 GNU.sparse.major=1\n",
            b"x",
            b"5 a=b\n",
            b"99 path=a\n",
            b"10 path=a\n9 path=b\n",
            b"+9 path=a\n",
            b"10 path=a\n10 path=b\n",
        ];
        for bytes in bad {
            assert!(extension(EntryType::XHeader, bytes).is_err(), "{bytes:?}");
        }
        assert!(extension(EntryType::XGlobalHeader, b"10 path=a\n").is_err());
    }

    #[test]
    fn a_path_is_taken_and_times_are_passed_over() {
        let both = b"10 path=a\n20 mtime=1350244992\n";
        assert_eq!(extension(EntryType::XHeader, both), Ok(Extension::Path(b"a".to_vec())));
        assert_eq!(extension(EntryType::XGlobalHeader, b"13 comment=a\n"), Ok(Extension::Nothing));
        assert_eq!(extension(EntryType::GNULongName, b"a/b\0"), Ok(Extension::Path(b"a/b".to_vec())));
    }
}
