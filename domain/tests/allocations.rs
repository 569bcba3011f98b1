//! What a call's way through the guard allocates: nothing. The counter stands in for the allocator of this program.

#![allow(clippy::expect_used, reason = "what the node is made of is written here")]

#[path = "support/node.rs"]
mod node;

use domain::guard::Table;

#[test]
fn a_call_is_permitted_without_allocating() {
    let table = Table::build(&node::of_ten_thousand_functions());
    let names = node::names();
    let mut permitted = 0;
    let used = allocation_counter::measure(|| {
        for name in &names {
            let permit = table.permit(name, node::NOW_MS);
            permitted += usize::from(permit.is_ok_and(|permit| table.still(&permit, node::NOW_MS).is_ok()));
        }
    });
    assert_eq!((permitted, used.count_total), (10_000, 0), "{used:?}");
}
