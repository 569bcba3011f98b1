//! What is played at present: which exchange a call belongs to, and what its tool saw of it, on either way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use tokio::sync::watch;

use super::script::{Ends, Exchange};
use super::{Era, PATIENCE, Way};

/// What a tool saw of one exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The call's params as they are spelled, less what is of the protocol's own.
    Called(Vec<String>),
    /// Of a call over HTTP in the era that has them.
    Headers(Vec<String>),
    /// Of `_meta`: what the agent can be asked.
    Able(Option<String>),
    /// Kind and value of each answer to what was asked at once.
    Answered(Vec<(String, String)>),
    /// With the reason, where one was given.
    Cancelled(Option<String>),
    /// It asked in place of a result: there is no call of this exchange until the next round.
    Paused,
    /// It does nothing until it is cancelled.
    Waits,
    /// It answered.
    Done,
    /// What should not be.
    Odd(String),
}

impl Seen {
    pub(super) const fn is_end(&self) -> bool {
        matches!(self, Self::Cancelled(_) | Self::Done | Self::Odd(_))
    }
}

/// One exchange while it is played.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) number: u64,
    pub(super) exchange: Exchange,
    pub(super) ends: Ends,
    seen: [watch::Sender<Vec<Seen>>; 2],
}

impl Play {
    pub(super) fn note(&self, way: Way, seen: Seen) {
        self.at(way).send_modify(|all| all.push(seen));
    }

    pub(super) fn seen(&self, way: Way) -> Vec<Seen> {
        self.at(way).borrow().clone()
    }

    /// Waits until the tool is done with it.
    pub(super) async fn ended(&self, way: Way) -> Result<()> {
        // Where a round is a call of its own, none may follow; elsewhere the tool is told of the end.
        let has_rounds = self.ends.agent == Era::Modern || self.ends.tool == Era::Modern;
        let may_pause = has_rounds && !self.exchange.cancel.is_at_a_known_moment();
        let has_ended = |all: &Vec<Seen>| {
            all.iter().any(Seen::is_end) || (may_pause && all.last() == Some(&Seen::Paused))
        };
        match tokio::time::timeout(PATIENCE, self.until(way, has_ended)).await {
            Ok(()) => Ok(()),
            Err(_) => bail!("the tool did not come to an end ({way:?}): it saw {:?}", self.seen(way)),
        }
    }

    /// Waits until what the tool saw is so.
    pub(super) async fn until(&self, way: Way, is_so: impl FnMut(&Vec<Seen>) -> bool) {
        self.at(way).subscribe().wait_for(is_so).await.ok();
    }

    const fn at(&self, way: Way) -> &watch::Sender<Vec<Seen>> {
        let [direct, node] = &self.seen;
        match way {
            Way::Direct => direct,
            Way::Node => node,
        }
    }
}

/// All exchanges that are being played, by the number that their calls carry.
#[derive(Debug, Default)]
pub(super) struct Stage {
    plays: Mutex<HashMap<u64, Arc<Play>>>,
    /// Functions that are only listed.
    pub(super) functions: Vec<String>,
}

impl Stage {
    pub(super) fn new(functions: Vec<String>) -> Self {
        Self { plays: Mutex::default(), functions }
    }

    pub(super) fn begin(&self, number: u64, exchange: Exchange, ends: Ends) -> Arc<Play> {
        let seen = [watch::Sender::default(), watch::Sender::default()];
        let play = Arc::new(Play { number, exchange, ends, seen });
        self.lock().insert(number, Arc::clone(&play));
        play
    }

    pub(super) fn find(&self, number: u64) -> Option<Arc<Play>> {
        self.lock().get(&number).cloned()
    }

    pub(super) fn end(&self, number: u64) {
        self.lock().remove(&number);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Play>>> {
        self.plays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
