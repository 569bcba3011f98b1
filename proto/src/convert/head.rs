//! `HeadStatement`: what is signed, between wire and domain. Who signed it is checked in
//! [`crate::head`].

use domain::plugin_set::{Head, Position, Scope};
use domain::time::Timestamp;

use super::Error;
use super::fields::{digest, named, part, value};
use crate::v1;

impl From<&Head> for v1::HeadStatement {
    fn from(head: &Head) -> Self {
        Self {
            fleet: head.fleet.as_ref().to_owned(),
            epoch: head.position.epoch,
            scope: head.scope.to_string(),
            part: v1::Part::from(head.part).into(),
            generation: head.position.generation,
            digest: head.digest.as_bytes().to_vec(),
            issued_ms: head.issued.as_millis(),
            fresh_until_ms: head.fresh_until.as_millis(),
        }
    }
}

impl TryFrom<v1::HeadStatement> for Head {
    type Error = Error;

    fn try_from(wire: v1::HeadStatement) -> Result<Self, Error> {
        let scope = Scope::parse(&wire.scope)
            .ok_or_else(|| value("HeadStatement.scope", &wire.scope, "edge/NAME or node/ID"))?;
        Ok(Self {
            fleet: named("HeadStatement.fleet", &wire.fleet)?,
            scope,
            part: part("HeadStatement.part", wire.part)?,
            position: Position { epoch: wire.epoch, generation: wire.generation },
            digest: digest("HeadStatement.digest", &wire.digest)?,
            issued: Timestamp::from_millis(wire.issued_ms),
            fresh_until: Timestamp::from_millis(wire.fresh_until_ms),
        })
    }
}
