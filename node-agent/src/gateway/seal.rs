//! Our own `requestState`: sealed, so that nobody but this node since its start can have made it.
//!
//! It passes through agents, which the protocol counts as attackers (MCP 2026-07-28, multi round-trip
//! requests, "Server Requirements"). Bound to who asks, to the function, the version and the arguments
//! of the call, and to a moment after which it is worth nothing. See decision 13.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Of the key.
const KEY_BYTES: usize = 32;

/// Why a `requestState` is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// Not ours, not of this start of the node, or changed.
    #[error(
        "this requestState was changed, or is not of this node since its last start; make the call again without it"
    )]
    Foreign,
    /// Too late.
    #[error("this requestState has expired (setting `gateway.answer_wait`); make the call again without it")]
    Expired,
    /// Of another function or other arguments.
    #[error("this requestState is of another call; send it with the function and the arguments of its own")]
    OtherCall,
    /// The function is another version's by now.
    #[error(
        "this requestState is of another version or listing of the function; make the call again without it"
    )]
    OtherVersion,
    /// What it stands for has been taken or ended.
    #[error("this requestState was used before, or its call has ended; make the call again without it")]
    Used,
}

/// What a call needs to go on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// As the agent named it.
    pub(super) name: String,
    /// The version, and the listing, that it was called by.
    pub(super) called: String,
    /// [`digest`] of the arguments.
    pub(super) arguments: String,
    /// On the node's monotonic clock.
    pub(super) expires_ms: u64,
    /// Rounds so far.
    pub(super) rounds: u32,
    /// The call that is held open for it.
    pub(super) held: Option<u64>,
    /// The tool's own state, as it spelled it.
    pub(super) tool: Option<Box<RawValue>>,
    /// What was written out of the questions, for what: written, real, whether it names a member.
    pub(super) texts: Vec<(String, String, bool)>,
}

/// The key, of one start of the node: what it seals is about calls that end with it.
pub(super) struct Seal(LessSafeKey);

impl Seal {
    #[expect(clippy::expect_used, reason = "the key has the algorithm's length")]
    pub(super) fn new() -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &rand::random::<[u8; KEY_BYTES]>());
        Self(LessSafeKey::new(key.expect("a key of its length")))
    }

    /// The state as text, bound to `principal`.
    #[expect(clippy::expect_used, reason = "states are plain, and far below what the algorithm takes")]
    pub(super) fn seal(&self, state: &State, principal: &[u8]) -> String {
        let nonce = rand::random::<[u8; NONCE_LEN]>();
        let mut sealed = serde_json::to_vec(state).expect("a state is written");
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(principal), &mut sealed)
            .expect("a state is sealed");
        URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat())
    }

    /// Opens what `principal` sent back.
    ///
    /// # Errors
    /// It is not ours, or too old.
    pub(super) fn open(&self, text: &str, principal: &[u8], now_ms: u64) -> Result<State, Fault> {
        let mut bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Fault::Foreign)?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN).ok_or(Fault::Foreign)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Fault::Foreign)?;
        let opened = self.0.open_in_place(nonce, Aad::from(principal), sealed).map_err(|_| Fault::Foreign)?;
        let state: State = serde_json::from_slice(opened).map_err(|_| Fault::Foreign)?;
        if now_ms >= state.expires_ms { Err(Fault::Expired) } else { Ok(state) }
    }
}

/// What names the arguments of a call.
pub(super) fn digest(arguments: Option<&RawValue>) -> String {
    use sha2::{Digest as _, Sha256};
    hex::encode(Sha256::digest(arguments.map_or("{}", RawValue::get)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            name: "team__hello".into(),
            called: "team@1.2.0 abc".into(),
            arguments: digest(None),
            expires_ms: 1_000,
            rounds: 1,
            held: Some(7),
            tool: Some(RawValue::from_string(r#""a\u0062\/c""#.into()).unwrap()),
            texts: vec![],
        }
    }

    #[test]
    fn a_changed_a_foreign_and_an_old_state_is_refused() {
        let seal = Seal::new();
        let text = seal.seal(&state(), b"ada");
        assert_eq!(seal.open(&text, b"eve", 0).unwrap_err(), Fault::Foreign);
        assert_eq!(Seal::new().open(&text, b"ada", 0).unwrap_err(), Fault::Foreign);
        assert_eq!(seal.open(&text, b"ada", 1_000).unwrap_err(), Fault::Expired);
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(seal.open(&changed, b"ada", 0).unwrap_err(), Fault::Foreign, "{at}");
        }
        for bad in ["", "AAAA", "no base64!", &text[..text.len() - 4], &format!("{text}AAAA")] {
            assert_eq!(seal.open(bad, b"ada", 0).unwrap_err(), Fault::Foreign, "{bad}");
        }
    }

    #[test]
    fn a_state_comes_back_with_the_tools_own_byte_for_byte() {
        let seal = Seal::new();
        let (one, two) = (seal.seal(&state(), b"ada"), seal.seal(&state(), b"ada"));
        assert_ne!(one, two, "each has a nonce of its own");
        let opened = seal.open(&one, b"ada", 999).unwrap();
        assert_eq!(opened.tool.unwrap().get(), r#""a\u0062\/c""#);
        assert_eq!((opened.held, &*opened.name), (Some(7), "team__hello"));
        assert!(!one.contains("hello"));
    }
}
