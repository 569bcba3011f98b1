//! Which paths a bundle may hold, and which two of them are too alike.
//!
//! Paths are UTF-8 with `/` between their parts, relative to the plugin's root.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization as _;

/// Bounds of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Bytes of the whole path.
    pub(crate) bytes: usize,
    /// Parts between `/`.
    pub(crate) depth: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        let limits = super::Limits::default();
        Self { bytes: limits.path_bytes, depth: limits.path_depth }
    }
}

/// Bytes of one part: what common file systems hold.
const MOST_PART: usize = 255;

/// Judges one path.
///
/// # Errors
/// The rule that it breaks, as a fragment.
pub(crate) fn check(path: &str, bounds: &Bounds) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("it is empty");
    }
    if path.starts_with('/') || is_drive(path) {
        return Err("it is absolute");
    }
    if path.contains('\0') {
        return Err("it holds a NUL character");
    }
    if path.contains('\\') {
        return Err("it holds a backslash, which some systems take for `/`");
    }
    if path.chars().any(char::is_control) {
        return Err("it holds a control character");
    }
    if path.len() > bounds.bytes {
        return Err("it is longer than the limit for paths");
    }
    if path.split('/').count() > bounds.depth {
        return Err("it is deeper than the limit for paths");
    }
    for part in path.split('/') {
        match part {
            "" => return Err("it holds an empty part"),
            "." => return Err("it holds `.` as a part"),
            ".." => return Err("it holds `..` as a part"),
            _ if part.len() > MOST_PART => return Err("one part is longer than 255 bytes"),
            _ => {}
        }
    }
    Ok(())
}

/// `C:` in front, which is absolute or relative to a drive on Windows.
fn is_drive(path: &str) -> bool {
    path.starts_with(|c: char| c.is_ascii_alphabetic()) && path.get(1..2) == Some(":")
}

/// The names seen so far, to find two that one file system would take for one.
#[derive(Default)]
pub(crate) struct Names {
    /// Folded path of each file and folder → the path as written, and whether it is a file.
    seen: BTreeMap<String, (String, bool)>,
}

/// Why a path cannot stand beside an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clash {
    /// The earlier path.
    pub(crate) earlier: String,
    /// The rule, as a fragment.
    pub(crate) rule: &'static str,
}

impl Names {
    /// Adds a file and the folders it is in.
    pub(crate) fn add_file(&mut self, path: &str) -> Result<(), Clash> {
        for (at, _) in path.match_indices('/') {
            self.add(path.get(..at).unwrap_or_default(), false)?;
        }
        self.add(path, true)
    }

    fn add(&mut self, path: &str, is_file: bool) -> Result<(), Clash> {
        let Some((earlier, was_file)) = self.seen.get(&folded(path)) else {
            self.seen.insert(folded(path), (path.to_owned(), is_file));
            return Ok(());
        };
        let rule = if earlier != path {
            "they differ only in letter case or Unicode form"
        } else if is_file && *was_file {
            "it stands there twice"
        } else if is_file || *was_file {
            "it is a file and a folder at once"
        } else {
            return Ok(());
        };
        Err(Clash { earlier: earlier.clone(), rule })
    }
}

/// One form for all spellings that a file system which ignores case and Unicode form takes for one.
/// Upper case first, so that `ß` meets `ss` and a final sigma meets the other.
fn folded(path: &str) -> String {
    let upper = path.nfd().flat_map(char::to_uppercase).collect::<String>();
    upper.to_lowercase().nfd().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_the_folder_or_hides_a_part_is_refused() {
        let long = "a".repeat(600);
        let deep = "a/".repeat(40) + "a";
        let wide = "é".repeat(130);
        let bad = [
            "",
            "/etc/passwd",
            "C:/x",
            "c:x",
            "..",
            "../x",
            "a/../b",
            "a/..",
            ".",
            "./a",
            "a/./b",
            "a//b",
            "a/",
            "a\\b",
            "a\0b",
            "a\nb",
            "a\u{85}b",
            &long,
            &deep,
            &wide,
        ];
        for path in bad {
            assert!(check(path, &Bounds::default()).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_plain_path_passes() {
        for path in ["a", "a/b.c", "..a", "a..b/...", "data/über.txt", "ab:c", ".mcp.json", "a b/c"] {
            assert_eq!(check(path, &Bounds::default()), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn two_names_that_one_file_system_takes_for_one_clash() {
        let pairs = [
            ("README", "readme"),
            ("a/x", "A/y"),
            ("u\u{308}ber", "über"),
            ("U\u{308}BER", "über"),
            ("straße", "STRASSE"),
            ("οδος", "ΟΔΟΣ"),
            ("a", "a"),
            ("a", "a/b"),
            ("a/b", "a"),
            ("A", "a/b"),
        ];
        for (first, second) in pairs {
            let mut names = Names::default();
            names.add_file(first).unwrap();
            assert!(names.add_file(second).is_err(), "{first:?} and {second:?}");
        }
    }

    #[test]
    fn names_beside_each_other_do_not_clash() {
        let mut names = Names::default();
        for path in ["a/x", "a/y", "b", "ab", "a-b", "a/b/c"] {
            assert_eq!(names.add_file(path), Ok(()), "{path}");
        }
    }
}
