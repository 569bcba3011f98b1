use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::view::{
    LeftOut, PluginState, RunState, SetState, Shown, ToolListing, ToolView, VersionView, View,
};
use super::*;
use crate::block::{Block, Target};
use crate::id::{EdgeName, PluginName};
use crate::plugin_set::{FunctionTrust, Kind, OriginTrust, Policy, ToolTrust, Trust};
use crate::time::Timestamp;

mod cases;
mod rebuilding;

const NOW_MS: u64 = 1_000_000;

fn hash(text: &str) -> ListingHash {
    ListingHash::of_canonical(text)
}

fn version(text: &str) -> PluginVersion {
    PluginVersion::parse(text).unwrap()
}

fn tool(text: &str) -> ToolId {
    ToolId::parse(text).unwrap()
}

fn listing(complete: bool, functions: &[(&str, &str)]) -> Arc<ToolListing> {
    let functions = functions
        .iter()
        .map(|(name, text)| ((*name).into(), Shown { hash: hash(text), not_shown: None }))
        .collect();
    Arc::new(ToolListing { asked_at_ms: NOW_MS, complete, incomplete: None, functions })
}

fn command(functions: &[(&str, &str)]) -> ToolView {
    ToolView {
        kind: Kind::Command,
        origin: None,
        run: RunState::Running,
        listing: Some(listing(true, functions)),
        relisting: None,
        relist_failed: None,
    }
}

fn snapshot(functions: &[(&str, &str)]) -> ToolTrust {
    let functions = functions
        .iter()
        .enumerate()
        .map(|(rank, (name, text))| ((*name).into(), FunctionTrust { hash: hash(text), rank: rank as u64 }))
        .collect();
    ToolTrust { snapshot_taken: true, functions, origin: None }
}

struct Node {
    view: View,
}

impl Node {
    fn new() -> Self {
        let texts = ["1", "2"].iter().map(|text| (hash(text), (*text).into())).collect();
        let view = View {
            edge: EdgeName::parse("eu-1").unwrap(),
            set: SetState::Held,
            trust: Arc::new(Trust::default()),
            policy: Policy::default(),
            plugins: BTreeMap::new(),
            texts,
        };
        Self { view }
    }

    fn serving(mut self, name: &str, id: &str, view: ToolView, trust: ToolTrust) -> Self {
        let version = version(name);
        let mut all = (*self.view.trust).clone();
        let tools = &mut Arc::make_mut(all.versions.entry(version.clone()).or_default()).tools;
        tools.insert(tool(id), trust);
        self.view.trust = Arc::new(all);
        let state = self.view.plugins.entry(version.plugin.clone()).or_insert_with(|| {
            PluginState::Serving(VersionView { version, tools: BTreeMap::new(), left_out: BTreeMap::new() })
        });
        let PluginState::Serving(serving) = state else { panic!("serving") };
        serving.tools.insert(tool(id), view);
        self
    }

    fn table(&self) -> Table {
        Table::build(&self.view)
    }

    fn code(&self, name: &str) -> &'static str {
        match self.table().permit(name, NOW_MS) {
            Ok(_) => "permitted",
            Err(denial) => denial.refusal.code.as_str(),
        }
    }
}

fn team(shown: &[(&str, &str)], approved: &[(&str, &str)]) -> Node {
    Node::new().serving("team@1.0.0", "team", command(shown), snapshot(approved))
}

// R3.10, R3.11, R3.13
#[test]
fn only_what_lists_itself_as_approved_is_called() {
    let node =
        team(&[("same", "1"), ("other", "2"), ("new", "1")], &[("same", "1"), ("other", "1"), ("gone", "1")]);
    let rows = [
        ("team.same", "permitted"),
        ("team__same", "permitted"),
        ("team.other", "drifted"),
        ("team.new", "new_function"),
        ("team.gone", "unlisted"),
        ("team.never", "unknown_function"),
        ("same", "unknown_function"),
        ("TEAM.same", "unknown_function"),
    ];
    for (name, code) in rows {
        assert_eq!(node.code(name), code, "{name}");
    }
}

fn blocked(mut node: Node, blocks: &[(&str, &str, i64)]) -> Node {
    let mut trust = (*node.view.trust).clone();
    for of_version in trust.versions.values_mut() {
        for (id, target, at) in blocks {
            let block = Block {
                target: Target::parse(target).unwrap(),
                is_fleet_wide: *id != "here",
                reason: "it leaks".into(),
                by: "ada".into(),
                at: Timestamp::from_millis(*at),
            };
            Arc::make_mut(of_version).blocks.insert((*id).into(), block);
        }
    }
    node.view.trust = Arc::new(trust);
    node
}

#[test]
fn a_block_outranks_an_approval_and_says_who_stopped_what_and_who_can_lift_it() {
    let node = || team(&[("a", "1"), ("b", "1")], &[("a", "1"), ("b", "1")]);
    for (target, codes) in [
        ("function team.a", ["blocked", "permitted"]),
        ("tool team", ["blocked", "blocked"]),
        ("plugin team", ["blocked", "blocked"]),
        ("plugin team@1.0.0", ["blocked", "blocked"]),
        ("plugin team@2.0.0", ["permitted", "permitted"]),
        ("function team.c", ["permitted", "permitted"]),
        ("tool tea", ["permitted", "permitted"]),
    ] {
        let node = blocked(node(), &[("here", target, 0)]);
        assert_eq!([node.code("team.a"), node.code("team.b")], codes, "{target}");
    }
    let table = blocked(node(), &[("late", "plugin team", 9), ("here", "tool team", 0)]).table();
    let sentence = table.permit("team.a", NOW_MS).unwrap_err().refusal.to_string();
    assert_eq!(
        sentence,
        "ada blocked tool team on edge eu-1 at 1970-01-01T00:00:00.000Z (block here): it leaks. Nothing of it is called \
         until an approver lifts that with: pintle unblock --tool team --edge eu-1"
    );
    assert!(table.slot("team.a").unwrap().shown, "models go on seeing what they know");
}

#[test]
fn a_block_comes_before_what_a_version_or_its_tool_is_waiting_for() {
    let of_tool = |change: fn(&mut Node)| {
        let mut node = team(&[("a", "1")], &[("a", "2")]);
        change(&mut node);
        blocked(node, &[("b1", "tool team", 0)]).code("team.a")
    };
    assert_eq!(of_tool(|_| {}), "blocked", "before drifted");
    assert_eq!(of_tool(|node| node.view.policy.forbidden_kinds = vec![Kind::Command]), "blocked");
    let installing = |node: &mut Node| {
        let version = version("team@1.0.0");
        let tools = vec![tool("team")];
        let state = PluginState::Installing { version: version.clone(), tools, failed: None, earlier: None };
        node.view.plugins.insert(version.plugin, state);
    };
    assert_eq!(of_tool(installing), "blocked");
    let mut node = team(&[("a", "1")], &[("a", "1")]);
    node.view.set = SetState::Waiting { server: "cp".into(), since: Timestamp::from_millis(0) };
    assert_eq!(blocked(node, &[("b1", "tool team", 0)]).code("team.a"), "no_plugin_set");
}

// R3.25, R3.26, R3.27
#[test]
fn a_node_that_waits_for_its_set_calls_nothing_and_says_from_where() {
    let mut node = team(&[("same", "1")], &[("same", "1")]);
    node.view.set = SetState::Waiting { server: "cp.example:7401".into(), since: Timestamp::from_millis(0) };
    let denial = node.table().permit("team.same", NOW_MS).unwrap_err();
    assert_eq!(denial.refusal.code, Code::NoPluginSet);
    assert!(
        denial.refusal.sentence.contains("edge eu-1's plugin set from cp.example:7401"),
        "{}",
        denial.refusal
    );
    assert!(node.table().functions().is_empty());
}

#[test]
fn what_a_refused_function_was_approved_as_stays_listed_and_a_new_one_is_not() {
    let node = team(&[("other", "2"), ("new", "1")], &[("other", "1"), ("gone", "1")]);
    let table = node.table();
    let shown: Vec<&str> =
        table.functions().iter().filter(|slot| slot.shown).map(|slot| &*slot.model_name).collect();
    assert_eq!(shown, ["team__gone", "team__other"]);
    let (shown_hash, text) = table.slot("team.other").unwrap().listing.clone().unwrap();
    assert_eq!((shown_hash, &*text), (hash("1"), "1"));
}

#[test]
fn after_a_notice_that_the_list_changed_a_call_waits_for_the_new_list() {
    let mut node = team(&[("same", "1")], &[("same", "1")]);
    let Some(PluginState::Serving(version)) = node.view.plugins.values_mut().next() else {
        panic!("serving")
    };
    version.tools.values_mut().next().unwrap().relisting = Some(Timestamp::from_millis(5));
    let denial = node.table().permit("team.same", NOW_MS).unwrap_err();
    assert_eq!((denial.refusal.code, denial.wait), (Code::Relisting, Some(Wait::Change)));
}

#[test]
fn an_incomplete_list_counts_for_what_it_showed_and_for_nothing_else() {
    let mut view = command(&[]);
    view.listing = Some(listing(false, &[("same", "1"), ("other", "2")]));
    let approved = snapshot(&[("same", "1"), ("other", "1"), ("unseen", "1")]);
    let node = Node::new().serving("team@1.0.0", "team", view, approved);
    assert_eq!(node.code("team.same"), "permitted");
    assert_eq!(node.code("team.other"), "drifted");
    assert_eq!(node.code("team.unseen"), "incomplete");
}

#[test]
fn a_list_older_than_the_policy_allows_is_asked_for_again_before_a_call() {
    let node = team(&[("same", "1")], &[("same", "1")]);
    let table = node.table();
    assert!(table.permit("team.same", NOW_MS + 180_000).is_ok());
    let denial = table.permit("team.same", NOW_MS + 180_001).unwrap_err();
    assert_eq!((denial.refusal.code, denial.wait), (Code::ListingStale, Some(Wait::Listing)));
}

#[test]
fn without_a_first_complete_listing_nothing_is_called_and_there_is_nothing_to_approve() {
    let node = Node::new().serving("team@1.0.0", "team", command(&[("same", "1")]), ToolTrust::default());
    assert_eq!(node.code("team.same"), "no_snapshot");
}

// R3.30, R3.31
#[test]
fn a_version_that_installs_and_one_that_is_not_assigned_are_refused_with_their_reasons() {
    let mut node = team(&[("same", "1")], &[("same", "1")]);
    node.view.plugins.insert(
        PluginName::parse("team").unwrap(),
        PluginState::Installing {
            version: version("team@1.1.0"),
            tools: vec![tool("team")],
            failed: None,
            earlier: Some(version("team@1.0.0")),
        },
    );
    assert_eq!(node.code("team.same"), "installing");
    assert_eq!(node.code("team__anything"), "installing");
    node.view
        .plugins
        .insert(PluginName::parse("team").unwrap(), PluginState::Unassigned { tools: vec![tool("team")] });
    assert_eq!(node.code("team.same"), "unassigned");
}

// R3.62, R3.63, R3.64
#[test]
fn a_remote_tool_is_called_only_at_its_pinned_origin() {
    let pinned = |origin: &str| OriginTrust::Pinned { origin: origin.into(), address_class: None };
    let moved =
        OriginTrust::Moved { origin: "https://b.example".into(), earlier: vec!["https://a.example".into()] };
    let rows = [
        (Some(pinned("https://b.example")), "permitted"),
        (Some(pinned("https://a.example")), "origin_moved"),
        (Some(moved), "origin_moved"),
        (Some(OriginTrust::New { origin: "https://b.example".into() }), "origin_moved"),
        (Some(OriginTrust::Connection), "permitted"),
        (None, "origin_moved"),
    ];
    for (origin, code) in rows {
        let mut remote = command(&[("today", "1")]);
        remote.kind = Kind::Url;
        remote.origin = Some("https://b.example".into());
        let trust = ToolTrust { origin: origin.clone(), ..snapshot(&[("today", "1")]) };
        let node = Node::new().serving("team@1.0.0", "wx", remote, trust).serving(
            "team@1.0.0",
            "team",
            command(&[("same", "1")]),
            snapshot(&[("same", "1")]),
        );
        assert_eq!(node.code("wx.today"), code, "{origin:?}");
        assert_eq!(node.code("team.same"), "permitted");
    }
}

#[test]
fn a_crashed_tool_and_a_forbidden_kind_are_refused_with_their_reasons() {
    let mut crashed = command(&[("same", "1")]);
    crashed.run = RunState::NotRunning { since: Timestamp::default(), reason: "exit status 1".into() };
    let node = Node::new().serving("team@1.0.0", "team", crashed, snapshot(&[("same", "1")]));
    assert_eq!(node.code("team.same"), "not_running");
    let mut node = team(&[("same", "1")], &[("same", "1")]);
    node.view.policy.forbidden_kinds = vec![Kind::Command];
    assert_eq!(node.code("team.same"), "kind_off");
}

// R3.54, R3.55
#[test]
fn what_is_left_out_is_neither_listed_nor_called_and_says_why() {
    let mut node = team(&[("same", "1"), ("twin", "1")], &[("same", "1"), ("twin", "1")]);
    let Some(PluginState::Serving(version)) = node.view.plugins.values_mut().next() else {
        panic!("serving")
    };
    let why = LeftOut { code: Code::Twice, why: "its server lists the name twice".into() };
    version.left_out.insert(FunctionId::new(&tool("team"), "twin"), why);
    assert_eq!(node.code("team.twin"), "twice");
    assert!(node.table().functions().iter().all(|slot| &*slot.id.function != "twin"));
}

#[test]
fn of_two_plugins_functions_with_one_model_name_the_earlier_stays() {
    let ranked = |rank| {
        let mut trust = snapshot(&[]);
        trust.functions.insert("c".into(), FunctionTrust { hash: hash("1"), rank });
        trust
    };
    let mut later = snapshot(&[]);
    later.functions.insert("b__c".into(), FunctionTrust { hash: hash("1"), rank: 7 });
    let node = Node::new().serving("one@1.0.0", "a__b", command(&[("c", "1")]), ranked(3)).serving(
        "two@1.0.0",
        "a",
        command(&[("b__c", "1")]),
        later,
    );
    assert_eq!(node.code("a__b.c"), "permitted");
    assert_eq!(node.code("a.b__c"), "collides");
    assert_eq!(node.code("a__b__c"), "permitted");
}

#[test]
fn a_permit_does_not_outlive_what_it_was_made_from() {
    let before = team(&[("same", "1")], &[("same", "1")]).table();
    let permit = before.permit("team.same", NOW_MS).unwrap();
    assert!(before.still(&permit, NOW_MS).is_ok());
    let drifted = team(&[("same", "2")], &[("same", "1")]).table();
    assert_eq!(drifted.still(&permit, NOW_MS).unwrap_err().refusal.code, Code::Drifted);
    let other =
        Node::new().serving("team@1.1.0", "team", command(&[("same", "1")]), snapshot(&[("same", "1")]));
    let denial = other.table().still(&permit, NOW_MS).unwrap_err();
    assert_eq!(
        (denial.refusal.code, denial.wait),
        (Code::Unassigned, Some(Wait::Change)),
        "asked again, it is allowed"
    );
}

#[test]
fn an_unknown_name_is_answered_with_the_names_near_it() {
    let node = team(&[("hello", "1"), ("goodbye", "1")], &[("hello", "1"), ("goodbye", "1")]);
    let denial = node.table().permit("team__helo", NOW_MS).unwrap_err();
    assert!(denial.refusal.sentence.contains("Near it are: team.hello."), "{}", denial.refusal);
}

proptest! {
    // R3.10
    #[test]
    fn a_function_is_permitted_exactly_if_its_newest_list_shows_the_approved_hash(
        shown in prop::collection::btree_map("[a-d]", 0u8..3, 0..5),
        approved in prop::collection::btree_map("[a-d]", 0u8..3, 0..5),
        complete: bool,
    ) {
        let pairs = |map: &BTreeMap<String, u8>| -> Vec<(String, String)> {
            map.iter().map(|(name, text)| (name.clone(), text.to_string())).collect()
        };
        let (shown_pairs, approved_pairs) = (pairs(&shown), pairs(&approved));
        let borrow = |pairs: &'static [(String, String)]| -> Vec<(&'static str, &'static str)> {
            pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect()
        };
        let shown_ref = borrow(Box::leak(shown_pairs.into_boxed_slice()));
        let approved_ref = borrow(Box::leak(approved_pairs.into_boxed_slice()));
        let mut view = command(&shown_ref);
        view.listing = Some(listing(complete, &shown_ref));
        let node = Node::new().serving("team@1.0.0", "team", view, snapshot(&approved_ref));
        let names: BTreeSet<&String> = shown.keys().chain(approved.keys()).collect();
        for name in names {
            let may = approved.get(name).is_some_and(|hash| shown.get(name) == Some(hash));
            prop_assert_eq!(node.code(&format!("team.{name}")) == "permitted", may, "{}", name);
        }
    }
}
