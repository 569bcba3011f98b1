//! Who waits for which answer, where all answers come on one stream: stdout, or the one of 2024-11-05.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::call::RawProgress;
use crate::dialog::{Listener, Said};
use crate::envelope;
use crate::error::Error;

pub(crate) type Outcome = Result<Box<RawValue>, Error>;

/// One that waits.
struct Waiter {
    answer: oneshot::Sender<Outcome>,
    progress: Option<Arc<dyn Listener>>,
}

/// All that wait on one stream, until it ends.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    by_id: HashMap<u64, Waiter>,
    /// Set once, when no answer can come any more.
    closed: Option<Error>,
}

impl Waiters {
    /// Registers a request before it is written.
    ///
    /// # Errors
    /// Why no answer can come any more.
    pub(crate) fn wait_for(
        &self,
        id: u64,
        progress: Option<Arc<dyn Listener>>,
    ) -> Result<oneshot::Receiver<Outcome>, Error> {
        let mut inside = self.inside();
        if let Some(error) = &inside.closed {
            return Err(error.clone());
        }
        let (answer, receiver) = oneshot::channel();
        inside.by_id.insert(id, Waiter { answer, progress });
        Ok(receiver)
    }

    /// Ends a wait; late answers go nowhere. False if nobody waited.
    pub(crate) fn settle(&self, id: u64, outcome: Outcome) -> bool {
        let waiter = self.inside().by_id.remove(&id);
        // Who waited may have gone in the meantime.
        waiter.is_some_and(|waiter| waiter.answer.send(outcome).is_ok())
    }

    /// Nobody waits any more; whether anybody did.
    pub(crate) fn forget(&self, id: u64) -> bool {
        self.inside().by_id.remove(&id).is_some()
    }

    /// The one request that waits, if it is the only one.
    pub(crate) fn only_one(&self) -> Option<u64> {
        let inside = self.inside();
        let mut ids = inside.by_id.keys();
        ids.next().copied().filter(|_| ids.next().is_none())
    }

    /// Hands progress on.
    pub(crate) fn progress(&self, params: &RawValue) {
        let token = envelope::members(params).and_then(|members| members.get("progressToken"));
        let Some(id) = token.and_then(envelope::Id::from_raw).and_then(|id| id.as_u64()) else { return };
        let listener = self.inside().by_id.get(&id).and_then(|waiter| waiter.progress.clone());
        if let Some(listener) = listener {
            listener.hear(Said::Progress(RawProgress(params.to_owned())));
        }
    }

    /// Fails all who wait, and all who come.
    pub(crate) fn close(&self, error: &Error) {
        let mut inside = self.inside();
        inside.closed.get_or_insert_with(|| error.clone());
        for (_, waiter) in inside.by_id.drain() {
            waiter.answer.send(Err(error.clone())).ok();
        }
    }

    /// Why no answer comes any more, once that is so.
    pub(crate) fn closed(&self) -> Option<Error> {
        self.inside().closed.clone()
    }

    /// Fails at once those whose answers a message held that could not be read.
    pub(crate) fn spoil(&self, scanned: &envelope::Scanned, error: &Error, mut ended: impl FnMut(u64)) {
        let mut fail = |id: u64| {
            ended(id);
            self.settle(id, Err(error.clone()))
        };
        let settled = scanned.answers.iter().filter(|id| fail(**id)).count();
        if settled == 0
            && scanned.answers.is_empty()
            && let Some(id) = self.only_one()
        {
            fail(id);
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
