//! What a node says can become what the fleet goes by only where the fleet decided that it may.

use domain::id::{EdgeName, NodeName};
use domain::plugin_set::Kind;
use proto::convert::{ReportedFunction, Seen, Status};

use crate::operation::create_edge::create_edge;
use crate::operation::note_node::{note_hello, note_status};
use crate::operation::record_listing::Recorded;
use crate::operation::store_texts::store_texts;
use crate::operation::testing::{Fleet, TEAM, canonical, edge, hash, remote, tool, version};
use crate::operation::unassign::unassign;
use crate::store::testing::on_both;

const V: &str = "team@1.0.0";

#[test]
fn a_node_that_claims_a_version_its_edge_never_had_reads_and_shapes_nothing_of_it() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let other = EdgeName::parse("us-1").unwrap();
        create_edge(&fleet.store, &fleet.by(), &other).await.unwrap();
        fleet.install(&remote("1.0.0", "https://a.example/mcp"), "wx@1.0.0").await;
        fleet.push(TEAM).await.unwrap();
        let liar = fleet.node(&other, "node-9").await;
        let claimed = [version("wx@1.0.0"), version(V)];
        let status = Status::default();
        note_hello(&fleet.store, fleet.by().now, &liar, "0.1.0", &claimed, &status).await.unwrap();
        assert!(fleet.trust(&other).await.1.versions.is_empty(), "none of its edge's business");
        for (of, tool) in [("wx@1.0.0", "wx"), ("wx@1.0.0", "local"), (V, "team")] {
            let recorded = fleet.lists(&liar, of, tool, &[("hello", "a")]).await;
            assert!(matches!(recorded, Recorded::Ignored(_)), "{of} {recorded:?}");
        }
        // The first listing of a node that has it is still the first.
        let honest = fleet.node(&edge(), "node-1").await;
        fleet.lists(&honest, "wx@1.0.0", "wx", &[("hello", "b")]).await;
        assert_eq!(fleet.approved("wx@1.0.0", "wx", "hello").await, Some(hash("b")));
    });
}

#[test]
fn a_tool_at_an_unapproved_origin_takes_no_snapshot_with_a_tool_of_a_like_name() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let of = |url| [("a", Kind::Command, None), ("a_b", Kind::Url, Some(url))];
        fleet.accept_tools(&version("wx@1.0.0"), &of("https://a.example/mcp")).await;
        fleet.accept_tools(&version("wx@1.1.0"), &of("https://b.example/mcp")).await;
        fleet.assign(&edge(), "wx@1.0.0").await.unwrap();
        assert_eq!(fleet.assign(&edge(), "wx@1.1.0").await.unwrap().waiting.len(), 1);
        let node = fleet.node(&edge(), "node-1").await;
        fleet.lists(&node, "wx@1.1.0", "a_b", &[("x", "a")]).await;
        fleet.lists(&node, "wx@1.1.0", "a", &[("y", "b")]).await;
        assert_eq!(fleet.approved("wx@1.1.0", "a_b", "x").await, None, "listed where nobody approved it");
        assert_eq!(fleet.approved("wx@1.1.0", "a", "y").await, Some(hash("b")), "the others work at once");
    });
}

#[test]
fn tools_of_like_names_take_no_snapshot_from_what_an_earlier_run_of_the_node_listed() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.accept_old(&version(V), &["a", "a_b"]).await;
        fleet.assign(&edge(), V).await.unwrap();
        let node = fleet.node(&edge(), "node-1").await;
        let earlier = fleet.report(V, "a", &[("y", "a")]);
        fleet.sends_as(&node, "boot-0", &earlier).await;
        fleet.lists(&node, V, "a_b", &[("x", "c")]).await;
        assert_eq!(fleet.approved(V, "a", "y").await, None);
        fleet.lists(&node, V, "a", &[("y", "b")]).await;
        assert_eq!(fleet.approved(V, "a", "y").await, Some(hash("b")));
        assert_eq!(fleet.approved(V, "a_b", "x").await, Some(hash("c")));
    });
}

#[test]
fn a_function_whose_name_cannot_be_called_is_left_out_whatever_the_node_says() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let node = fleet.node(&edge(), "node-1").await;
        let mut report = fleet.report(V, "team", &[("hello", "a"), ("he llo", "b"), ("", "b")]);
        report.functions.push(ReportedFunction {
            name: "he\u{200b}llo".into(),
            seen: Seen::Hash(hash("c")),
            not_shown: None,
        });
        fleet.lists(&node, V, "team", &[("hello", "a")]).await;
        let events = fleet.logged().await;
        report.sequence += 10;
        assert_eq!(fleet.sends(&node, &report).await, Recorded::Done);
        assert_eq!(fleet.logged().await, events, "nothing to approve");
        let (_, trust) = fleet.trust(&edge()).await;
        let names: Vec<_> =
            trust.versions[&version(V)].tools[&tool("team")].functions.keys().cloned().collect();
        assert_eq!(names, ["hello".into()]);
    });
}

#[test]
fn a_text_that_comes_late_is_no_false_one_and_many_false_ones_are_one_event() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let name = NodeName::parse("node-1").unwrap();
        let events = fleet.logged().await;
        let send = async |wanted: &[_], texts: &[String]| {
            store_texts(&fleet.store, fleet.by().now, &name, wanted, texts).await.unwrap()
        };
        send(&[hash("a")], &[canonical("a")]).await;
        send(&[hash("b")], &[canonical("a"), canonical("b")]).await;
        assert_eq!(fleet.logged().await, events, "it was asked twice and answers twice");
        let false_ones: Vec<String> = (0..100).map(|number| format!("[{number}]")).collect();
        send(&[], &false_ones).await;
        assert_eq!(fleet.events(events).await, ["plugin.listing.false"], "nobody floods the log");
    });
}

#[test]
fn what_nodes_say_that_they_run_raises_their_edges_trust_only_where_it_says_more_or_less() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let (one, two) = (fleet.node(&edge(), "node-1").await, fleet.node(&edge(), "node-2").await);
        let store = &fleet.store;
        let (team, nothing) = ([version(V)], Status::default());
        let head = async || fleet.trust(&edge()).await.0.generation;
        let (before, events) = (head().await, fleet.logged().await);
        for node in [&one, &two] {
            note_hello(store, fleet.by().now, node, "0.1.0", &team, &nothing).await.unwrap();
        }
        assert_eq!(head().await, before, "it is assigned, so trust spoke of it");
        assert_eq!(fleet.events(events).await, ["node.versions.set"; 2]);
        unassign(store, &fleet.by(), &edge(), &version(V).plugin).await.unwrap();
        let unassigned = head().await;
        note_status(store, fleet.by().now, &one, &nothing).await.unwrap();
        assert_eq!(head().await, unassigned, "the other still runs it");
        note_status(store, fleet.by().now, &two, &nothing).await.unwrap();
        assert_eq!(head().await, unassigned + 1);
        assert!(fleet.trust(&edge()).await.1.versions.is_empty());
    });
}
