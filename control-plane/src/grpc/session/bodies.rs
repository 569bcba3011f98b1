//! Bodies by digest: resources from memory, texts of listings from the database.

use bytes::Bytes;
use domain::digest::Digest;
use proto::v1;
use proto::v1::server_message::Message;

use super::{Effect, Session};

/// Most bytes of bodies in one message: several make up a longer answer, so that nothing else waits
/// long behind it.
const BODIES_BYTES_MAX: usize = 8 * 1024 * 1024;

impl Session {
    pub(super) fn need(&mut self, digests: Vec<Digest>) {
        let found =
            |digest: &Digest| self.set.parts().find_map(|part| part.content.bodies.get(digest)).cloned();
        let (mut bodies, mut texts) = (Vec::new(), Vec::new());
        for digest in digests {
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

    /// Everything that was found, in as few messages as may be: at least one, since what does not
    /// come then is not there.
    pub(super) fn send_bodies(&mut self, bodies: Vec<Bytes>) {
        let (mut batch, mut size) = (Vec::new(), 0_usize);
        for body in bodies {
            if size + body.len() > BODIES_BYTES_MAX && !batch.is_empty() {
                size = 0;
                self.send(Message::Bodies(v1::Bodies { bodies: std::mem::take(&mut batch) }));
            }
            size += body.len();
            batch.push(body);
        }
        self.send(Message::Bodies(v1::Bodies { bodies: batch }));
    }
}
