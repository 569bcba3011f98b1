//! Limits of calls under way, streams and open questions: in all, and per tool, so that one slow tool leaves room for others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::id::ToolId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Config;

/// Tools remembered before idle ones are forgotten; a node runs some dozens.
const TOOLS: usize = 1_024;

/// Room for calls and streams.
pub(super) struct Limits {
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    questions: Arc<Semaphore>,
    /// By tool and how many calls it may have: another version may have another number.
    tools: ArcSwap<HashMap<(ToolId, usize), Arc<Room>>>,
    queue: usize,
    wait: Duration,
}

/// Room of one tool.
struct Room {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Limits {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(config.calls)),
            streams: Arc::new(Semaphore::new(config.streams)),
            questions: Arc::new(Semaphore::new(config.questions)),
            tools: ArcSwap::default(),
            queue: config.queue_per_tool,
            wait: config.queue_wait,
        }
    }

    /// Room for one call, until it is dropped.
    pub(super) fn call(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.calls).try_acquire_owned().ok()
    }

    /// Room for one stream, until it is dropped.
    pub(super) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.streams).try_acquire_owned().ok()
    }

    /// Room for one question that an agent has not answered, until it is dropped.
    pub(super) fn question(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.questions).try_acquire_owned().ok()
    }

    /// Room at the tool, which may have `calls`, after a bounded wait for another call to end.
    pub(super) async fn tool(&self, tool: &ToolId, calls: usize) -> Option<OwnedSemaphorePermit> {
        let room = self.room(tool, calls);
        if let Ok(permit) = Arc::clone(&room.running).try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = room.waiting.try_acquire().ok()?;
        let permit = tokio::time::timeout(self.wait, Arc::clone(&room.running).acquire_owned()).await;
        permit.ok().and_then(Result::ok)
    }

    fn room(&self, tool: &ToolId, calls: usize) -> Arc<Room> {
        let key = (tool.clone(), calls);
        if let Some(room) = self.tools.load().get(&key) {
            return Arc::clone(room);
        }
        let new =
            Arc::new(Room { running: Arc::new(Semaphore::new(calls)), waiting: Semaphore::new(self.queue) });
        self.tools.rcu(|tools| {
            let mut tools = HashMap::clone(tools);
            if tools.len() >= TOOLS {
                // Who has a call under way holds its room too.
                tools.retain(|(_, calls), room| room.running.available_permits() < *calls);
            }
            tools.entry(key.clone()).or_insert_with(|| Arc::clone(&new));
            tools
        });
        self.tools.load().get(&key).map_or(new, Arc::clone)
    }
}
