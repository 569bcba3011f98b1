//! One part at one generation, signed and encoded once for all streams that send it.

use std::collections::BTreeSet;

use bytes::Bytes;
use domain::digest::Digest;
use domain::plugin_set::{Head, Part, Position, Scope};
use domain::time::Timestamp;
use prost::Message as _;
use proto::convert::{Content, PartContent, manifest_entries};
use proto::v1;

use crate::pki::{self, HeadSigner};

/// How long what a node was told counts as fresh without hearing more: a day, so that a weekend's
/// outage shows as stale and a night's does not.
pub const FRESH_MS: i64 = 24 * 3_600_000;

/// Most bytes of listing texts that a change brings along unasked; more are asked for by the nodes
/// that lack them.
pub(super) const TEXTS_ALONG_MAX: usize = 256 * 1024;

/// A part that can be sent.
#[derive(Debug)]
pub struct EncodedPart {
    /// Which part.
    pub part: Part,
    /// Where it stands.
    pub position: Position,
    /// Of its manifest.
    pub digest: Digest,
    /// When its head was signed.
    pub issued: Timestamp,
    /// Its resources, for nodes that ask for some.
    pub content: PartContent,
    /// Digests of listing texts that it names, if it is `trust`.
    pub texts: BTreeSet<Digest>,
    /// The message with every resource.
    full: Bytes,
    /// The message with only what the generation before did not have.
    delta: Option<(Position, Bytes)>,
}

impl EncodedPart {
    /// The message for a stream that was sent, or whose node holds, `earlier`.
    pub fn message(&self, earlier: Option<Position>) -> Bytes {
        match &self.delta {
            Some((from, delta)) if Some(*from) == earlier => delta.clone(),
            _ => self.full.clone(),
        }
    }
}

/// A part that was read and is not signed yet.
pub(super) struct Draft {
    scope: Scope,
    part: Part,
    position: Position,
    content: PartContent,
    named: BTreeSet<Digest>,
    along: Vec<Bytes>,
}

impl Draft {
    pub(super) fn new(scope: Scope, position: Position, content: &Content) -> Self {
        let named = match content {
            Content::Trust(trust) => trust
                .versions
                .values()
                .flat_map(|version| version.tools.values())
                .flat_map(|tool| tool.functions.values())
                .map(|function| function.hash.digest())
                .collect(),
            Content::Plan(_) | Content::Policy(_) | Content::Grants(_) => BTreeSet::new(),
        };
        Self { scope, part: content.part(), position, content: content.into(), named, along: Vec::new() }
    }

    /// Texts that `earlier` did not name, if there was one and there are such: a change brings them
    /// along, so that not every node has to ask.
    pub(super) fn new_texts(&self, earlier: Option<&EncodedPart>) -> Option<Vec<Digest>> {
        let new: Vec<Digest> = self.named.difference(&earlier?.texts).copied().collect();
        (!new.is_empty()).then_some(new)
    }

    pub(super) fn add_texts(&mut self, texts: Vec<(Digest, String)>) {
        let mut left = TEXTS_ALONG_MAX;
        for (_, text) in texts {
            let Some(rest) = left.checked_sub(text.len()) else { break };
            left = rest;
            self.along.push(Bytes::from(text));
        }
    }

    pub(super) fn sign(
        self,
        signer: &HeadSigner,
        now: Timestamp,
        earlier: Option<&EncodedPart>,
    ) -> Result<EncodedPart, pki::Error> {
        let head = Head {
            fleet: signer.fleet().clone(),
            scope: self.scope,
            part: self.part,
            position: self.position,
            digest: self.content.manifest.digest(),
            issued: now,
            fresh_until: now.plus_millis(FRESH_MS),
        };
        let signed = signer.sign(&head)?;
        let all = self.content.bodies.values().cloned().collect();
        let full = encode(&signed, &self.content, all);
        let delta = earlier.filter(|earlier| earlier.position < self.position).map(|earlier| {
            let known = &earlier.content.bodies;
            let new = self.content.bodies.iter().filter(|(digest, _)| !known.contains_key(digest));
            let bodies = new.map(|(_, body)| body.clone()).chain(self.along).collect();
            (earlier.position, encode(&signed, &self.content, bodies))
        });
        Ok(EncodedPart {
            part: self.part,
            position: self.position,
            digest: head.digest,
            issued: now,
            content: self.content,
            texts: self.named,
            full,
            delta,
        })
    }
}

fn encode(head: &v1::SignedHead, content: &PartContent, bodies: Vec<Bytes>) -> Bytes {
    let update =
        v1::PartUpdate { head: Some(head.clone()), manifest: manifest_entries(&content.manifest), bodies };
    let message = v1::ServerMessage { message: Some(v1::server_message::Message::Part(update)) };
    message.encode_to_vec().into()
}
