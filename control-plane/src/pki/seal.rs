//! Seals session counters and challenges: short texts that only this fleet's servers can make, and that are
//! worth nothing to another node.
//!
//! The key is the fleet's, in the database, so that any server reads what another sealed, also after the
//! authority was changed.

use std::sync::Arc;

use domain::id::NodeId;
use domain::time::Timestamp;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// How long a challenge may take to be repeated, and how far the clocks of two servers may be apart: a
/// reconnect takes seconds.
const CHALLENGE_MS: i64 = 120_000;

/// First byte of a sealed counter.
const COUNTER: u8 = 1;

/// First byte of a challenge.
const CHALLENGE: u8 = 2;

/// The key that seals.
pub struct Seal {
    key: [u8; 32],
    fleet: Arc<str>,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal").field("fleet", &self.fleet).finish_non_exhaustive()
    }
}

impl Seal {
    /// A seal of the fleet with this key.
    pub const fn new(key: [u8; 32], fleet: Arc<str>) -> Self {
        Self { key, fleet }
    }

    /// A counter for a node, sealed: 41 bytes.
    pub fn counter(&self, node: &NodeId, counter: u64) -> Vec<u8> {
        self.seal(COUNTER, node, counter)
    }

    /// The counter that was sealed for this node; `None` if nobody of this fleet did.
    pub fn open_counter(&self, node: &NodeId, sealed: &[u8]) -> Option<u64> {
        self.open(COUNTER, node, sealed)
    }

    /// What a node is to repeat, made now.
    pub fn challenge(&self, node: &NodeId, now: Timestamp) -> Vec<u8> {
        self.seal(CHALLENGE, node, u64::try_from(now.as_millis()).unwrap_or_default())
    }

    /// Whether this was made for this node, a short while ago.
    pub fn is_challenge(&self, node: &NodeId, sealed: &[u8], now: Timestamp) -> bool {
        let made = self.open(CHALLENGE, node, sealed).and_then(|made| i64::try_from(made).ok());
        made.is_some_and(|made| now.as_millis().saturating_sub(made).abs() <= CHALLENGE_MS)
    }

    fn seal(&self, kind: u8, node: &NodeId, value: u64) -> Vec<u8> {
        let mut sealed = vec![kind];
        sealed.extend_from_slice(&value.to_be_bytes());
        let tag = self.tag(node, &sealed).finalize().into_bytes();
        sealed.extend_from_slice(&tag);
        sealed
    }

    fn open(&self, kind: u8, node: &NodeId, sealed: &[u8]) -> Option<u64> {
        let (said, tag) = sealed.split_at_checked(9)?;
        if said.first() != Some(&kind) || self.tag(node, said).verify_slice(tag).is_err() {
            return None;
        }
        proto::convert::counter_in(sealed)
    }

    /// Lengths stand before the texts, so that no two nodes or fleets run into one.
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    fn tag(&self, node: &NodeId, said: &[u8]) -> Hmac<Sha256> {
        let mut tag = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of any length is taken");
        for text in ["pintle session 1", &*self.fleet, node.as_str()] {
            tag.update(&(text.len() as u64).to_be_bytes());
            tag.update(text.as_bytes());
        }
        tag.update(said);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str) -> NodeId {
        NodeId::parse(id).unwrap()
    }

    #[test]
    fn what_another_key_fleet_node_or_hand_made_is_not_opened() {
        let seal = Seal::new([1; 32], "f-1".into());
        let sealed = seal.counter(&node("n-1"), 7);
        assert_eq!(sealed.len(), 41);
        assert_eq!(seal.open_counter(&node("n-1"), &sealed), Some(7));
        assert_eq!(seal.open_counter(&node("n-2"), &sealed), None);
        assert_eq!(Seal::new([2; 32], "f-1".into()).open_counter(&node("n-1"), &sealed), None);
        assert_eq!(Seal::new([1; 32], "f-2".into()).open_counter(&node("n-1"), &sealed), None);
        for at in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[at] ^= 1;
            assert_eq!(seal.open_counter(&node("n-1"), &forged), None, "byte {at}");
        }
        for length in [0, 1, 9, 40, 42] {
            let mut other = sealed.clone();
            other.resize(length, 0);
            assert_eq!(seal.open_counter(&node("n-1"), &other), None, "{length} bytes");
        }
    }

    #[test]
    fn a_challenge_is_no_counter_and_ends() {
        let (seal, made) = (Seal::new([1; 32], "f-1".into()), Timestamp::from_millis(1_796_000_000_000));
        let challenge = seal.challenge(&node("n-1"), made);
        assert_eq!(seal.open_counter(&node("n-1"), &challenge), None);
        for (after, expected) in [(0, true), (120_000, true), (120_001, false), (-120_001, false)] {
            assert_eq!(
                seal.is_challenge(&node("n-1"), &challenge, made.plus_millis(after)),
                expected,
                "{after}"
            );
        }
        assert!(!seal.is_challenge(&node("n-2"), &challenge, made));
        let counter = seal.counter(&node("n-1"), u64::try_from(made.as_millis()).unwrap());
        assert!(!seal.is_challenge(&node("n-1"), &counter, made), "a counter is no challenge");
    }
}
