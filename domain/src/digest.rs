//! Digests: SHA-256 of bytes, and the hash of a listing under its profile.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest; written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Text or bytes that are no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{got}` as {expected}")]
pub struct DigestFault {
    /// The form that was expected.
    pub expected: &'static str,
    /// What was given, cut to 100 characters.
    pub got: String,
}

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of some parts, each told from its neighbours by its length.
    pub fn of_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut sha256 = Sha256::new();
        for part in parts {
            sha256.update((part.len() as u64).to_le_bytes());
            sha256.update(part);
        }
        Self(sha256.finalize().into())
    }

    /// From its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// From a slice of exactly 32 bytes.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, DigestFault> {
        bytes.try_into().map(Self).map_err(|_| fault("32 bytes of SHA-256", &hex::encode(bytes)))
    }

    /// From 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, DigestFault> {
        let mut bytes = [0; 32];
        match hex::decode_to_slice(text, &mut bytes) {
            Ok(()) => Ok(Self(bytes)),
            Err(_) => Err(fault("64 hexadecimal digits of SHA-256", text)),
        }
    }

    /// Its 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The hash of a function's listing under profile v1, written `v1:sha256:<hex>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListingHash(Digest);

impl ListingHash {
    const PREFIX: &'static str = "v1:sha256:";

    /// The hash of a listing's canonical form.
    pub fn of_canonical(canonical: &str) -> Self {
        Self(Digest::of(canonical.as_bytes()))
    }

    /// From the digest of the canonical form.
    pub const fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// From `v1:sha256:<hex>`.
    pub fn parse(text: &str) -> Result<Self, DigestFault> {
        text.strip_prefix(Self::PREFIX)
            .and_then(|hex| Digest::parse(hex).ok())
            .map(Self)
            .ok_or_else(|| fault("a listing hash, v1:sha256:<64 hexadecimal digits>", text))
    }

    /// The digest of the canonical form.
    pub const fn digest(&self) -> Digest {
        self.0
    }
}

impl fmt::Display for ListingHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0)
    }
}

impl fmt::Debug for ListingHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn fault(expected: &'static str, got: &str) -> DigestFault {
    DigestFault { expected, got: got.chars().take(100).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_back_as_it_was_written() {
        let digest = Digest::of(b"pintle");
        assert_eq!(Digest::parse(&digest.to_string()), Ok(digest));
        assert_eq!(Digest::from_slice(digest.as_bytes()), Ok(digest));
        let hash = ListingHash::of_canonical("{}");
        assert_eq!(ListingHash::parse(&hash.to_string()), Ok(hash));
    }

    #[test]
    fn what_is_no_digest_is_refused_with_what_was_expected() {
        for bad in ["", "abc", &"g".repeat(64), &"0".repeat(65)] {
            assert!(Digest::parse(bad).is_err(), "{bad}");
        }
        let error = ListingHash::parse("sha256:00").unwrap_err().to_string();
        assert!(error.contains("v1:sha256:"), "{error}");
    }
}
