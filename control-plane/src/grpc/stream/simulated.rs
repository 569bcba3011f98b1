//! A stream without gRPC, for the simulation: the same session, the same work on the database, but
//! messages, changes and time come when the simulation says so.

use std::sync::Arc;

use bytes::Bytes;
use domain::plugin_set::Part;
use proto::v1;

use super::{Stream, WORK_MAX};
use crate::fleet::Registration;
use crate::grpc::Context;
use crate::grpc::session::Input;

/// One stream of a node.
pub struct SimulatedStream(Stream);

impl std::fmt::Debug for SimulatedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedStream").field("session", &self.0.session).finish_non_exhaustive()
    }
}

impl SimulatedStream {
    pub(crate) fn new(context: Arc<Context>, registration: Registration, address: String) -> Self {
        Self(Stream::new(context, registration, address))
    }

    /// Whether the node is read on, or what it says next waits in its own buffers.
    pub fn reads(&self) -> bool {
        !self.0.is_closing && self.0.work.len() < WORK_MAX
    }

    /// Takes a message of the node.
    pub fn hear(&mut self, message: v1::NodeMessage) {
        self.0.hear(message);
    }

    /// Looks at the clock.
    pub fn tick(&mut self) {
        self.0.handle(Input::Tick);
    }

    /// When to look at the clock, by the monotonic one.
    pub fn due(&self) -> u64 {
        self.0.session.deadline()
    }

    /// Looks whether the plugin set changed or the stream is to end, as the real one does when told.
    pub fn look(&mut self) {
        if self.0.is_closing {
            return;
        }
        if self.0.registration.set.has_changed().unwrap_or_default() {
            self.0.read_set();
        }
        if self.0.registration.own.has_changed().unwrap_or_default() {
            self.0.read_own();
        }
    }

    /// Whether work on the database is under way.
    pub const fn works(&self) -> bool {
        self.0.running.is_some()
    }

    /// Does that work, from its beginning to its end, and takes what came of it unless the server is
    /// killed right after its commit.
    pub(crate) async fn work(&mut self, is_killed: bool) {
        if let Some(work) = &mut self.0.running {
            let input = work.as_mut().await;
            self.0.running = None;
            if !is_killed {
                self.0.handle(input);
            }
        }
    }

    /// What is to be sent, in order, encoded.
    pub fn outbox(&mut self) -> Vec<Bytes> {
        self.0.unsent_bytes = 0;
        self.0.unsent.drain(..).collect()
    }

    /// Whether the stream ends once its outbox is sent.
    pub const fn is_closing(&self) -> bool {
        self.0.is_closing
    }

    /// The parts of the plugin set as this server has them in memory.
    pub fn positions(&self) -> Vec<(Part, domain::plugin_set::Position)> {
        let edge = self.0.registration.edge.set();
        let parts = Part::OF_EDGE.into_iter().filter_map(|part| Some((part, edge.get(part)?.position)));
        parts.collect()
    }
}
