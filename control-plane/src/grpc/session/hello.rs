//! The opening of a stream: what the node holds is compared with what the fleet goes by.

use std::sync::Arc;

use domain::plugin_set::{Head, Part, Position};
use prost::Message as _;
use proto::convert::{Acked, Hello};
use proto::v1;
use proto::v1::server_message::Message;

use crate::operation::rewind::Proof;

use super::{Effect, HEARTBEAT_MS, Output, PROTOCOL, Session, Set, State, fresh_ms};

/// How a held part compares with the fleet's.
enum Held {
    /// The same.
    Current,
    /// Older, or nothing that counts: the part is sent.
    Behind(Option<Position>),
    /// The fleet signed something that the database does not have.
    Ahead(Proof),
}

/// How far the opening of a stream came whose node is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Compared with memory, which may only be late.
    Memory,
    /// Compared with what the database said just now.
    Reloaded,
    /// A new epoch was begun.
    Rewound,
}

impl Session {
    pub(super) fn hello(&mut self, hello: Hello) {
        if hello.protocol < PROTOCOL {
            let reason =
                format!("protocol {} is older than {PROTOCOL}, which this server speaks", hello.protocol);
            return self.goodbye("refused", &reason, 60_000);
        }
        self.boot = Some(hello.boot.clone());
        self.status = Some(hello.status.digest());
        let hello = Arc::new(hello);
        self.state = State::Opening { hello: Arc::clone(&hello), step: Step::Memory, admitted: None };
        self.perform(Effect::Admit(hello));
    }

    pub(super) fn admitted(&mut self, now: u64, admitted: (String, u64, u32)) {
        if let State::Opening { admitted: slot, .. } = &mut self.state {
            *slot = Some(admitted);
            self.open(now);
        }
    }

    /// Has the Hello noted once more, before anything that the node says next.
    pub(super) fn note_again(&mut self, again: bool) {
        if let State::Opening { hello, .. } = &self.state
            && again
        {
            self.out.push_back(Output::Do(Effect::NoteAgain(Arc::clone(hello))));
        }
    }

    pub(super) fn reloaded(&mut self, now: u64, set: Set) {
        self.set = set;
        self.open(now);
    }

    /// Compares and welcomes. A node that is ahead makes the server read its heads again: its memory may
    /// only be late. If the node is still ahead, the database is older than what was signed, and a new
    /// epoch begins, so that nothing that nodes hold is taken for newer than what they are told.
    fn open(&mut self, now: u64) {
        let State::Opening { hello, step, admitted: Some(admitted) } = &self.state else { return };
        let (hello, step, admitted) = (Arc::clone(hello), *step, admitted.clone());
        let (mut current, mut proofs, mut behind) = (Vec::new(), Vec::new(), Vec::new());
        for part in Part::ALL {
            match self.compare(part, &hello) {
                Held::Current => current.push(part),
                Held::Behind(position) => behind.push((part, position)),
                Held::Ahead(proof) => proofs.push(proof),
            }
        }
        if !proofs.is_empty() {
            return self.ahead(hello, admitted, (step, proofs));
        }
        for (part, position) in behind {
            self.slots.entry(part).or_default().sent = position;
        }
        self.welcome(admitted, &current);
        for part in current {
            self.confirm(part);
        }
        if let Some(held) = self.held_before_the_epoch(&hello) {
            self.salvage(held);
        } else {
            self.state = State::Open;
            self.push(now);
        }
    }

    fn ahead(&mut self, hello: Arc<Hello>, admitted: (String, u64, u32), (step, proofs): (Step, Vec<Proof>)) {
        let (step, effect) = match step {
            Step::Memory => (Step::Reloaded, Effect::Reload),
            Step::Reloaded => {
                self.forked = proofs.iter().any(|proof| proof.part == Part::Trust && proof.forked);
                (Step::Rewound, Effect::Rewind(proofs))
            }
            Step::Rewound => {
                return self.goodbye("refused", "the control plane cannot begin a new epoch now", 30_000);
            }
        };
        self.state = State::Opening { hello, step, admitted: Some(admitted) };
        self.perform(effect);
    }

    fn welcome(&mut self, (session, epoch, fleet_size): (String, u64, u32), current: &[Part]) {
        // A new epoch may have begun since the node was admitted.
        let epoch = self.set.parts().map(|part| part.position.epoch).fold(epoch, u64::max);
        self.send(Message::Welcome(v1::Welcome {
            session,
            epoch,
            current: current.iter().map(|part| v1::Part::from(*part).into()).collect(),
            heartbeat_ms: HEARTBEAT_MS,
            fresh_ms: fresh_ms(),
            fleet_size,
            clock_ms: self.wall.as_millis(),
            server: self.identity.server.to_string(),
            counter: self.counter.as_ref().map(|counter| counter.sealed.clone()).unwrap_or_default(),
        }));
    }

    fn confirm(&mut self, part: Part) {
        let Some(built) = self.set.get(part) else { return };
        let (position, digest) = (built.position, built.digest);
        self.slots.entry(part).or_default().sent = Some(position);
        self.out.push_back(Output::Acked(Acked { part, position, digest }));
    }

    /// What a node says it holds is believed where nothing hangs on it: that it is current or
    /// behind harms itself alone if it is not true. That it is ahead must be signed.
    fn compare(&self, part: Part, hello: &Hello) -> Held {
        let Some(built) = self.set.get(part) else { return Held::Behind(None) };
        let Some((_, signed)) = hello.held.iter().find(|(held, _)| *held == part) else {
            return Held::Behind(None);
        };
        let Some(head) = read(signed).filter(|head| self.is_own(part, head)) else {
            return Held::Behind(None);
        };
        if (head.position, head.digest) == (built.position, built.digest) {
            return Held::Current;
        }
        if head.position < built.position {
            return Held::Behind(Some(head.position));
        }
        match proto::head::verify(signed, &self.identity.fleet, &self.identity.authorities) {
            Err(_) => Held::Behind(None),
            Ok(_) => Held::Ahead(Proof {
                forked: head.position == built.position,
                scope: head.scope,
                part,
                position: head.position,
            }),
        }
    }

    pub(super) fn is_own(&self, part: Part, head: &Head) -> bool {
        use domain::plugin_set::Scope;
        let is_scope = match &head.scope {
            Scope::Edge(edge) => part != Part::Grants && *edge == self.identity.edge,
            Scope::Node(node) => part == Part::Grants && *node == self.identity.node,
        };
        is_scope && head.part == part && head.fleet == self.identity.fleet
    }
}

pub(super) fn read(signed: &v1::SignedHead) -> Option<Head> {
    v1::HeadStatement::decode(signed.statement.as_slice()).ok()?.try_into().ok()
}
