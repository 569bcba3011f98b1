//! Secrets of tokens: made at random, kept as SHA-256, compared in constant time.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::digest::Digest;
use subtle::ConstantTimeEq as _;

/// Bytes of a secret: beyond guessing, and a plain hash of it needs no salt.
const SECRET_BYTES: usize = 32;

/// Bytes of an id: no two of a fleet are alike.
const ID_BYTES: usize = 8;

/// A new secret, 43 characters of `A-Z a-z 0-9 - _`.
pub(crate) fn new_secret() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; SECRET_BYTES]>())
}

/// A new id, 16 of `0-9 a-f`.
pub(crate) fn new_id() -> String {
    hex::encode(rand::random::<[u8; ID_BYTES]>())
}

/// What is kept of a secret.
pub(crate) fn digest(secret: &str) -> Digest {
    Digest::of(secret.as_bytes())
}

/// Whether it is the secret of which this was kept.
pub(crate) fn is(secret: &str, kept: &Digest) -> bool {
    digest(secret).as_bytes().ct_eq(kept.as_bytes()).into()
}
