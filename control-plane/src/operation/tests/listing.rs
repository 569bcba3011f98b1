use domain::audit::FunctionDifference;
use domain::digest::ListingHash;
use domain::id::{BootId, NodeName};
use proto::convert::{ReportedFunction, Seen};

use crate::operation::approve::{Approval, approve};
use crate::operation::load_part::listing_texts;
use crate::operation::record_listing::{Recorded, record_listing};
use crate::operation::store_texts::store_texts;
use crate::operation::testing::{Fleet, TEAM, canonical, edge, hash, plugin, tool, version};
use crate::store::changes::{self, State};
use crate::store::sql::Statement;
use crate::store::testing::on_both;

const V: &str = "team@1.0.0";

// R3.1, R3.22
#[test]
fn the_first_complete_listing_becomes_the_snapshot_of_the_fleet() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let node = fleet.node(&edge(), "node-1").await;
        let (events, before) = (fleet.logged().await, fleet.trust(&edge()).await.0);
        assert_eq!(fleet.lists(&node, V, "team", &[("hello", "a"), ("bye", "b")]).await, Recorded::Done);
        let (after, trust) = fleet.trust(&edge()).await;
        let team = &trust.versions[&version(V)].tools[&tool("team")];
        assert!(team.snapshot_taken && team.functions.len() == 2);
        assert_eq!(team.functions["hello"].hash, hash("a"));
        assert_eq!(after.generation, before.generation + 1);
        assert_eq!(fleet.events(events).await, ["plugin.tools.snapshot"]);
        let wanted = [hash("c").digest(), hash("a").digest(), hash("b").digest()];
        let texts = listing_texts(&fleet.store, &wanted, 1).await.unwrap();
        assert_eq!(texts, [(hash("a").digest(), canonical("a"))], "no more than was to be read");
        assert_eq!(listing_texts(&fleet.store, &wanted, 1_000).await.unwrap().len(), 2);
    });
}

#[test]
fn an_incomplete_listing_makes_no_snapshot_and_an_empty_one_does() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let node = fleet.node(&edge(), "node-1").await;
        let mut report = fleet.report(V, "team", &[("hello", "a")]);
        report.complete = false;
        assert_eq!(fleet.sends(&node, &report).await, Recorded::Done);
        assert_eq!(fleet.approved(V, "team", "hello").await, None);
        assert_eq!(fleet.lists(&node, V, "team", &[]).await, Recorded::Done);
        let (_, trust) = fleet.trust(&edge()).await;
        let team = &trust.versions[&version(V)].tools[&tool("team")];
        assert!(team.snapshot_taken && team.functions.is_empty());
        // A function that shows up later waits.
        fleet.lists(&node, V, "team", &[("hello", "a")]).await;
        assert_eq!(fleet.approved(V, "team", "hello").await, None);
    });
}

#[test]
fn a_report_that_is_older_or_about_something_foreign_changes_nothing() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.push(TEAM).await.unwrap();
        let node = fleet.node(&edge(), "node-1").await;
        let early = fleet.report(V, "team", &[("hello", "a")]);
        assert!(matches!(fleet.sends(&node, &early).await, Recorded::Ignored(_)), "not on this edge");
        fleet.assign(&edge(), V).await.unwrap();
        let foreign = fleet.report(V, "other", &[("hello", "a")]);
        assert!(matches!(fleet.sends(&node, &foreign).await, Recorded::Ignored(_)), "no such tool");
        fleet.lists(&node, V, "team", &[("hello", "b")]).await;
        let events = fleet.logged().await;
        assert_eq!(fleet.sends(&node, &early).await, Recorded::Stale);
        assert_eq!(fleet.logged().await, events);
        assert_eq!(fleet.approved(V, "team", "hello").await, Some(hash("b")));
    });
}

#[test]
fn a_report_waits_until_every_text_is_here() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let node = fleet.node(&edge(), "node-1").await;
        let report = fleet.report(V, "team", &[("hello", "a")]);
        let boot = BootId::parse("b").unwrap();
        let recorded = record_listing(&fleet.store, fleet.by().now, &node, &boot, &report).await.unwrap();
        assert_eq!(recorded, Recorded::MissingTexts(vec![hash("a")]));
        assert_eq!(fleet.approved(V, "team", "hello").await, None);
    });
}

#[test]
fn a_text_that_is_false_is_refused_and_audited_with_the_node() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let events = fleet.logged().await;
        let name = NodeName::parse("node-1").unwrap();
        let hidden = "{\"description\":\"a\u{200b}\"}".to_owned();
        let wanted = [hash("a"), ListingHash::of_canonical(&hidden)];
        let sent = [canonical("b"), hidden];
        for text in sent {
            let missing = store_texts(&fleet.store, fleet.by().now, &name, &wanted, &[text]).await.unwrap();
            assert!(missing.len() == 2 && wanted.iter().all(|hash| missing.contains(hash)));
        }
        assert_eq!(fleet.events(events).await, ["plugin.listing.false"; 2]);
    });
}

// R3.14, R3.23
#[test]
fn a_difference_is_audited_at_first_sight_and_again_after_it_was_restored() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let (one, two) = (fleet.node(&edge(), "node-1").await, fleet.node(&edge(), "node-2").await);
        fleet.lists(&one, V, "team", &[("hello", "a"), ("bye", "b")]).await;
        fleet.lists(&two, V, "team", &[("hello", "a"), ("bye", "b")]).await;
        let (events, head) = (fleet.logged().await, fleet.trust(&edge()).await.0);
        let changed = [("hello", "c"), ("bye", "b")];
        fleet.lists(&one, V, "team", &changed).await;
        fleet.lists(&two, V, "team", &changed).await;
        fleet.lists(&one, V, "team", &changed).await;
        assert_eq!(fleet.events(events).await, ["plugin.tools.changed"]);
        fleet.lists(&one, V, "team", &[("hello", "a"), ("bye", "b")]).await;
        assert_eq!(fleet.logged().await, events + 1, "node-2 still shows it");
        fleet.lists(&two, V, "team", &[("hello", "a"), ("bye", "b")]).await;
        fleet.lists(&two, V, "team", &changed).await;
        let names = fleet.events(events + 1).await;
        assert_eq!(names, ["plugin.tools.restored", "plugin.tools.changed"]);
        assert_eq!(fleet.trust(&edge()).await.0, head, "nothing that was approved changed");
    });
}

#[test]
fn a_new_function_waits_a_vanished_one_is_gone_and_one_left_out_is_neither() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let node = fleet.node(&edge(), "node-1").await;
        fleet.lists(&node, V, "team", &[("hello", "a"), ("bye", "b"), ("odd", "c")]).await;
        let mut report = fleet.report(V, "team", &[("hello", "a"), ("extra", "d")]);
        report.functions.push(ReportedFunction {
            name: "odd".into(),
            seen: Seen::LeftOut { code: "twice".into(), reason: "listed twice".into() },
            not_shown: None,
        });
        fleet.sends(&node, &report).await;
        let mut tx = fleet.store.read().await.unwrap();
        let variants = changes::of_tool(&mut tx, &version(V), &tool("team")).await.unwrap();
        let open: Vec<_> =
            variants.iter().map(|variant| (&*variant.function, variant.seen, variant.state)).collect();
        assert_eq!(open, [("bye", None, State::Open), ("extra", Some(hash("d")), State::Open)]);
    });
}

#[test]
fn on_another_connection_fewer_functions_are_no_change() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let node = fleet.node(&edge(), "node-1").await;
        fleet.lists(&node, V, "team", &[("hello", "a"), ("bye", "b")]).await;
        let events = fleet.logged().await;
        let mut report = fleet.report(V, "team", &[("hello", "a")]);
        report.connection = "crm".into();
        fleet.sends(&node, &report).await;
        assert_eq!(fleet.logged().await, events);
        let mut report = fleet.report(V, "team", &[("hello", "c")]);
        report.connection = "crm".into();
        fleet.sends(&node, &report).await;
        assert_eq!(fleet.events(events).await, ["plugin.tools.changed"]);
    });
}

#[test]
fn tools_that_models_could_mix_up_take_their_snapshot_together() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        // As a bundle that was accepted before such IDs were refused.
        fleet.accept_old(&version(V), &["a", "a_b"]).await;
        fleet.assign(&edge(), V).await.unwrap();
        let node = fleet.node(&edge(), "node-1").await;
        fleet.lists(&node, V, "a", &[("_b__x", "a"), ("b__x", "d"), ("y", "b")]).await;
        assert_eq!(fleet.approved(V, "a", "y").await, None);
        fleet.lists(&node, V, "a_b", &[("_x", "a"), ("x", "c")]).await;
        assert_eq!(fleet.approved(V, "a", "y").await, Some(hash("b")));
        assert_eq!(fleet.approved(V, "a_b", "x").await, Some(hash("c")));
        // a._b__x and a_b.x are told apart as a___b__x and a_b__x; a.b__x is a__b__x.
        assert_eq!(fleet.approved(V, "a", "b__x").await, Some(hash("d")));
    });
}

#[test]
fn of_many_nodes_at_once_one_makes_the_snapshot_and_the_others_are_compared() {
    on_both(|bench| async move {
        let fleet = std::sync::Arc::new(Fleet::new(bench).await);
        fleet.install(TEAM, V).await;
        let mut nodes = Vec::new();
        for index in 0..6 {
            nodes.push(fleet.node(&edge(), &format!("node-{index}")).await);
        }
        let events = fleet.logged().await;
        let tasks: Vec<_> = nodes
            .into_iter()
            .enumerate()
            .map(|(index, node)| {
                let fleet = std::sync::Arc::clone(&fleet);
                let text = if index % 2 == 0 { "a" } else { "b" };
                tokio::spawn(async move { fleet.lists(&node, V, "team", &[("hello", text)]).await })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), Recorded::Done);
        }
        let mut names = fleet.events(events).await;
        names.sort();
        assert_eq!(names, ["plugin.tools.changed", "plugin.tools.snapshot"]);
    });
}

#[test]
fn a_tool_of_thousands_of_functions_is_recorded_compared_and_approved() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let node = fleet.node(&edge(), "node-1").await;
        let names: Vec<String> = (0..2_000).map(|number| format!("f{number}")).collect();
        let as_text = |text| names.iter().map(|name| (name.as_str(), text)).collect::<Vec<_>>();
        fleet.lists(&node, V, "team", &as_text("a")).await;
        fleet.lists(&node, V, "team", &as_text("b")).await;
        let functions = names.iter().map(|name| FunctionDifference {
            version: version(V),
            tool: tool("team"),
            function: name.as_str().into(),
            edge: None,
            approved: Some(hash("a")),
            seen: Some(hash("b")),
        });
        let approval = Approval {
            plugin: plugin("team"),
            functions: functions.collect(),
            origins: Vec::new(),
            edge: None,
            attended: true,
        };
        let decided = approve(&fleet.store, &fleet.by(), &approval).await.unwrap();
        assert_eq!((decided.functions.len(), decided.stale.len()), (2_000, 0));
        assert_eq!(fleet.approved(V, "team", "f1999").await, Some(hash("b")));
    });
}

/// What one node can fill the database with has a bound, however it flaps.
#[test]
fn a_tool_that_changes_without_end_leaves_bounded_rows() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, "team@1.0.0").await;
        let node = fleet.node(&edge(), "node-1").await;
        fleet.lists(&node, "team@1.0.0", "team", &[("hello", "a")]).await;
        let other = fleet.node(&edge(), "node-2").await;
        fleet.lists(&other, "team@1.0.0", "team", &[("hello", "b")]).await;
        let counted = |statement: &'static str| {
            let store = fleet.store.clone();
            async move {
                let mut tx = store.read().await.unwrap();
                let statement = Statement { name: "count", sql: statement };
                tx.row(statement, Vec::new()).await.unwrap().unwrap().count(0).unwrap()
            }
        };
        for text in (0..60).map(|round| format!("round {round}")) {
            let report = fleet.report("team@1.0.0", "team", &[("hello", &text)]);
            let now = fleet.by().now;
            let name = NodeName::parse("node-1").unwrap();
            store_texts(&fleet.store, now, &name, &[hash(&text)], &[canonical(&text)]).await.unwrap();
            assert_eq!(fleet.sends(&node, &report).await, Recorded::Done);
        }
        assert_eq!(counted("select count(*) from sightings").await, 2);
        assert_eq!(counted("select count(*) from lists").await, 2);
        assert_eq!(counted("select count(*) from list_functions").await, 2);
        assert_eq!(
            counted("select count(*) from changes").await,
            22,
            "two open, and what is kept of the rest"
        );
        assert_eq!(counted("select count(*) from listings").await, 23, "what is named, and the snapshot");
        fleet.lists(&node, "team@1.0.0", "team", &[("hello", "a")]).await;
        assert_eq!(fleet.approved("team@1.0.0", "team", "hello").await, Some(hash("a")));
    });
}

#[test]
fn a_node_that_reports_of_ever_more_connections_is_passed_over() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, "team@1.0.0").await;
        let node = fleet.node(&edge(), "node-1").await;
        fleet.lists(&node, "team@1.0.0", "team", &[("hello", "a")]).await;
        let more = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1999) \
                    insert into sightings (node, plugin, version, tool, connection, boot, sequence, complete, \
                    incomplete_reason, list, address_class, warnings, seen_at) select node, plugin, version, tool, \
                    'c' || i, boot, sequence, complete, incomplete_reason, list, address_class, warnings, seen_at \
                    from sightings, n";
        let mut tx = fleet.store.begin_write().await.unwrap();
        tx.tx().execute(Statement { name: "more", sql: more }, Vec::new()).await.unwrap();
        tx.commit(fleet.by().now).await.unwrap();
        let mut report = fleet.report("team@1.0.0", "team", &[("hello", "a")]);
        report.connection = "one more".into();
        assert!(matches!(fleet.sends(&node, &report).await, Recorded::Ignored(_)));
        report.connection = "c7".into();
        assert_eq!(
            fleet.sends(&node, &report).await,
            Recorded::Done,
            "what it reported of before it still may"
        );
    });
}
