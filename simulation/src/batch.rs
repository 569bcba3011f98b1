//! Many seeds, on several threads, until one fails or all are done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::plant::Plant;
use crate::scene::Scene;
use crate::world::{Options, Outcome, run};

/// Which seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// The first.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// Threads.
    pub jobs: usize,
    /// When to stop, whatever is left.
    pub within: Option<Duration>,
    /// A bug to plant in all.
    pub plant: Option<Plant>,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Seeds that ended.
    pub done: u64,
    /// Since the beginning.
    pub elapsed: Duration,
}

/// How it went.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds that held.
    pub held: u64,
    /// The lowest seed that failed, of those that were run.
    pub failed: Option<Outcome>,
    /// Calls judged, in all.
    pub calls: u64,
    /// Events, in all.
    pub events: u64,
    /// Simulated milliseconds, in all.
    pub simulated_ms: u64,
}

/// Runs them. After a failure the seeds below it are still run, so that the lowest is told.
///
/// # Errors
/// The machine is at fault, not what is simulated.
pub fn run_all(scene: &Arc<Scene>, batch: Batch, told: impl Fn(Progress) + Sync) -> anyhow::Result<Summary> {
    let begin = Instant::now();
    let (next, lowest) = (AtomicU64::new(batch.from), AtomicU64::new(u64::MAX));
    let done = AtomicU64::new(0);
    let is_broken = AtomicBool::new(false);
    let summary = Mutex::new(Ok(Summary::default()));
    let end = batch.from.saturating_add(batch.seeds);
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let is_late = batch.within.is_some_and(|within| begin.elapsed() >= within);
        if seed >= end
            || seed > lowest.load(Ordering::Relaxed)
            || is_late
            || is_broken.load(Ordering::Relaxed)
        {
            return;
        }
        let outcome = run(scene, Options { seed, plant: batch.plant, trace: false, frames: false });
        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Err(error) => {
                is_broken.store(true, Ordering::Relaxed);
                *summary = Err(error);
            }
            Ok(outcome) => {
                if let Ok(summary) = &mut *summary {
                    summary.take(outcome, &lowest);
                }
            }
        }
        drop(summary);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        told(Progress { done, elapsed: begin.elapsed() });
    };
    std::thread::scope(|scope| {
        for _ in 0..batch.jobs.max(1) {
            scope.spawn(work);
        }
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Summary {
    fn take(&mut self, outcome: Outcome, lowest: &AtomicU64) {
        self.calls += outcome.calls;
        self.events += outcome.events;
        self.simulated_ms += outcome.simulated_ms;
        if outcome.failure.is_none() {
            self.held += 1;
            return;
        }
        lowest.fetch_min(outcome.seed, Ordering::Relaxed);
        if self.failed.as_ref().is_none_or(|failed| outcome.seed < failed.seed) {
            self.failed = Some(outcome);
        }
    }
}
