//! How fast the guard's table is asked and built, of a node with 10,000 functions.

#![allow(missing_docs, reason = "what criterion's macros write has no documentation")]
#![allow(clippy::expect_used, reason = "a benchmark whose input is not as expected ends")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use domain::guard::Table;
use domain::guard::view::{PluginState, View};

#[path = "../tests/support/node.rs"]
mod node;

/// The node after one of its tools was listed again, as before.
fn with_one_tool_listed_again(view: &View) -> View {
    let mut view = view.clone();
    if let Some(PluginState::Serving(version)) = view.plugins.values_mut().nth(5)
        && let Some(tool) = version.tools.values_mut().nth(5)
    {
        tool.listing = tool.listing.as_deref().cloned().map(Arc::new);
    }
    view
}

fn guard(c: &mut Criterion) {
    let view = node::of_ten_thousand_functions();
    let table = Table::build(&view);
    let names = node::names();
    let mut group = c.benchmark_group("guard");
    // Another function each time, so that no name, slot or hash stays in the processor's cache by luck.
    let mut turn = names.iter().cycle().step_by(7919);
    group.bench_function("permit", |b| {
        b.iter(|| table.permit(black_box(turn.next().expect("for ever")), node::NOW_MS).is_ok());
    });
    let permit = table.permit(names.first().expect("a name"), node::NOW_MS).expect("it is approved");
    group.bench_function("permit of one function again and again", |b| {
        b.iter(|| table.still(black_box(&permit), node::NOW_MS).is_ok());
    });
    let mut turn = names.iter().cycle().step_by(7919);
    group.bench_function("permit and permit again", |b| {
        b.iter(|| {
            let permit = table.permit(black_box(turn.next().expect("for ever")), node::NOW_MS);
            permit.is_ok_and(|permit| table.still(&permit, node::NOW_MS).is_ok())
        });
    });
    group.sample_size(20);
    group.bench_function("build", |b| b.iter(|| Table::build(&view).functions().len()));
    let again = with_one_tool_listed_again(&view);
    group.bench_function("rebuild after one tool of a hundred was listed again", |b| {
        b.iter(|| table.rebuild(&again).functions().len());
    });
    group.finish();
}

criterion_group!(benches, guard);
criterion_main!(benches);
