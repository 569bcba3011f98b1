//! Some hundred seeds in a debug build, and every planted bug at a seed that finds it. The long form is
//! `cargo run --release --bin simulate -- --seeds 10000`.

#![allow(missing_docs, reason = "tests are sentences")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, OnceLock};

use simulation::{Batch, Options, Plant, Scene, run, run_all};

/// A seed at which each planted bug is found, and how many after it are tried: a change of what is drawn, or of
/// what the product says when, moves them.
const FOUND_AT: [(Plant, u64, u64); 5] = [
    (Plant::EarlyAck, 22, 60),
    (Plant::OlderGeneration, 2, 60),
    (Plant::OldAfterRestart, 17, 60),
    (Plant::SkippedHead, 6, 150),
    (Plant::NoRelist, 0, 60),
];

/// Prepared once: a folder in memory, if there is one.
fn scene() -> Arc<Scene> {
    static SCENE: OnceLock<(Arc<Scene>, tempfile::TempDir)> = OnceLock::new();
    let (scene, _) = SCENE.get_or_init(|| {
        let memory = std::path::Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        (Arc::new(Scene::new(folder.path()).unwrap()), folder)
    });
    Arc::clone(scene)
}

#[test]
fn every_planted_bug_is_found() {
    for (plant, from, seeds) in FOUND_AT {
        let batch = Batch { from, seeds, jobs: 2, within: None, plant: Some(plant) };
        let found = run_all(&scene(), batch, |_| {}).unwrap().failed.and_then(|failed| failed.failure);
        let Some((_, what)) = found else {
            panic!("{plant} is not found at seed {from} nor in {seeds} after")
        };
        let expected: &[&str] = match plant {
            Plant::EarlyAck | Plant::OlderGeneration => &["S5"],
            Plant::OldAfterRestart | Plant::NoRelist => &["S1"],
            Plant::SkippedHead => &["L1", "L2"],
        };
        assert!(expected.iter().any(|invariant| what.starts_with(invariant)), "{plant}: {what}");
    }
}

#[test]
fn some_hundred_seeds_hold() {
    // On a machine that has much else to do fewer are run.
    let within = Some(std::time::Duration::from_secs(45));
    let batch = Batch { from: 0, seeds: 300, jobs: 2, within, plant: None };
    let summary = run_all(&scene(), batch, |_| {}).unwrap();
    let failed = summary.failed.map(|failed| (failed.seed, failed.failure));
    assert_eq!(failed, None, "replay it: cargo run --bin simulate -- --seed N --trace");
    assert!(summary.calls > 1_000 * summary.held, "{} calls in {} seeds", summary.calls, summary.held);
}

#[test]
fn a_seed_replays_exactly() {
    let scene = scene();
    let options = Options { seed: 3, plant: None, trace: true, frames: false };
    let (one, two) = (run(&scene, options).unwrap(), run(&scene, options).unwrap());
    assert!(one.trace.len() > 100);
    assert_eq!(one, two);
}
