//! After a database was restored: what only the node holds as approved is read from it before it is sent
//! anything in its place.

use bytes::Bytes;
use domain::digest::Digest;
use domain::plugin_set::{Part, Position, Trust};
use proto::convert::{self, Content, Hello, PartContent};
use proto::v1;
use proto::v1::server_message::Message;

use super::hello::read;
use super::{Effect, Session, State};

/// How long a node may take to show what it holds; one of an earlier release never does.
const SHOWN_WITHIN_MS: u64 = 3_000;

/// The trust that a node holds from an earlier epoch, validly signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grpc) struct HeldTrust {
    /// Where it stood.
    pub(in crate::grpc) position: Position,
    /// Of its manifest.
    pub(in crate::grpc) digest: Digest,
    /// The database had another content there, so that it is lost wherever the heads stood.
    pub(in crate::grpc) forked: bool,
}

/// What the node showed, as it was signed.
#[derive(Debug)]
pub(in crate::grpc) struct Shown {
    /// Of its manifest.
    pub(in crate::grpc) digest: Digest,
    /// What it says.
    pub(in crate::grpc) trust: Trust,
    /// Its bodies, among them texts of listings.
    pub(in crate::grpc) bodies: Vec<Bytes>,
}

impl Session {
    /// The trust that a node holds of an earlier epoch than the fleet's; rare, so that nothing of this
    /// costs a node that is current.
    pub(super) fn held_before_the_epoch(&self, hello: &Hello) -> Option<HeldTrust> {
        let now = self.set.get(Part::Trust)?.position.epoch;
        let (_, signed) = hello.held.iter().find(|(part, _)| *part == Part::Trust)?;
        let head = read(signed).filter(|head| self.is_own(Part::Trust, head))?;
        if head.position.epoch >= now {
            return None;
        }
        proto::head::verify(signed, &self.identity.fleet, &self.identity.authorities).ok()?;
        Some(HeldTrust { position: head.position, digest: head.digest, forked: self.forked })
    }

    pub(super) fn salvage(&mut self, held: HeldTrust) {
        self.state = State::Salvaging { held, asked: None };
        self.perform(Effect::Salvage(held));
    }

    pub(super) fn lost(&mut self, now: u64, is_lost: bool) {
        let State::Salvaging { asked, .. } = &mut self.state else { return };
        if !is_lost {
            return self.salvaged(now);
        }
        *asked = Some(now);
        self.send(Message::WantHeld(v1::WantHeld { part: v1::Part::Trust.into() }));
    }

    /// What the node showed; what is not exactly what was signed says nothing.
    pub(super) fn shown(&mut self, now: u64, update: v1::PartUpdate) {
        let State::Salvaging { held, asked } = &mut self.state else { return };
        *asked = None;
        let held = *held;
        match self.believe(&held, update) {
            Some(shown) => self.perform(Effect::KeepHeld(Box::new(shown))),
            None => self.salvaged(now),
        }
    }

    fn believe(&self, held: &HeldTrust, update: v1::PartUpdate) -> Option<Shown> {
        let signed = update.head?;
        let head = read(&signed).filter(|head| self.is_own(Part::Trust, head))?;
        proto::head::verify(&signed, &self.identity.fleet, &self.identity.authorities).ok()?;
        let manifest = convert::manifest(&update.manifest).ok()?;
        if head.digest != held.digest || manifest.digest() != held.digest {
            return None;
        }
        let bodies = update.bodies.iter().map(|body| (Digest::of(body), body.clone())).collect();
        let (content, _) = PartContent { manifest, bodies }.read(Part::Trust);
        match content {
            Content::Trust(trust) => Some(Shown { digest: held.digest, trust, bodies: update.bodies }),
            Content::Plan(_) | Content::Policy(_) | Content::Grants(_) => None,
        }
    }

    /// Nothing more is to be learned from the node: it is sent what it lacks.
    pub(super) fn salvaged(&mut self, now: u64) {
        if matches!(self.state, State::Salvaging { .. }) {
            self.state = State::Open;
            self.push(now);
        }
    }

    pub(super) const fn shown_by(&self) -> Option<u64> {
        match &self.state {
            State::Salvaging { asked: Some(asked), .. } => Some(*asked + SHOWN_WITHIN_MS),
            _ => None,
        }
    }

    pub(super) fn give_up_salvage(&mut self, now: u64) {
        if self.shown_by().is_some_and(|by| by <= now) {
            self.salvaged(now);
        }
    }
}
