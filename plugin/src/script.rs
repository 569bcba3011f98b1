//! Scripts: which files are started directly, and which of them a kernel cannot start.
//!
//! Looks at the first bytes of a file only. Used by `pack`, `lint`, and by a node that explains why
//! a script did not start.

/// Bytes to look at: kernels read at most 256 of a first line, and a bash tool's first comment may
/// be longer than that.
pub const HEAD_BYTES: usize = 4_096;

/// What keeps a script from being started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptFault {
    /// The first line ends in CR LF, so the interpreter's name ends in CR.
    CrLf,
    /// A byte order mark stands in front of `#!`.
    Bom,
}

impl ScriptFault {
    /// What is wrong, as a fragment.
    pub const fn what(self) -> &'static str {
        match self {
            Self::CrLf => {
                "line 1 ends in CR LF, so the system looks for an interpreter whose name ends in CR"
            }
            Self::Bom => {
                "a byte order mark stands before `#!`, so the system does not see the interpreter's name"
            }
        }
    }

    /// What to do about it, as a fragment.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::CrLf => "save it with LF line ends (and set `* text eol=lf` in .gitattributes)",
            Self::Bom => "save it as UTF-8 without a byte order mark",
        }
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Interpreters that choke on CR LF in the rest of the file as well.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "zsh", "ash"];

/// Whether a file with this beginning is a script that is started directly.
pub fn has_interpreter(head: &[u8]) -> bool {
    head.starts_with(b"#!")
}

/// The fault of a file with this beginning, if it names an interpreter or `is_started` says that
/// something starts it.
pub fn fault(head: &[u8], is_started: bool) -> Option<ScriptFault> {
    let plain = head.strip_prefix(BOM).unwrap_or(head);
    if !plain.starts_with(b"#!") && !is_started {
        return None;
    }
    if plain.starts_with(b"#!") && plain.len() < head.len() {
        return Some(ScriptFault::Bom);
    }
    // A program that is no text may hold these two bytes anywhere.
    let end = plain.iter().position(|byte| *byte == b'\n')?;
    let line = plain.get(..end)?;
    (line.ends_with(b"\r") && !line.contains(&0)).then_some(ScriptFault::CrLf)
}

/// Whether its `#!` line names a shell, as a path or through `env`.
pub fn is_shell(head: &[u8]) -> bool {
    let plain = head.strip_prefix(BOM).unwrap_or(head);
    let Some(rest) = plain.strip_prefix(b"#!") else { return false };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let first = words.next();
    let program = if first == Some("env") {
        words.find(|word| !word.starts_with('-') && !word.contains('='))
    } else {
        first
    };
    program.is_some_and(|program| SHELLS.contains(&program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_no_kernel_starts_is_named_with_its_reason() {
        let crlf = Some(ScriptFault::CrLf);
        assert_eq!(fault(b"#!/usr/bin/env bash\r\nset -e\r\n", false), crlf);
        assert_eq!(fault(b"# no interpreter\r\n", true), crlf);
        assert_eq!(fault(b"\xef\xbb\xbf#!/bin/sh\n", false), Some(ScriptFault::Bom));
    }

    #[test]
    fn other_files_are_not_complained_of() {
        let good: [&[u8]; 6] =
            [b"", b"#!", b"#!/bin/sh\nx='a\r'\n", b"{}\r\n", b"\xef\xbb\xbfa,b\r\n", b"\x7fELF\0\r\n"];
        for head in good {
            assert_eq!(fault(head, false), None, "{head:?}");
        }
        assert_eq!(fault(b"\x7fELF\0\r\n", true), None);
    }

    #[test]
    fn a_shell_is_known_by_its_name() {
        let shells: [&[u8]; 4] = [
            b"#!/bin/sh\n",
            b"#! /usr/bin/env bash\r\n",
            b"#!/usr/bin/env -S A=1 zsh -e\n",
            b"\xef\xbb\xbf#!/bin/ksh",
        ];
        for head in shells {
            assert!(is_shell(head), "{head:?}");
        }
        let others: [&[u8]; 4] = [b"", b"bash", b"#!/usr/bin/env python3\n", b"#!/opt/bash/python\n"];
        for head in others {
            assert!(!is_shell(head), "{head:?}");
        }
    }
}
