//! `NodeMessage`: everything that a node says on its stream, read at once.

use std::sync::Arc;

use domain::digest::Digest;
use domain::id::{BootId, PluginVersion};
use domain::plugin_set::{Part, Position};
use domain::time::Timestamp;

use super::fields::{at_most, cut, digest, digests, id, part, short, twice};
use super::report::is_code;
use super::{Error, LIST_MAX, Report, Status, TEXT_MAX};
use crate::v1;
use crate::v1::node_message::Message;

/// Most bytes of a sealed counter or a challenge: what a server seals is shorter.
const PROOF_MAX: usize = 128;

/// Most bodies that a Hello names beyond those of the held parts (the protocol file says so).
const BODIES_MAX: usize = 1_000;

/// One message of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeSaid {
    /// The first message of a stream.
    Hello(Box<Hello>),
    /// A part is verified and durable.
    Ack(Acked),
    /// A resource is refused, or a whole part.
    Nack(Refused),
    /// Bodies that it lacks.
    Need(Vec<Digest>),
    /// What a tool listed.
    Report(Box<Report>),
    /// Canonical texts that were asked for.
    Listings(Vec<String>),
    /// How everything stands on it.
    Status(Status),
    /// It lives; the digest of the status that it sent last.
    Heartbeat(Option<Digest>),
    /// All that it holds of a part, as it was asked for; believed by its signature alone.
    HeldPart(Box<v1::PartUpdate>),
    /// The session counter of this stream is on its disk.
    Kept(u64),
}

/// Who connects, and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    /// One run of the agent's process.
    pub boot: BootId,
    /// For people.
    pub agent_version: Arc<str>,
    /// The protocol that it speaks; 1.
    pub protocol: u32,
    /// The signed heads of the parts that it has durably, as received.
    pub held: Vec<(Part, v1::SignedHead)>,
    /// What runs or is installed on it.
    pub versions: Vec<PluginVersion>,
    /// Bodies that it holds beyond those of the held parts.
    pub bodies: Vec<Digest>,
    /// How everything stands on it.
    pub status: Status,
    /// Its clock.
    pub clock: Timestamp,
    /// What tells it from its copies; `None` from nodes that keep no session counter.
    pub session: Option<SessionProof>,
}

/// What tells a node from its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionProof {
    /// The newest sealed counter that it has durably; empty before the first.
    pub counter: Vec<u8>,
    /// The challenge that it was asked to repeat; else empty.
    pub challenge: Vec<u8>,
}

/// A part that a node has made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Which part.
    pub part: Part,
    /// At which position.
    pub position: Position,
    /// Of which manifest.
    pub digest: Digest,
}

/// What a node refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Of which part.
    pub part: Part,
    /// At which position.
    pub position: Position,
    /// The resource and its digest; `None` refuses the whole part.
    pub resource: Option<(Arc<str>, Digest)>,
    /// A stable code, 1 to 64 of `a-z` and `_`.
    pub code: Arc<str>,
    /// The reason as a sentence.
    pub reason: Arc<str>,
}

impl TryFrom<v1::NodeMessage> for NodeSaid {
    type Error = Error;

    fn try_from(wire: v1::NodeMessage) -> Result<Self, Error> {
        let message = wire.message.ok_or(Error::Missing { field: "NodeMessage.message" })?;
        Ok(match message {
            Message::Hello(hello) => Self::Hello(Box::new(hello.try_into()?)),
            Message::Ack(ack) => Self::Ack(ack.try_into()?),
            Message::Nack(nack) => Self::Nack(nack.try_into()?),
            Message::Need(need) => Self::Need(digests("Need.digests", &need.digests)?),
            Message::Listing(report) => Self::Report(Box::new(report.try_into()?)),
            Message::Listings(listings) => {
                at_most("Listings.canonical", listings.canonical.len(), LIST_MAX, "texts")?;
                Self::Listings(listings.canonical)
            }
            Message::Status(status) => Self::Status(status.try_into()?),
            Message::Heartbeat(beat) if beat.status_digest.is_empty() => Self::Heartbeat(None),
            Message::Heartbeat(beat) => {
                Self::Heartbeat(Some(digest("Heartbeat.status_digest", &beat.status_digest)?))
            }
            Message::HeldPart(part) => Self::HeldPart(Box::new(part)),
            Message::CounterKept(kept) => Self::Kept(kept.counter),
        })
    }
}

impl From<&NodeSaid> for v1::NodeMessage {
    fn from(said: &NodeSaid) -> Self {
        let message = match said {
            NodeSaid::Hello(hello) => Message::Hello(hello.as_ref().into()),
            NodeSaid::Ack(acked) => Message::Ack(acked.into()),
            NodeSaid::Nack(refused) => Message::Nack(refused.into()),
            NodeSaid::Need(digests) => Message::Need(v1::Need { digests: wire_digests(digests) }),
            NodeSaid::Report(report) => Message::Listing(report.as_ref().into()),
            NodeSaid::Listings(canonical) => Message::Listings(v1::Listings { canonical: canonical.clone() }),
            NodeSaid::Status(status) => Message::Status(status.into()),
            NodeSaid::HeldPart(part) => Message::HeldPart(part.as_ref().clone()),
            NodeSaid::Heartbeat(digest) => Message::Heartbeat(v1::Heartbeat {
                status_digest: digest.map(|digest| digest.as_bytes().to_vec()).unwrap_or_default(),
            }),
            NodeSaid::Kept(counter) => Message::CounterKept(v1::CounterKept { counter: *counter }),
        };
        Self { message: Some(message) }
    }
}

impl TryFrom<v1::Hello> for Hello {
    type Error = Error;

    fn try_from(wire: v1::Hello) -> Result<Self, Error> {
        at_most("Hello.bodies", wire.bodies.len(), BODIES_MAX, "digests")?;
        at_most("Hello.versions", wire.versions.len(), LIST_MAX, "versions")?;
        at_most("Hello.held", wire.held.len(), Part::ALL.len(), "parts")?;
        let mut held: Vec<(Part, v1::SignedHead)> = Vec::with_capacity(wire.held.len());
        for one in wire.held {
            let part = part("Held.part", one.part)?;
            if held.iter().any(|(known, _)| *known == part) {
                return Err(twice("Held.part", part.as_str()));
            }
            held.push((part, one.head.ok_or(Error::Missing { field: "Held.head" })?));
        }
        let versions = wire.versions.iter().map(|text| id("Hello.versions", PluginVersion::parse(text)));
        Ok(Self {
            boot: id("Hello.boot", BootId::parse(&wire.boot))?,
            agent_version: short("Hello.agent_version", &wire.agent_version)?,
            protocol: wire.protocol,
            held,
            versions: versions.collect::<Result<_, _>>()?,
            bodies: digests("Hello.bodies", &wire.bodies)?,
            status: wire.status.map(TryInto::try_into).transpose()?.unwrap_or_default(),
            clock: Timestamp::from_millis(wire.clock_ms),
            session: wire.session.map(TryInto::try_into).transpose()?,
        })
    }
}

impl TryFrom<v1::SessionProof> for SessionProof {
    type Error = Error;

    fn try_from(wire: v1::SessionProof) -> Result<Self, Error> {
        at_most("SessionProof.counter", wire.counter.len(), PROOF_MAX, "bytes")?;
        at_most("SessionProof.challenge", wire.challenge.len(), PROOF_MAX, "bytes")?;
        Ok(Self { counter: wire.counter, challenge: wire.challenge })
    }
}

impl From<&Hello> for v1::Hello {
    fn from(hello: &Hello) -> Self {
        let held = hello
            .held
            .iter()
            .map(|(part, head)| v1::Held { part: v1::Part::from(*part).into(), head: Some(head.clone()) });
        Self {
            boot: hello.boot.as_str().to_owned(),
            agent_version: hello.agent_version.as_ref().to_owned(),
            protocol: hello.protocol,
            held: held.collect(),
            versions: hello.versions.iter().map(ToString::to_string).collect(),
            bodies: wire_digests(&hello.bodies),
            status: Some((&hello.status).into()),
            clock_ms: hello.clock.as_millis(),
            session: hello.session.as_ref().map(|proof| v1::SessionProof {
                counter: proof.counter.clone(),
                challenge: proof.challenge.clone(),
            }),
        }
    }
}

impl TryFrom<v1::Ack> for Acked {
    type Error = Error;

    fn try_from(wire: v1::Ack) -> Result<Self, Error> {
        Ok(Self {
            part: part("Ack.part", wire.part)?,
            position: Position { epoch: wire.epoch, generation: wire.generation },
            digest: digest("Ack.digest", &wire.digest)?,
        })
    }
}

impl From<&Acked> for v1::Ack {
    fn from(acked: &Acked) -> Self {
        Self {
            part: v1::Part::from(acked.part).into(),
            epoch: acked.position.epoch,
            generation: acked.position.generation,
            digest: acked.digest.as_bytes().to_vec(),
        }
    }
}

impl TryFrom<v1::Nack> for Refused {
    type Error = Error;

    fn try_from(wire: v1::Nack) -> Result<Self, Error> {
        let resource = if wire.resource.is_empty() {
            None
        } else {
            Some((short("Nack.resource", &wire.resource)?, digest("Nack.digest", &wire.digest)?))
        };
        if !is_code(&wire.code) {
            return Err(super::fields::value("Nack.code", &wire.code, "1 to 64 of a-z and _"));
        }
        Ok(Self {
            part: part("Nack.part", wire.part)?,
            position: Position { epoch: wire.epoch, generation: wire.generation },
            resource,
            code: wire.code.as_str().into(),
            reason: cut(&wire.reason, TEXT_MAX).into(),
        })
    }
}

impl From<&Refused> for v1::Nack {
    fn from(refused: &Refused) -> Self {
        let (resource, digest) = match &refused.resource {
            Some((name, digest)) => (name.as_ref().to_owned(), digest.as_bytes().to_vec()),
            None => (String::new(), Vec::new()),
        };
        Self {
            part: v1::Part::from(refused.part).into(),
            epoch: refused.position.epoch,
            generation: refused.position.generation,
            resource,
            digest,
            code: refused.code.as_ref().to_owned(),
            reason: cut(&refused.reason, TEXT_MAX).to_owned(),
        }
    }
}

/// The counter in one that a server sealed (`Welcome.counter`); `None` if it is none.
pub fn counter_in(sealed: &[u8]) -> Option<u64> {
    sealed.get(1..9)?.try_into().ok().map(u64::from_be_bytes)
}

/// The bytes of each.
pub fn wire_digests(digests: &[Digest]) -> Vec<Vec<u8>> {
    digests.iter().map(|digest| digest.as_bytes().to_vec()).collect()
}
