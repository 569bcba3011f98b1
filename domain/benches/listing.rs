//! How fast listings are judged, beside what only parses the same bytes: what eleven real servers from npm and `PyPI`
//! list, with other letters in their sentences (`scripts/bench-corpus`).

#![allow(missing_docs, reason = "what criterion's macros write has no documentation")]
#![allow(clippy::expect_used, reason = "a benchmark whose input is not as expected ends")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use domain::digest::ListingHash;
use domain::listing::{Entry, ListLimits, ListReader, judge_entry};
use serde::de::IgnoredAny;
use serde_json::Value;

/// The result of each server's `tools/list`.
const CORPUS: [&str; 11] = [
    include_str!("corpus/calculator.json"),
    include_str!("corpus/commands.json"),
    include_str!("corpus/everything.json"),
    include_str!("corpus/fetch.json"),
    include_str!("corpus/filesystem.json"),
    include_str!("corpus/git.json"),
    include_str!("corpus/hello-world.json"),
    include_str!("corpus/memory.json"),
    include_str!("corpus/sequential-thinking.json"),
    include_str!("corpus/sqlite.json"),
    include_str!("corpus/time.json"),
];

/// As a node does it: the page taken apart, each entry made visible, written canonically and hashed.
fn judge(result: &str) -> Vec<Entry> {
    let mut reader = ListReader::new(ListLimits::default());
    reader.page(result, None).expect("a list");
    reader.finish().entries.iter().map(|raw| judge_entry(raw, &[]).expect("a readable entry")).collect()
}

fn listings(c: &mut Criterion) {
    let bytes: usize = CORPUS.iter().map(|result| result.len()).sum();
    let canonical: Vec<String> =
        CORPUS.iter().flat_map(|result| judge(result)).map(|entry| entry.canonical.to_string()).collect();
    let mut group = c.benchmark_group("listing");
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("judge", |b| b.iter(|| CORPUS.map(|result| judge(result).len())));
    group.bench_function("serde_json to a Value", |b| {
        b.iter(|| CORPUS.map(|result| serde_json::from_str::<Value>(result).is_ok()));
    });
    group.bench_function("serde_json passing over", |b| {
        b.iter(|| CORPUS.map(|result| serde_json::from_str::<IgnoredAny>(result).is_ok()));
    });
    group.bench_function("SHA-256 of the canonical forms alone", |b| {
        b.iter(|| {
            for text in &canonical {
                black_box(ListingHash::of_canonical(text));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, listings);
criterion_main!(benches);
