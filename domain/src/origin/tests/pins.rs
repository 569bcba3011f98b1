//! The decision about a tool's endpoint, sentence by sentence.

use super::*;

fn at(url: &str) -> Endpoint {
    Endpoint::Fixed(Origin::parse(url).unwrap())
}

fn pin(url: &str) -> Pin {
    Pin { endpoint: at(url), class: None, state: PinState::Pinned }
}

fn unapproved(url: &str) -> Pin {
    Pin { state: PinState::Moved { from: vec![at(A)] }, ..pin(url) }
}

fn by_connection(suffix: &str) -> Endpoint {
    Endpoint::FromConnection { suffix: suffix.to_owned(), in_the_clear: false }
}

const A: &str = "https://a.example";
const B: &str = "https://b.example";
const C: &str = "https://c.example:8443";

fn moved(from: &[&str]) -> PinState {
    PinState::Moved { from: from.iter().map(|url| at(url)).collect() }
}

/// A question about `endpoint` on an edge that had the plugin with these pins of the tool.
fn installed<'a>(endpoint: &'a Endpoint, tool: &'a [Pin]) -> PinQuestion<'a> {
    PinQuestion {
        endpoint,
        existing: None,
        approved: &[],
        on_edge: OnEdge::Installed { tool },
        any_pinned: true,
        replaced: &[],
    }
}

fn elsewhere<'a>(endpoint: &'a Endpoint, elsewhere: &'a [Pin]) -> PinQuestion<'a> {
    PinQuestion { on_edge: OnEdge::NeverInstalled { elsewhere }, ..installed(endpoint, &[]) }
}

#[test]
fn the_same_origin_in_the_same_form_is_pinned() {
    assert_eq!(decide_pin(&installed(&at(A), &[pin(A)])), PinState::Pinned);
}

// R3.63
#[test]
fn another_origin_than_the_last_installed_ones_is_moved() {
    assert_eq!(decide_pin(&installed(&at(B), &[pin(A)])), moved(&[A]));
    // Only the last one counts, not an older one.
    assert_eq!(decide_pin(&installed(&at(A), &[pin(B), pin(A)])), moved(&[B]));
}

// R3.69
#[test]
fn a_decision_that_exists_stays() {
    let endpoint = at(B);
    let pinned = [pin(A)];
    let question = installed(&endpoint, &pinned);
    for state in [PinState::Pinned, moved(&[C]), PinState::NewAt] {
        assert_eq!(decide_pin(&PinQuestion { existing: Some(&state), ..question }), state);
    }
}

#[test]
fn an_edge_that_never_had_the_plugin_goes_by_the_others() {
    let others = [pin(B), pin(A), pin(B)];
    assert_eq!(decide_pin(&elsewhere(&at(A), &others)), PinState::Pinned);
    assert_eq!(decide_pin(&elsewhere(&at(B), &others)), PinState::Pinned);
    assert_eq!(decide_pin(&elsewhere(&at(C), &others)), moved(&[A, B]));
}

// R3.62
#[test]
fn the_first_use_of_a_plugin_pins_all_its_tools_alike() {
    let endpoint = at(A);
    let question = PinQuestion { any_pinned: false, ..elsewhere(&endpoint, &[]) };
    assert_eq!(decide_pin(&question), PinState::Pinned);
    let question = PinQuestion { any_pinned: false, ..installed(&endpoint, &[]) };
    assert_eq!(decide_pin(&question), PinState::Pinned);
}

#[test]
fn a_renamed_tool_does_not_walk_past_the_pins() {
    let (known, unknown) = (at(A), at(B));
    let replaced = [pin(A), unapproved(B)];
    let question = PinQuestion { replaced: &replaced, ..installed(&known, &[]) };
    assert_eq!(decide_pin(&question), PinState::Pinned);
    let question = PinQuestion { endpoint: &unknown, ..question };
    assert_eq!(decide_pin(&question), PinState::NewAt);
    assert_eq!(decide_pin(&elsewhere(&unknown, &[])), PinState::NewAt);
}

#[test]
fn an_unapproved_move_is_never_a_baseline() {
    assert_eq!(decide_pin(&installed(&at(B), &[unapproved(B), pin(A)])), moved(&[A]));
    assert_eq!(decide_pin(&installed(&at(A), &[unapproved(B), pin(A)])), PinState::Pinned);
    assert_eq!(decide_pin(&installed(&at(B), &[unapproved(B)])), PinState::NewAt);
    assert_eq!(decide_pin(&elsewhere(&at(B), &[unapproved(B), pin(A)])), moved(&[A]));
}

#[test]
fn a_fleet_wide_approval_holds_on_edges_that_get_the_version_later() {
    let (endpoint, approved, pinned) = (at(B), [at(B)], [pin(A)]);
    let question = PinQuestion { approved: &approved, ..installed(&endpoint, &pinned) };
    assert_eq!(decide_pin(&question), PinState::Pinned);
    let other = at(C);
    assert_eq!(decide_pin(&PinQuestion { endpoint: &other, ..question }), moved(&[A]));
}

// R3.67
#[test]
fn a_connections_host_is_not_pinned_but_its_form_is() {
    let from_connection = |suffix| Pin { endpoint: by_connection(suffix), ..pin(A) };
    let crm = by_connection(".crm.example");
    assert_eq!(decide_pin(&elsewhere(&crm, &[])), PinState::Pinned);
    assert_eq!(decide_pin(&installed(&crm, &[from_connection(".crm.example")])), PinState::Pinned);
    for (endpoint, before) in [
        (&crm, from_connection(".other.example")),
        (&crm, from_connection("")),
        (&crm, pin(A)),
        (&at(A), from_connection(".crm.example")),
    ] {
        let before = [before];
        let expected = PinState::Moved { from: vec![before[0].endpoint.clone()] };
        assert_eq!(decide_pin(&installed(endpoint, &before)), expected);
    }
}

#[test]
fn endpoints_read_as_people_are_told() {
    assert_eq!(at(C).to_string(), C);
    assert_eq!(by_connection(".crm.example").to_string(), "a connection's host *.crm.example");
    assert_eq!(by_connection("").to_string(), "a connection's host");
}
