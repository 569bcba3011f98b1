//! Published reports of gateways that called what nobody had approved, as far as the call decision goes.

use serde_json::Value;

use super::*;
use crate::change::{differs_in_digits_only, grade};
use crate::listing::{Entry, ListLimits, ListReader, judge_entry};
use crate::snapshot::{Judgement, Recorded, Report, Seen, judge};

fn case(file: &str) -> Value {
    serde_json::from_str(file).unwrap()
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    rows(value).iter().map(|text| text.as_str().unwrap()).collect()
}

fn judged(entry: &Value) -> Entry {
    judge_entry(&entry.to_string(), &[]).unwrap()
}

fn plain(name: &str) -> Entry {
    judged(&serde_json::json!({ "name": name, "inputSchema": {"type": "object"} }))
}

/// A tool that lists these.
fn shows(entries: &[Entry], complete: bool) -> ToolView {
    let shown = |entry: &Entry| (Arc::clone(&entry.name), Shown { hash: entry.hash, not_shown: None });
    let functions = entries.iter().map(shown).collect();
    let listing = ToolListing { asked_at_ms: NOW_MS, complete, incomplete: None, functions };
    ToolView { listing: Some(Arc::new(listing)), ..command(&[]) }
}

fn approved(entries: &[Entry]) -> ToolTrust {
    let function = |(rank, entry): (usize, &Entry)| {
        (Arc::clone(&entry.name), FunctionTrust { hash: entry.hash, rank: rank as u64 })
    };
    let functions = entries.iter().enumerate().map(function).collect();
    ToolTrust { snapshot_taken: true, functions, origin: None }
}

fn node(tool: &str, view: ToolView, trust: &ToolTrust) -> Node {
    Node::new().serving("team@1.0.0", tool, view, trust.clone())
}

/// How a list compares with the snapshot, but for what is the same.
fn compared(trust: &ToolTrust, entries: &[Entry], complete: bool) -> BTreeMap<Arc<str>, Seen> {
    let functions = trust.functions.iter().map(|(name, one)| (Arc::clone(name), one.hash)).collect();
    let recorded = Recorded { taken: true, functions };
    let functions = entries.iter().map(|entry| (Arc::clone(&entry.name), entry.hash)).collect();
    match judge(&recorded, &Report { complete, functions, left_out: BTreeSet::new() }) {
        Judgement::Compare(mut seen) => {
            seen.retain(|_, seen| *seen != Seen::Same);
            seen
        }
        other => panic!("{other:?}"),
    }
}

// C02
#[test]
fn a_server_that_lists_required_in_any_order_is_called_only_in_the_approved_one() {
    let case = case(include_str!("../../../tests/cases/C02-array-order.json"));
    let (restarts, expect) = (&case["restarts"], &case["restarts"]["expect"]);
    let entry = |order: &Value| {
        judged(&serde_json::json!({ "name": "f", "inputSchema": {"type": "object", "required": order} }))
    };
    let approved = approved(&[entry(&restarts["approved"])]);
    let mut variants = BTreeSet::new();
    for (order, callable) in rows(&restarts["orders"]).iter().zip(rows(&expect["callable_after_restart"])) {
        let shown = [entry(order)];
        variants.extend(compared(&approved, &shown, true).into_values().map(Seen::seen));
        let node = node("team", shows(&shown, true), &approved);
        assert_eq!(node.code("team.f") == "permitted", *callable == true, "{order}");
    }
    assert_eq!(expect["distinct_changes_reported"], variants.len());
}

// C03
#[test]
fn what_changes_at_each_start_is_called_whenever_it_is_back_and_said_to_be_so() {
    let case = case(include_str!("../../../tests/cases/C03-volatile-text.json"));
    let (by_order, by_text): (Vec<_>, Vec<_>) =
        rows(&case["sequences"]).iter().partition(|sequence| sequence["results"].is_array());
    assert_eq!((by_order.len(), by_text.len()), (1, 3));
    for sequence in by_text {
        let entries: Vec<Entry> = rows(&sequence["listings"]).iter().map(judged).collect();
        let approved = approved(&entries[..1]);
        let first = &entries[0].canonical;
        let grade_of_it =
            if sequence["expect"]["hint"] == "only _meta differs" { "meta_only" } else { "text" };
        for (entry, callable) in entries.iter().zip(rows(&sequence["expect"]["callable"])) {
            let node = node("team", shows(std::slice::from_ref(entry), true), &approved);
            let code = node.code(&format!("team.{}", entry.name));
            assert_eq!(code, if *callable == true { "permitted" } else { "drifted" });
            let grades = grade(Some(first), Some(&entry.canonical));
            let codes: Vec<_> = grades.iter().map(crate::change::Grade::code).collect();
            assert_eq!(codes, if *callable == true { vec![] } else { vec![grade_of_it] });
            assert!(*callable == true || differs_in_digits_only(first, &entry.canonical));
        }
    }
    let lists: Vec<Vec<Entry>> = rows(&by_order[0]["results"])
        .iter()
        .map(|result| rows(&result["tools"]).iter().map(judged).collect())
        .collect();
    let approved = approved(&lists[0]);
    assert!(compared(&approved, &lists[1], true).is_empty(), "the order of functions is no change");
    let names = |list: &[Entry]| -> Vec<String> {
        let table = node("team", shows(list, true), &approved).table();
        table.functions().iter().map(|slot| slot.model_name.to_string()).collect()
    };
    assert_eq!(names(&lists[0]), names(&lists[1]), "and they are listed in an order of our own");
}

// C05
#[test]
fn a_new_name_is_never_trusted_because_nothing_is_stored_for_it() {
    let case = case(include_str!("../../../tests/cases/C05-rename-and-new-function.json"));
    let later: Vec<Entry> = rows(&case["later_listing"]["tools"]).iter().map(judged).collect();
    // The case has `read` hash as it was approved, and does not say what `send` was.
    let read = later.iter().find(|entry| &*entry.name == "read").unwrap().clone();
    let approved = approved(&[plain("send"), read]);
    let node = node("mail", shows(&later, true), &approved);
    let codes = [
        ("forwarded", "permitted"),
        ("refused: the tool does not list it any more", "unlisted"),
        ("refused: not in the snapshot, waits for approval", "new_function"),
        ("refused: never listed; nothing reaches the server", "unknown_function"),
        ("refused: never listed (names are compared exactly)", "unknown_function"),
    ];
    for call in rows(&case["calls"]) {
        let (_, code) = codes.iter().find(|(expect, _)| call["expect"] == **expect).unwrap();
        assert_eq!(node.code(call["function"].as_str().unwrap()), *code, "{call}");
    }
    let changes = compared(&approved, &later, true);
    assert_eq!(changes.len(), rows(&case["changes"]).len());
    assert!(matches!(changes["send"], Seen::Gone { .. }) && matches!(changes["send_v2"], Seen::New { .. }));
}

/// What of a run of tries was read, each page being named by the functions that it brings.
fn read(tries: &[&str]) -> (Vec<Entry>, bool) {
    let mut reader = ListReader::new(ListLimits { bytes: 400, ..ListLimits::default() });
    let mut asked = None;
    for (index, step) in tries.iter().enumerate() {
        let (names, more) = match step.strip_prefix("page: ") {
            None | Some("timeout") => break,
            Some("(no functions)") => (String::new(), false),
            Some("over the limit") => ("long ".repeat(40), false),
            Some(names) => (names.to_owned(), index + 1 < tries.len()),
        };
        let tools: Vec<Value> = names
            .split_whitespace()
            .map(|name| serde_json::json!({ "name": name, "inputSchema": {"type": "object"} }))
            .collect();
        let cursor = if more { Value::from("next") } else { Value::Null };
        let page = serde_json::json!({ "tools": tools, "nextCursor": cursor }).to_string();
        if let Err(fault) = reader.page(&page, asked) {
            let said = fault.to_string();
            assert!(said.contains("400 bytes") && said.contains("tools.list_bytes"), "{said}");
        }
        asked = Some("next");
    }
    let list = reader.finish();
    (list.entries.iter().map(|raw| judge_entry(raw, &[]).unwrap()).collect(), list.complete)
}

// C10
#[test]
fn half_a_list_takes_nothing_away_and_an_empty_one_everything() {
    let case = case(include_str!("../../../tests/cases/C10-partial-and-empty-listing.json"));
    let names = texts(&case["snapshot_has"]);
    let approved = approved(&names.iter().map(|name| plain(name)).collect::<Vec<_>>());
    let runs = rows(&case["runs"]).iter();
    let runs: Vec<_> = runs.filter(|run| run["tries"].is_array() && run["command"].is_null()).collect();
    assert_eq!(runs.len(), 5);
    for run in runs {
        // That an empty list is asked for again is told by the supervisor's tests.
        let (entries, complete) = read(&texts(rows(&run["tries"]).last().unwrap()));
        let node = node("team", shows(&entries, complete), &approved);
        let callable: Vec<&str> =
            names.iter().copied().filter(|name| node.code(&format!("team.{name}")) == "permitted").collect();
        let changes = compared(&approved, &entries, complete).len();
        let (expected, gone, other) = match run["id"].as_str().unwrap() {
            "second-page-fails" | "byte-limit-reached" => (vec!["a"], 0, "incomplete"),
            "empty-while-warming-up" | "empty-until-signed-in" => (vec!["a", "b", "c"], 0, "permitted"),
            "empty-for-good" => (vec![], 3, "unlisted"),
            id => panic!("{id} is a run that this test does not know"),
        };
        assert_eq!((callable, changes, node.code("team.b")), (expected, gone, other), "{run}");
    }
}

// C27
#[test]
fn a_newcomer_of_another_plugin_never_takes_a_working_functions_place() {
    let (one, mut two) = (approved(&[plain("b.c")]), approved(&[plain("c")]));
    two.functions.values_mut().for_each(|function| function.rank = 9);
    let node = Node::new().serving("one@1.0.0", "a", shows(&[plain("b.c")], true), one).serving(
        "two@1.0.0",
        "a.b",
        shows(&[plain("c")], true),
        two,
    );
    let table = node.table();
    let [(id, why)] = table.left_out() else { panic!("{:?}", table.left_out()) };
    assert_eq!((id.tool.as_str(), why.code), ("a.b", Code::Collides));
    assert_eq!(table.slot("a__b__c").unwrap().id.tool.as_str(), "a");
    assert_eq!(node.code("a__b__c"), "permitted");
}

// C29
#[test]
fn a_name_that_two_servers_list_or_that_differs_in_case_costs_nobody_anything() {
    let case = case(include_str!("../../../tests/cases/C29-names-models-refuse.json"));
    let pair: Vec<Entry> =
        texts(&case["case_only"]["tools"][0]["functions"]).into_iter().map(plain).collect();
    let node_of_pair = node("a", shows(&pair, true), &approved(&pair[..1]));
    assert_eq!((node_of_pair.code("a.Get"), node_of_pair.code("a.get")), ("permitted", "new_function"));
    let search = [plain("search")];
    let many: Vec<Entry> = (0..282).map(|n| plain(&format!("f{n}"))).chain(search.clone()).collect();
    let node = Node::new().serving("team@1.0.0", "one", shows(&many, true), approved(&many)).serving(
        "team@1.0.0",
        "two",
        shows(&search, true),
        approved(&search),
    );
    let table = node.table();
    assert_eq!(table.functions().iter().filter(|slot| slot.refusal().is_none()).count(), 284);
}
