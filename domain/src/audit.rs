//! The audit log: a closed list of events, the text that is hashed of each, and the chain they form.
//!
//! Each event's leaf is the RFC 8785 canonical JSON of everything about it, the previous event's
//! hash included; its hash is that of an RFC 6962 leaf, so that a Merkle tree over the same leaves
//! can be added without touching what is stored. The store keeps [`Record`]s, [`Tail`] appends and
//! verifies them; nothing here stores or reads a clock.

mod event;
#[cfg(test)]
mod tests;

pub use event::{Event, FunctionDifference, ProvenHead};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::time::Timestamp;

/// Who did it, and how it reached the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `token/NAME`, `node/NAME` or `system`.
    pub actor: String,
    /// Such as `api REQUEST-ID`; no secrets.
    pub source: String,
}

impl Origin {
    /// What the control plane does by itself.
    pub fn system(source: &str) -> Self {
        Self { actor: "system".to_owned(), source: source.to_owned() }
    }
}

/// One stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// From 1, without gaps.
    pub seq: u64,
    /// When, by the server's clock.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// From where.
    pub source: String,
    /// The event's name, `noun.noun.verb`.
    pub name: String,
    /// What it was done to.
    pub subject: String,
    /// The event's own fields as canonical JSON.
    pub fields: String,
    /// The hash of the event before it; zeros for the first.
    pub prev: Digest,
    /// The hash of its leaf.
    pub hash: Digest,
}

/// Where a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The last event's number; 0 if there is none.
    pub seq: u64,
    /// The last event's hash; zeros if there is none.
    pub hash: Digest,
}

/// The first event that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("verify event {seq} of the audit log: {fault}")]
pub struct ChainFault {
    /// The number that it should have.
    pub seq: u64,
    /// What is wrong, as a sentence without its stop.
    pub fault: String,
}

impl Tail {
    /// Before the first event.
    pub const START: Self = Self { seq: 0, hash: Digest::from_bytes([0; 32]) };

    /// Writes the next event and moves the tail to it.
    pub fn append(&mut self, at: Timestamp, origin: &Origin, event: &Event) -> Record {
        let mut record = Record {
            seq: self.seq + 1,
            at,
            actor: origin.actor.clone(),
            source: origin.source.clone(),
            name: event.name().to_owned(),
            subject: event.subject(),
            fields: canonical(&event.fields()),
            prev: self.hash,
            hash: self.hash,
        };
        record.hash = leaf_hash(&leaf(&record, &event.fields()));
        *self = Self { seq: record.seq, hash: record.hash };
        record
    }

    /// Takes the next stored event for true, or says why it is not, and moves the tail to it.
    ///
    /// # Errors
    /// The event's number, and what is wrong with it.
    pub fn verify(&mut self, record: &Record) -> Result<(), ChainFault> {
        let seq = self.seq + 1;
        let bad = |fault: String| Err(ChainFault { seq, fault });
        if record.seq != seq {
            return bad(format!("number {} stands in its place", record.seq));
        }
        if record.prev != self.hash {
            return bad(format!("it follows {}, the event before it has {}", record.prev, self.hash));
        }
        let fields = match serde_json::from_str::<Value>(&record.fields) {
            Ok(fields) if canonical(&fields) == record.fields => fields,
            Ok(_) | Err(_) => return bad("its fields are not in their canonical form".to_owned()),
        };
        let hash = leaf_hash(&leaf(record, &fields));
        if hash != record.hash {
            return bad(format!("what it says has the hash {hash}, stored is {}", record.hash));
        }
        *self = Self { seq, hash };
        Ok(())
    }
}

impl Record {
    /// The text that is hashed.
    ///
    /// # Errors
    /// If the fields are no JSON.
    pub fn leaf(&self) -> Result<String, serde_json::Error> {
        serde_json::from_str(&self.fields).map(|fields| leaf(self, &fields))
    }
}

fn leaf(record: &Record, fields: &Value) -> String {
    canonical(&json!({
        "seq": record.seq,
        "at": record.at.to_string(),
        "actor": record.actor,
        "source": record.source,
        "name": record.name,
        "subject": record.subject,
        "fields": fields,
        "prev": record.prev.to_string(),
    }))
}

/// RFC 6962, 2.1: a leaf is hashed behind a zero byte, so that no inner node passes for one.
fn leaf_hash(leaf: &str) -> Digest {
    let hash = Sha256::new().chain_update([0]).chain_update(leaf.as_bytes());
    Digest::from_bytes(hash.finalize().into())
}

#[expect(clippy::expect_used, reason = "a Value has text keys and finite numbers")]
fn canonical(value: &Value) -> String {
    serde_json_canonicalizer::to_string(value).expect("every Value has a canonical form")
}
