//! A part on its way in: believed, accepted, completed body by body, and then handed on to be made
//! durable. Pure; part of the [`super::session`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use domain::digest::{Digest, ListingHash};
use domain::id::{EdgeName, NodeId};
use domain::plugin_set::{AcceptFault, Acceptance, Head, Part, Scope, accept};
use proto::convert::{self, Content, PartContent, Refused, Rejected};
use proto::v1;

use crate::ledger::{HeldPart, Verify, listing_hashes, missing};

/// Whose parts this node takes.
#[derive(Clone, Debug)]
pub(crate) struct Me {
    pub(crate) edge: EdgeName,
    pub(crate) node: NodeId,
}

/// What came of a `PartUpdate`.
#[derive(Debug)]
pub(super) enum Arrived {
    /// It is what is held already.
    Held(Head),
    /// It is taken, once whole.
    Pending(Box<Pending>),
    /// It is refused.
    Refused(Refused),
    /// Not even its head can be read, so that nothing can be said about it.
    Unreadable(String),
}

/// A part that is accepted and may lack bodies yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) part: HeldPart,
    /// What was asked for last.
    asked: BTreeSet<Digest>,
}

/// Judges an update against what is held of its part.
pub(super) fn arrive(
    update: v1::PartUpdate,
    held: &BTreeMap<Part, Arc<HeldPart>>,
    me: &Me,
    verify: &Verify,
) -> Arrived {
    let Some(signed) = update.head else { return Arrived::Unreadable("it has no head".to_owned()) };
    let head = match verify(&signed) {
        Ok(head) => head,
        Err(reason) => return unbelieved(&signed, &reason),
    };
    let refuse = |code: &str, reason: String| Arrived::Refused(refused(&head, code, reason));
    let expected = match head.part {
        Part::Grants => Scope::Node(me.node.clone()),
        Part::Trust | Part::Plan | Part::Policy => Scope::Edge(me.edge.clone()),
    };
    if head.scope != expected {
        return refuse("scope", format!("it is of {}, and this node takes {expected}", head.scope));
    }
    let manifest = match convert::manifest(&update.manifest) {
        Ok(manifest) => manifest,
        Err(error) => return refuse("manifest", error.to_string()),
    };
    let digest = manifest.digest();
    if digest != head.digest {
        return refuse("digest", format!("its manifest's digest is {digest}, its head says {}", head.digest));
    }
    let before = held.get(&head.part);
    match accept(
        head.part,
        before.map(|part| (part.head.position, part.head.digest)),
        (head.position, digest),
    ) {
        Ok(Acceptance::Held) => return Arrived::Held(head),
        Ok(Acceptance::Apply) => {}
        Err(fault @ AcceptFault::Outdated { .. }) => return refuse("outdated", fault.to_string()),
        Err(fault @ AcceptFault::Forked { .. }) => return refuse("forked", fault.to_string()),
    }
    let content = PartContent { manifest, bodies: BTreeMap::new() };
    let part = HeldPart { head, signed, content, texts: BTreeMap::new() };
    let mut pending = Pending { part, asked: BTreeSet::new() };
    if let Some(before) = before {
        pending.take(before.content.bodies.values().cloned());
        pending.part.texts.clone_from(&before.texts);
    }
    pending.take(update.bodies);
    Arrived::Pending(Box::new(pending))
}

impl Pending {
    /// Takes bodies, each where its digest says that it belongs; others are dropped.
    pub(super) fn take(&mut self, bodies: impl IntoIterator<Item = Bytes>) {
        let named: BTreeSet<Digest> = self.part.content.manifest.0.values().copied().collect();
        let mut others = Vec::new();
        for body in bodies {
            let digest = Digest::of(&body);
            if named.contains(&digest) {
                self.part.content.bodies.insert(digest, body);
            } else {
                others.push((digest, body));
            }
        }
        if self.part.head.part != Part::Trust || others.is_empty() {
            return;
        }
        for (digest, body) in others {
            if let Ok(text) = std::str::from_utf8(&body) {
                self.part.texts.insert(ListingHash::from_digest(digest), text.into());
            }
        }
    }

    pub(super) fn asked_one_of(&self, digests: &BTreeSet<Digest>) -> bool {
        !self.asked.is_disjoint(digests)
    }

    /// What to ask for; empty once it is whole.
    ///
    /// # Errors
    /// What was asked for before and did not come: the sender does not have it.
    pub(super) fn wanted(&mut self) -> Result<Vec<Digest>, String> {
        let lacking = missing(self.part.head.part, &self.part.content, &self.part.texts);
        if lacking.is_empty() {
            return Ok(Vec::new());
        }
        if self.asked.is_superset(&lacking) && lacking.len() == self.asked.len() {
            return Err(format!("{} of its bodies were asked for and did not come", lacking.len()));
        }
        self.asked.clone_from(&lacking);
        // One message names what one message may name; the rest is asked for when these came.
        Ok(lacking.into_iter().take(convert::LIST_MAX).collect())
    }

    /// The part with nothing that it does not name, and the resources of it that are refused.
    pub(super) fn finish(mut self, before: Option<&HeldPart>) -> (HeldPart, Content, Vec<Refused>) {
        let part = self.part.head.part;
        let named: BTreeSet<Digest> = self.part.content.manifest.0.values().copied().collect();
        self.part.content.bodies.retain(|digest, _| named.contains(digest));
        let (mut content, rejected) = self.part.content.read(part);
        if let Content::Trust(trust) = &content {
            let hashes = listing_hashes(trust);
            self.part.texts.retain(|hash, _| hashes.contains(hash));
        } else {
            self.part.texts.clear();
        }
        keep_last_good(&mut content, &rejected, before);
        let head = &self.part.head;
        let refused = rejected.into_iter().map(|one| Refused {
            resource: Some((one.name, one.digest)),
            ..refused(head, "unreadable", one.error.to_string())
        });
        let refused = refused.collect();
        (self.part, content, refused)
    }
}

/// A resource of `plan` or `policy` that cannot be read never takes away what ran before. One of
/// `trust` does: what is approved is not known then, and nothing is called on a guess.
fn keep_last_good(content: &mut Content, rejected: &[Rejected], before: Option<&HeldPart>) {
    let Some(before) = before.filter(|_| !rejected.is_empty()) else { return };
    match (content, before.read()) {
        (Content::Plan(plan), Content::Plan(earlier)) => {
            for (plugin, planned) in earlier.plugins {
                if rejected.iter().any(|one| &*one.name == plugin.as_str()) {
                    plan.plugins.insert(plugin, planned);
                }
            }
        }
        (Content::Policy(policy), Content::Policy(earlier)) => *policy = earlier,
        _ => {}
    }
}

pub(super) fn refused(head: &Head, code: &str, reason: String) -> Refused {
    Refused {
        part: head.part,
        position: head.position,
        resource: None,
        code: code.into(),
        reason: reason.into(),
    }
}

/// What a head claims is repeated in the refusal, although nobody vouches for it.
fn unbelieved(signed: &v1::SignedHead, reason: &str) -> Arrived {
    use prost::Message as _;
    let head =
        v1::HeadStatement::decode(signed.statement.as_slice()).ok().and_then(|it| Head::try_from(it).ok());
    match head {
        Some(head) => Arrived::Refused(refused(&head, "signature", reason.to_owned())),
        None => Arrived::Unreadable(reason.to_owned()),
    }
}
