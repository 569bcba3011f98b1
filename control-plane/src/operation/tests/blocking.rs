use domain::block::Target;
use domain::id::EdgeName;
use domain::time::Timestamp;

use crate::operation::block::{Which, block, list_blocks, unblock};
use crate::operation::create_edge::create_edge;
use crate::operation::find_node::find_node;
use crate::operation::record_held::record_held;
use crate::operation::testing::{Fleet, TEAM, code, edge, version};
use crate::operation::verify_audit::verify_audit;
use crate::store::testing::on_both;

const V: &str = "team@1.0.0";
const WHY: &str = "it leaks";

fn target(text: &str) -> Target {
    Target::parse(text).unwrap()
}

/// The ids that nodes of the edge are told of the version.
async fn told(fleet: &Fleet, edge: &EdgeName) -> Vec<String> {
    let (_, trust) = fleet.trust(edge).await;
    trust.versions[&version(V)].blocks.keys().map(ToString::to_string).collect()
}

#[test]
fn what_cannot_be_meant_is_refused_with_the_remedy_and_changes_nothing() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let (events, before) = (fleet.logged().await, fleet.trust(&edge()).await);
        let nowhere = EdgeName::parse("nowhere").unwrap();
        let tries = [
            ("plugin team", None, "  ", "invalid"),
            ("plugin team", Some(&nowhere), WHY, "not_found"),
            ("plugin desk", None, WHY, "not_found"),
            ("plugin team@9.0.0", None, WHY, "not_found"),
            ("tool desk", None, WHY, "not_found"),
            ("function desk.a", None, WHY, "not_found"),
        ];
        for (what, edge, reason, expected) in tries {
            let got = block(&fleet.store, &fleet.by(), &target(what), edge, reason).await;
            assert_eq!(code(got), expected, "{what}");
        }
        for which in [Which::Id("b1".into()), Which::Target(target("plugin team"), None)] {
            assert_eq!(code(unblock(&fleet.store, &fleet.by(), &which).await), "not_found", "{which:?}");
        }
        assert_eq!((fleet.logged().await, fleet.trust(&edge()).await), (events, before));
    });
}

#[test]
fn a_block_is_told_to_the_edges_that_have_a_version_of_it_until_it_is_lifted() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let other = EdgeName::parse("us-1").unwrap();
        create_edge(&fleet.store, &fleet.by(), &other).await.unwrap();
        fleet.assign(&other, V).await.unwrap();
        let before = fleet.trust(&edge()).await.0.generation;
        let events = fleet.logged().await;

        for what in ["function team.hello", "tool team", "plugin team", "plugin team@1.0.0"] {
            let here = block(&fleet.store, &fleet.by(), &target(what), Some(&edge()), WHY).await.unwrap();
            assert_eq!(told(&fleet, &edge()).await, [here.blocks[0].id.clone()], "{what}");
            assert!(told(&fleet, &other).await.is_empty(), "{what}");
            assert_eq!(here.edges.len(), 1);
            let again =
                block(&fleet.store, &fleet.by(), &target(what), Some(&edge()), "other").await.unwrap();
            assert_eq!((again.changed, &again.blocks), (false, &here.blocks));
            let which = Which::Target(target(what), None);
            assert_eq!(code(unblock(&fleet.store, &fleet.by(), &which).await), "not_found", "another scope");
            let which = Which::Target(target(what), Some(edge()));
            let lifted = unblock(&fleet.store, &fleet.by(), &which).await.unwrap();
            assert_eq!(lifted.blocks[0].id, here.blocks[0].id);
            assert!(told(&fleet, &edge()).await.is_empty(), "{what}");
        }
        assert_eq!(fleet.trust(&edge()).await.0.generation, before + 8, "raised once each time");
        assert_eq!(fleet.events(events).await, ["block.set", "block.lift"].repeat(4));

        let all = block(&fleet.store, &fleet.by(), &target("tool team"), None, WHY).await.unwrap();
        let id = all.blocks[0].id.clone();
        assert_eq!(
            (told(&fleet, &edge()).await, told(&fleet, &other).await),
            (vec![id.clone()], vec![id.clone()])
        );
        assert_eq!(all.edges.len(), 2);
        let listed = list_blocks(&fleet.store, "", false, 10).await.unwrap();
        assert_eq!(listed, all.blocks);
        assert_eq!(list_blocks(&fleet.store, "", true, 10).await.unwrap().len(), 5);
        unblock(&fleet.store, &fleet.by(), &Which::Id(id)).await.unwrap();
        verify_audit(&fleet.store).await.unwrap();
    });
}

#[test]
fn a_version_that_comes_later_is_blocked_as_it_comes() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.push(TEAM).await.unwrap();
        let set = block(&fleet.store, &fleet.by(), &target("tool team"), None, WHY).await.unwrap();
        assert!(set.edges.is_empty(), "no edge has it yet");
        fleet.assign(&edge(), V).await.unwrap();
        assert_eq!(told(&fleet, &edge()).await, [set.blocks[0].id.clone()]);
    });
}

#[test]
fn a_block_that_only_a_node_holds_since_a_restore_is_in_force_again_until_it_is_lifted() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, V).await;
        let id = fleet.node(&edge(), "node-1").await;
        let node = {
            let mut tx = fleet.store.read().await.unwrap();
            find_node(&mut tx, id.as_str()).await.unwrap()
        };
        let here = block(&fleet.store, &fleet.by(), &target("tool team"), Some(&edge()), WHY).await.unwrap();
        let (_, held) = fleet.trust(&edge()).await;
        let known = here.blocks[0].id.clone();
        unblock(&fleet.store, &fleet.by(), &Which::Id(known.clone())).await.unwrap();
        let digest = |text: &str| domain::digest::Digest::of(text.as_bytes());
        let now = Timestamp::from_millis(9);

        // What was lifted here stays lifted.
        record_held(&fleet.store, now, &node, (&digest("a"), &held), &[]).await.unwrap();
        assert!(told(&fleet, &edge()).await.is_empty());

        let mut lost = held.clone();
        let of_version = std::sync::Arc::make_mut(lost.versions.get_mut(&version(V)).unwrap());
        let stopped = of_version.blocks.remove(&*known).unwrap();
        of_version.blocks.insert("lost".into(), stopped.clone());
        let events = fleet.logged().await;
        record_held(&fleet.store, now, &node, (&digest("b"), &lost), &[]).await.unwrap();
        assert_eq!(told(&fleet, &edge()).await, ["lost"]);
        assert_eq!(fleet.events(events).await, ["block.set", "fleet.orphans.found"]);
        let listed = list_blocks(&fleet.store, "", false, 10).await.unwrap();
        assert_eq!(listed[0].block, stopped, "with its person's words");
        record_held(&fleet.store, now, &node, (&digest("c"), &lost), &[]).await.unwrap();
        assert_eq!(list_blocks(&fleet.store, "", false, 10).await.unwrap().len(), 1, "once");
        unblock(&fleet.store, &fleet.by(), &Which::Id("lost".into())).await.unwrap();
        assert!(told(&fleet, &edge()).await.is_empty());
    });
}
