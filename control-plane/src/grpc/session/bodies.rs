//! Bodies by digest: resources from memory, texts of listings from the database.

use std::collections::BTreeSet;

use bytes::Bytes;
use domain::digest::Digest;
use proto::v1;
use proto::v1::server_message::Message;

use super::{Effect, Session};

/// Most bytes of bodies in one answer, so that nothing else waits long behind it and no node makes
/// the server hold more. The node asks for what it still lacks when these came.
pub(in crate::grpc) const BODIES_BYTES_MAX: usize = 8 * 1024 * 1024;

impl Session {
    pub(super) fn need(&mut self, digests: Vec<Digest>) {
        let found =
            |digest: &Digest| self.set.parts().find_map(|part| part.content.bodies.get(digest)).cloned();
        let (mut bodies, mut texts) = (Vec::new(), Vec::new());
        for digest in digests.into_iter().collect::<BTreeSet<_>>() {
            match found(&digest) {
                Some(body) => bodies.push(body),
                None => texts.push(digest),
            }
        }
        if texts.is_empty() {
            return self.send_bodies(bodies);
        }
        self.answer.append(&mut bodies);
        self.perform(Effect::Texts(texts));
    }

    /// What was found, as much as one message holds: at least one, since nothing is an answer too.
    pub(super) fn send_bodies(&mut self, mut bodies: Vec<Bytes>) {
        let mut size = 0_usize;
        let fit = bodies.iter().take_while(|body| {
            size += body.len();
            size <= BODIES_BYTES_MAX
        });
        let fit = fit.count().max(1);
        bodies.truncate(fit);
        self.send(Message::Bodies(v1::Bodies { bodies }));
    }
}
