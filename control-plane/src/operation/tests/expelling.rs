use domain::digest::Digest;
use domain::id::NodeName;
use domain::label::Labels;
use domain::standing::Standing;

use crate::operation::Error;
use crate::operation::expel::{ban, evict};
use crate::operation::find_bundle::{bundle_for, former_node, node_record, standings};
use crate::operation::issue_join_token::issue_labelled;
use crate::operation::join::{JoinInput, Joined, join};
use crate::operation::keep_session::keep_session;
use crate::operation::note_node::{note_alive, note_hello};
use crate::operation::quarantine::{SeenSession, quarantine, sessions};
use crate::operation::record_listing::Recorded;
use crate::operation::remove_node::remove_node;
use crate::operation::testing::{Fleet, TEAM, code, edge, version};
use crate::store::testing::on_both;
use crate::store::{Certified, NodeRecord};

async fn joins(fleet: &Fleet, name: &str, key: &str) -> Result<Joined, Error> {
    let labels = Labels::new([("role", "test")]).unwrap();
    let token = issue_labelled(&fleet.store, &fleet.by(), &edge(), (1, 60_000), labels).await.unwrap();
    let input = JoinInput {
        token_id: token.id,
        secret: token.secret,
        public_key_sha256: Digest::of(key.as_bytes()),
        node_name: NodeName::parse(name).unwrap(),
        agent_version: "0.1.0".to_owned(),
        certified: Certified::default(),
    };
    join(&fleet.store, fleet.by().now, &input).await
}

async fn record(fleet: &Fleet, joined: &Joined) -> NodeRecord {
    node_record(&fleet.store, &joined.node_id).await.unwrap().unwrap()
}

#[test]
fn an_evicted_node_gets_and_tells_nothing_and_its_key_never_joins_again() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let pushed = fleet.push(TEAM).await.unwrap();
        fleet.assign(&edge(), "team@1.0.0").await.unwrap();
        let node = joins(&fleet, "node-1", "k").await.unwrap();
        assert_eq!(record(&fleet, &node).await.labels.to_texts(), ["role=test"]);
        fleet.lists(&node.node_id, "team@1.0.0", "team", &[("hello", "a")]).await;
        fleet.lists(&node.node_id, "team@1.0.0", "team", &[("hello", "b")]).await;
        let (from, before) = (fleet.logged().await, standings(&fleet.store).await.unwrap());
        let evicted = evict(&fleet.store, &fleet.by(), "node-1", "it was\u{200b} lost").await.unwrap();
        assert_eq!((evicted.standing.standing, &*evicted.standing.by), (Standing::Evicted, "token/admin"));
        assert_eq!(evicted.standing.reason, "it was\\u{200B} lost");
        // What only it saw is over, and every server is told to look.
        assert_eq!(fleet.events(from).await, ["plugin.tools.restored", "node.evict"]);
        assert_eq!(standings(&fleet.store).await.unwrap(), before + 1);

        let from = fleet.logged().await;
        evict(&fleet.store, &fleet.by(), node.node_id.as_str(), "again").await.unwrap();
        let report = fleet.report("team@1.0.0", "team", &[("hello", "c")]);
        assert!(matches!(fleet.sends(&node.node_id, &report).await, Recorded::Ignored(_)));
        let said = [version("team@1.0.0")];
        let status = proto::convert::Status::default();
        note_hello(&fleet.store, fleet.by().now, &node.node_id, "9", &said, &status).await.unwrap();
        let key = Digest::of(b"k");
        let bundle = bundle_for((&fleet.store, &fleet.blobs), (&node.node_id, &key), &pushed.archive_sha256);
        assert_eq!(bundle.await.unwrap(), None);
        assert_eq!(code(joins(&fleet, "node-9", "k").await), "join_refused");
        assert_eq!(fleet.events(from).await, ["join_token.create"], "nothing of that changed anything");
    });
}

#[test]
fn an_evicted_node_makes_room_for_the_machine_that_comes_back_under_its_name() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let first = joins(&fleet, "node-1", "k").await.unwrap();
        evict(&fleet.store, &fleet.by(), "node-1", "").await.unwrap();
        let from = fleet.logged().await;
        let second = joins(&fleet, "node-1", "l").await.unwrap();
        assert_eq!((second.name.as_str(), second.node_id != first.node_id), ("node-1", true));
        assert_eq!(fleet.events(from).await, ["join_token.create", "node.remove", "node.join"]);
        assert!(node_record(&fleet.store, &first.node_id).await.unwrap().is_none());
        assert_eq!(former_node(&fleet.store, &first.node_id).await.unwrap().unwrap().as_str(), "node-1");
        assert_eq!(code(joins(&fleet, "node-2", "k").await), "join_refused");
    });
}

#[test]
fn a_ban_is_for_ever() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let node = joins(&fleet, "node-1", "k").await.unwrap();
        ban(&fleet.store, &fleet.by(), "node-1", "hostile").await.unwrap();
        ban(&fleet.store, &fleet.by(), "node-1", "again").await.unwrap();
        assert_eq!(record(&fleet, &node).await.standing.reason, "hostile");
        assert_eq!(code(evict(&fleet.store, &fleet.by(), "node-1", "").await), "standing_differs");
        assert_eq!(code(remove_node(&fleet.store, &fleet.by(), "node-1").await), "standing_differs");
        assert_eq!(code(joins(&fleet, "node-1", "k").await), "join_refused");
        assert_eq!(joins(&fleet, "node-1", "l").await.unwrap().name.as_str(), "node-1-2");
    });
}

#[test]
fn only_an_evicted_node_is_removed_and_its_trust_goes_with_it() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        assert_eq!(code(remove_node(&fleet.store, &fleet.by(), "node-1").await), "not_found");
        joins(&fleet, "node-1", "k").await.unwrap();
        assert_eq!(code(remove_node(&fleet.store, &fleet.by(), "node-1").await), "standing_differs");
        evict(&fleet.store, &fleet.by(), "node-1", "").await.unwrap();
        remove_node(&fleet.store, &fleet.by(), "node-1").await.unwrap();
        assert_eq!(code(remove_node(&fleet.store, &fleet.by(), "node-1").await), "not_found");
        assert_eq!(code(evict(&fleet.store, &fleet.by(), "node-1", "").await), "not_found");
    });
}

fn seen(fleet: &Fleet, counter: u64, boot: &str) -> SeenSession {
    let address = format!("10.0.0.{counter}:1");
    SeenSession { counter, boot: boot.to_owned(), address, at: fleet.by().now }
}

#[test]
fn of_a_quarantined_node_a_person_picks_one_session_and_what_the_others_wrote_is_void() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let node = joins(&fleet, "node-1", "k").await.unwrap();
        let id = &node.node_id;
        let alive = |counter| {
            let (id, now) = (id.clone(), fleet.by().now);
            let store = fleet.store.clone();
            async move { note_alive(&store, now, &[], &[(id, counter)]).await.unwrap() }
        };
        alive(9).await;
        alive(6).await;
        assert_eq!(record(&fleet, &node).await.known.acknowledged, 9);
        assert_eq!(code(keep_session(&fleet.store, &fleet.by(), "node-1", 9).await), "standing_differs");

        let from = fleet.logged().await;
        let both = [seen(&fleet, 9, "b-1"), seen(&fleet, 5, "b-2")];
        quarantine(&fleet.store, fleet.by().now, id, &both).await.unwrap();
        quarantine(&fleet.store, fleet.by().now, id, &[seen(&fleet, 5, "b-2")]).await.unwrap();
        quarantine(&fleet.store, fleet.by().now, id, &[seen(&fleet, 7, "b-3")]).await.unwrap();
        assert_eq!(fleet.events(from).await, ["node.clone"], "once, however often they come back");
        let held = record(&fleet, &node).await;
        assert_eq!(held.standing.standing, Standing::Quarantined);
        let counters: Vec<u64> = sessions(&held.copies).iter().map(|one| one.counter).collect();
        assert_eq!(counters, [9, 5, 7]);

        assert_eq!(code(keep_session(&fleet.store, &fleet.by(), "node-1", 6).await), "invalid");
        keep_session(&fleet.store, &fleet.by(), "node-1", 5).await.unwrap();
        let kept = record(&fleet, &node).await;
        let pick = kept.known.pick.unwrap();
        assert_eq!((kept.standing.standing, kept.known.acknowledged), (Standing::Active, 5));
        assert_eq!((pick.kept, pick.up_to, &*kept.copies), (5, 9, "[]"));
        // What another server remembered of the others arrives late.
        alive(9).await;
        assert_eq!(record(&fleet, &node).await.known.acknowledged, 5);
        alive(10).await;
        assert_eq!(record(&fleet, &node).await.known.acknowledged, 10);
    });
}

#[test]
fn an_expelled_node_is_not_quarantined() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let node = joins(&fleet, "node-1", "k").await.unwrap();
        evict(&fleet.store, &fleet.by(), "node-1", "").await.unwrap();
        quarantine(&fleet.store, fleet.by().now, &node.node_id, &[seen(&fleet, 1, "b")]).await.unwrap();
        assert_eq!(record(&fleet, &node).await.standing.standing, Standing::Evicted);
    });
}
