//! The opening of a stream: what the node holds is compared with what the fleet goes by.

use std::sync::Arc;

use domain::plugin_set::{Head, Part, Position};
use prost::Message as _;
use proto::convert::{Acked, Hello};
use proto::v1;
use proto::v1::server_message::Message;

use super::{Effect, HEARTBEAT_MS, Output, PROTOCOL, Session, Set, State, fresh_ms};

/// How a held part compares with the fleet's.
enum Held {
    /// The same.
    Current,
    /// Older, or nothing that counts: the part is sent.
    Behind(Option<Position>),
    /// The fleet signed something that the database does not have.
    Ahead(String),
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
        self.state = State::Opening { hello: Arc::clone(&hello), reloaded: false, admitted: None };
        self.perform(Effect::Admit(hello));
    }

    pub(super) fn admitted(&mut self, now: u64, admitted: (String, u64, u32)) {
        if let State::Opening { admitted: slot, .. } = &mut self.state {
            *slot = Some(admitted);
            self.open(now);
        }
    }

    pub(super) fn reloaded(&mut self, now: u64, set: Set) {
        self.set = set;
        self.open(now);
    }

    /// Compares and welcomes. A node that is ahead makes the server read its heads again once: its
    /// memory may only be late. If it is still ahead, the database is older than what was signed,
    /// and nothing is said that would move the node backwards.
    fn open(&mut self, now: u64) {
        let State::Opening { hello, reloaded, admitted: Some((session, epoch, fleet_size)) } = &self.state
        else {
            return;
        };
        let (hello, reloaded) = (Arc::clone(hello), *reloaded);
        let (session, epoch, fleet_size) = (session.clone(), *epoch, *fleet_size);
        let mut current = Vec::new();
        for part in Part::ALL {
            match self.compare(part, &hello) {
                Held::Current => current.push(part),
                Held::Behind(position) => self.slots.entry(part).or_default().sent = position,
                Held::Ahead(_) if !reloaded => {
                    self.state = State::Opening {
                        hello,
                        reloaded: true,
                        admitted: Some((session, epoch, fleet_size)),
                    };
                    return self.perform(Effect::Reload);
                }
                Held::Ahead(reason) => return self.goodbye("refused", &reason, 30_000),
            }
        }
        self.state = State::Open;
        self.send(Message::Welcome(v1::Welcome {
            session,
            epoch,
            current: current.iter().map(|part| v1::Part::from(*part).into()).collect(),
            heartbeat_ms: HEARTBEAT_MS,
            fresh_ms: fresh_ms(),
            fleet_size,
            clock_ms: self.wall.as_millis(),
        }));
        for part in current {
            self.confirm(part);
        }
        self.push(now);
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
        match proto::head::verify(signed, &self.identity.fleet, &[&self.identity.authority]) {
            Err(_) => Held::Behind(None),
            Ok(_) if head.position == built.position => Held::Ahead(format!(
                "the node holds {part} {} with digest {}, the database has {} at that position",
                head.position, head.digest, built.digest
            )),
            Ok(_) => Held::Ahead(format!(
                "the node holds {part} {}, which is newer than {} in the database; was it restored from a backup?",
                head.position, built.position
            )),
        }
    }

    fn is_own(&self, part: Part, head: &Head) -> bool {
        use domain::plugin_set::Scope;
        let is_scope = match &head.scope {
            Scope::Edge(edge) => part != Part::Grants && *edge == self.identity.edge,
            Scope::Node(node) => part == Part::Grants && *node == self.identity.node,
        };
        is_scope && head.part == part && head.fleet == self.identity.fleet
    }
}

fn read(signed: &v1::SignedHead) -> Option<Head> {
    v1::HeadStatement::decode(signed.statement.as_slice()).ok()?.try_into().ok()
}
