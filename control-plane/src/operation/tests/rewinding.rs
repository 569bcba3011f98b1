//! Databases that were restored from a copy.

use domain::id::NodeId;
use domain::origin::{Endpoint, Origin};
use domain::plugin_set::{OriginTrust, Part, Position, Scope};

use crate::operation::approve::{Approval, OriginMove, approve};
use crate::operation::decide_orphans::{Decision, decide_orphans, open_orphans};
use crate::operation::find_bundle::node_record;
use crate::operation::load_part::positions;
use crate::operation::record_held::{is_lost, record_held};
use crate::operation::rewind::{Proof, rewind};
use crate::operation::testing::{Fleet, TEAM, canonical, code, edge, hash, plugin, remote, tool, version};
use crate::operation::{By, Error};
use crate::store::testing::on_both;
use crate::store::{NodeRecord, Orphan};
use domain::digest::Digest;

async fn record(fleet: &Fleet, node: &NodeId) -> NodeRecord {
    node_record(&fleet.store, node).await.unwrap().unwrap()
}

fn proof(part: Part, position: Position) -> Proof {
    Proof { scope: Scope::Edge(edge()), part, position, forked: false }
}

fn at(epoch: u64, generation: u64) -> Position {
    Position { epoch, generation }
}

async fn rewound(fleet: &Fleet, node: &NodeRecord, proofs: &[Proof]) -> bool {
    rewind(&fleet.store, fleet.by().now, node, proofs).await.unwrap()
}

async fn decide(fleet: &Fleet, orphans: &[Orphan], adopt: bool) -> Result<Vec<Orphan>, Error> {
    let ids = orphans.iter().map(Orphan::id).collect();
    decide_orphans(&fleet.store, &fleet.by(), &Decision { ids, adopt, attended: true }).await
}

/// The order of what every node is told never goes back, whatever was proven.
#[test]
fn a_proven_head_begins_an_epoch_past_everything_and_once() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, "team@1.0.0").await;
        let node = fleet.node(&edge(), "node-1").await;
        let node = record(&fleet, &node).await;
        let before = fleet.trust(&edge()).await.0;
        assert!(!rewound(&fleet, &node, &[proof(Part::Trust, before)]).await, "it is what is here");
        let logged = fleet.logged().await;
        let ahead = [proof(Part::Trust, at(4, 90))];
        assert!(rewound(&fleet, &node, &ahead).await);
        assert!(!rewound(&fleet, &node, &ahead).await, "another stream did it");
        assert_eq!(fleet.events(logged).await, ["fleet.store.rewound"]);
        for (scope, part, position) in positions(&fleet.store, None).await.unwrap() {
            assert_eq!(position.epoch, 5, "{scope} {part}");
        }
        assert_eq!(fleet.trust(&edge()).await.0, at(5, 91));
        // What is raised from here on is of the new epoch.
        fleet.push("name: b\nversion: 1.0.0\ntools:\n  b: { command: [\"server\"] }\n").await.unwrap();
        fleet.assign(&edge(), "b@1.0.0").await.unwrap();
        assert_eq!(fleet.trust(&edge()).await.0, at(5, 92));
        // A fork at the very position is proof too.
        let here = fleet.trust(&edge()).await.0;
        let forked = [Proof { forked: true, ..proof(Part::Trust, here) }];
        assert!(rewound(&fleet, &node, &forked).await);
    });
}

#[test]
fn what_only_a_node_holds_waits_for_a_person_and_what_was_changed_since_does_not() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, "team@1.0.0").await;
        let id = fleet.node(&edge(), "node-1").await;
        fleet.lists(&id, "team@1.0.0", "team", &[("hello", "a"), ("bye", "b")]).await;
        let node = record(&fleet, &id).await;
        let (position, mut held) = fleet.trust(&edge()).await;
        let ahead = at(1, position.generation + 3);
        assert!(rewound(&fleet, &node, &[proof(Part::Trust, ahead)]).await);
        let digest = Digest::of(b"manifest");
        assert!(is_lost(&fleet.store, &node, (ahead, &digest, false)).await.unwrap());
        assert!(
            !is_lost(&fleet.store, &node, (position, &digest, false)).await.unwrap(),
            "it was not beyond"
        );
        // The node holds `hello` as c, which this database never approved, and `bye` as b, which it did.
        let mut version_trust = (*held.versions[&version("team@1.0.0")]).clone();
        let functions = &mut version_trust.tools.get_mut(&tool("team")).unwrap().functions;
        functions.get_mut("hello").unwrap().hash = hash("c");
        held.versions.insert(version("team@1.0.0"), version_trust.clone().into());
        held.versions.insert(version("lost@1.0.0"), version_trust.into());
        let now = fleet.by().now;
        let bodies = [canonical("c").into(), canonical("d").into(), bytes::Bytes::from_static(b"\xff")];
        let found = record_held(&fleet.store, now, &node, (&digest, &held), &bodies).await.unwrap();
        assert_eq!(found, 2);
        assert_eq!(record_held(&fleet.store, now, &node, (&digest, &held), &bodies).await.unwrap(), 0);
        assert!(!is_lost(&fleet.store, &node, (ahead, &digest, false)).await.unwrap(), "it was read");
        let open = open_orphans(&fleet.store).await.unwrap();
        let (lost, hello) = (open[..1].to_vec(), open[1..].to_vec());
        assert_eq!((&lost[0].tool, &hello[0].held), (&None, &hash("c").to_string()));
        assert_eq!(code(decide(&fleet, &open, true).await), "not_adoptable");
        assert_eq!(open_orphans(&fleet.store).await.unwrap().len(), 2, "all of it or nothing");
        decide(&fleet, &hello, true).await.unwrap();
        assert_eq!(fleet.approved("team@1.0.0", "team", "hello").await, Some(hash("c")));
        assert_eq!(fleet.approved("team@1.0.0", "team", "bye").await, Some(hash("b")));
        decide(&fleet, &lost, false).await.unwrap();
        assert_eq!(code(decide(&fleet, &lost, false).await), "no_orphan");
        assert!(open_orphans(&fleet.store).await.unwrap().is_empty());
    });
}

#[test]
fn an_origin_that_was_approved_after_the_copy_is_adopted_as_one() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.install(&remote("1.0.0", "https://a.example/mcp"), "wx@1.0.0").await;
        let id = fleet.node(&edge(), "node-1").await;
        let node = record(&fleet, &id).await;
        fleet.install(&remote("1.1.0", "https://b.example/mcp"), "wx@1.1.0").await;
        let mut held = fleet.trust(&edge()).await.1;
        let of_b = held.versions.get_mut(&version("wx@1.1.0")).unwrap();
        let mut entry = (**of_b).clone();
        let origin = "https://b.example".into();
        entry.tools.get_mut(&tool("wx")).unwrap().origin =
            Some(OriginTrust::Pinned { origin, address_class: None });
        *of_b = entry.into();
        let by: By = fleet.by();
        record_held(&fleet.store, by.now, &node, (&Digest::of(b"m"), &held), &[]).await.unwrap();
        let open = open_orphans(&fleet.store).await.unwrap();
        assert_eq!(open.len(), 1, "{open:?}");
        decide(&fleet, &open, true).await.unwrap();
        let trust = fleet.trust(&edge()).await.1;
        let origin = trust.versions[&version("wx@1.1.0")].tools[&tool("wx")].origin.clone().unwrap();
        assert!(matches!(origin, OriginTrust::Pinned { .. }), "{origin:?}");
        // It waits no longer, so there is nothing left to approve.
        let endpoint = |text: &str| Endpoint::Fixed(Origin::parse(text).unwrap());
        let (from, to) = (vec![endpoint("https://a.example")], endpoint("https://b.example"));
        let origins =
            vec![OriginMove { version: version("wx@1.1.0"), tool: tool("wx"), edge: None, from, to }];
        let approval =
            Approval { plugin: plugin("wx"), functions: Vec::new(), origins, edge: None, attended: true };
        let stale = approve(&fleet.store, &fleet.by(), &approval).await.unwrap().stale;
        assert_eq!(stale.len(), 1);
    });
}
