//! The content digest, which names what a bundle holds whatever it was compressed with.

use domain::digest::Digest;
use sha2::{Digest as _, Sha256};

use super::BundleFile;

/// The digest of a bundle's content: SHA-256 over this text in UTF-8, files sorted by the bytes of
/// their paths:
///
/// ```text
/// pintle-content-v1\n
/// <x if executable, otherwise ->␠<SHA-256 of the file, 64 lower-case hex digits>␠<path>\n
/// ```
///
/// Paths hold no control characters, so every line is one file. Lengths, times, owners, empty
/// folders and the compressor are not part of it. Frozen: another form would be another name.
pub fn content_digest(files: &[BundleFile]) -> Digest {
    let mut sorted: Vec<&BundleFile> = files.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    let mut hash = Sha256::new();
    hash.update("pintle-content-v1\n");
    for file in sorted {
        let mark = if file.executable { 'x' } else { '-' };
        hash.update(format!("{mark} {} {}\n", file.sha256, file.path));
    }
    Digest::from_bytes(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_form_is_frozen() {
        let file = |path: &str, executable, bytes: &[u8]| BundleFile {
            path: path.into(),
            executable,
            len: bytes.len() as u64,
            sha256: Digest::of(bytes),
        };
        let files = [file("b", true, b"#!/bin/sh\n"), file("a/ü", false, b"")];
        let text = format!(
            "pintle-content-v1\n- {} a/ü\nx {} b\n",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            Digest::of(b"#!/bin/sh\n")
        );
        assert_eq!(content_digest(&files), Digest::of(text.as_bytes()));
    }
}
