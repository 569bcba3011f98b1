use domain::audit::Origin;
use domain::digest::Digest;
use domain::id::BootId;
use domain::id::NodeName;
use domain::plugin_set::Scope;
use proto::convert::{Acked, Hello, Status};

use super::*;
use crate::operation::By;
use crate::operation::create_edge::create_edge;
use crate::operation::issue_join_token::issue_join_token;
use crate::operation::join::{JoinInput, join};
use crate::operation::start_fleet::start_fleet;

fn now() -> Timestamp {
    Timestamp::from_millis(1_796_056_331_042)
}

fn by() -> By {
    By { now: now(), origin: Origin { actor: "test".to_owned(), source: "test".to_owned() } }
}

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

struct Fixture {
    fleet: Fleet,
    store: Store,
    _folder: tempfile::TempDir,
}

async fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&format!("sqlite:{}", folder.path().join("p.db").display())).await.unwrap();
    start_fleet(&store, &by(), "test").await.unwrap();
    create_edge(&store, &by(), &edge()).await.unwrap();
    let (_, signer) = testing::signer(folder.path());
    Fixture { fleet: Fleet::new(store.clone(), signer, now, || 7), store, _folder: folder }
}

fn edge() -> EdgeName {
    EdgeName::parse("eu-1").unwrap()
}

impl Fixture {
    async fn node(&self, name: &str) -> NodeId {
        let token = issue_join_token(&self.store, &by(), &edge(), 1, 60_000).await.unwrap();
        let input = JoinInput {
            token_id: token.id,
            secret: token.secret,
            public_key_sha256: Digest::of(name.as_bytes()),
            node_name: NodeName::parse(name).unwrap(),
            agent_version: "0.1.0".to_owned(),
            certified: crate::store::Certified::default(),
        };
        join(&self.store, now(), &input).await.unwrap().node_id
    }

    async fn raise(&self, scope: Scope, part: Part) {
        let mut tx = self.store.begin_write().await.unwrap();
        tx.raise(scope, part);
        tx.audit(&by().origin, domain::audit::Event::EdgeCreate { edge: edge() });
        tx.commit(now()).await.unwrap();
    }

    async fn register(&self, node: &NodeId) -> Registration {
        self.fleet.register(node, address()).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn nobody_who_is_not_on_record_gets_a_stream() {
    let fixture = fixture().await;
    let stranger = NodeId::parse("n-0").unwrap();
    assert!(fixture.fleet.register(&stranger, address()).await.unwrap().is_none());
    let nowhere = EdgeName::parse("nowhere").unwrap();
    assert!(matches!(fixture.fleet.edge(&nowhere).await, Err(Error::Unknown { .. })));
}

#[tokio::test]
async fn a_change_reaches_every_stream_of_the_edge_as_the_same_bytes() {
    let fixture = fixture().await;
    let (one, two) = (fixture.node("a").await, fixture.node("b").await);
    let (mut first, second) = (fixture.register(&one).await, fixture.register(&two).await);
    let before = first.set.borrow_and_update().get(Part::Trust).unwrap().position;
    fixture.raise(Scope::Edge(edge()), Part::Trust).await;
    fixture.fleet.look(false).await.unwrap();
    assert!(first.set.has_changed().unwrap());
    let [a, b] = [&first, &second].map(|stream| Arc::clone(stream.set.borrow().get(Part::Trust).unwrap()));
    assert!(a.position > before);
    assert!(Arc::ptr_eq(&a, &b), "built once");
    first.set.borrow_and_update();
    fixture.fleet.look(false).await.unwrap();
    assert!(!first.set.has_changed().unwrap(), "nothing is new");
}

#[tokio::test]
async fn a_nodes_own_part_reaches_that_node_alone() {
    let fixture = fixture().await;
    let (one, two) = (fixture.node("a").await, fixture.node("b").await);
    let (first, second) = (fixture.register(&one).await, fixture.register(&two).await);
    fixture.raise(Scope::Node(one), Part::Grants).await;
    fixture.fleet.look(true).await.unwrap();
    assert!(first.own.has_changed().unwrap());
    assert!(!second.own.has_changed().unwrap());
    assert_eq!(first.own.borrow().grants.position.generation, 2);
}

#[tokio::test]
async fn the_newest_stream_of_a_node_takes_over_and_the_end_of_the_older_one_changes_nothing() {
    let fixture = fixture().await;
    let node = fixture.node("a").await;
    let older = fixture.register(&node).await;
    let newer = fixture.register(&node).await;
    assert_eq!(older.own.borrow().farewell, Some(Farewell::Superseded));
    let trust = Arc::clone(newer.set.borrow().get(Part::Trust).unwrap());
    older.acked(&Acked { part: Part::Trust, position: trust.position, digest: trust.digest });
    assert_eq!(fixture.fleet.acknowledged_by(&node, Part::Trust), None, "only the newest stream is believed");
    drop(older);
    assert_eq!(fixture.fleet.connected_count(), 1);
    drop(newer);
    assert_eq!(fixture.fleet.connected_count(), 0);
    assert_eq!(fixture.fleet.presence(&node), None);
}

#[tokio::test]
async fn who_has_a_part_and_who_is_waited_for_is_told_by_name() {
    let fixture = fixture().await;
    let (one, two) = (fixture.node("a").await, fixture.node("b").await);
    let (first, _second) = (fixture.register(&one).await, fixture.register(&two).await);
    let trust = Arc::clone(first.set.borrow().get(Part::Trust).unwrap());
    first.acked(&Acked { part: Part::Trust, position: trust.position, digest: trust.digest });
    let told = fixture.fleet.acknowledged(&edge(), Part::Trust).unwrap();
    assert_eq!((told.position, told.acknowledged, told.connected), (trust.position, 1, 2));
    assert_eq!(told.waiting, [NodeName::parse("b").unwrap()]);
    fixture.raise(Scope::Edge(edge()), Part::Trust).await;
    fixture.fleet.look(false).await.unwrap();
    assert_eq!(fixture.fleet.acknowledged(&edge(), Part::Trust).unwrap().acknowledged, 0);
}

fn welcome() -> Greeted {
    Greeted::Welcome { fleet_size: 1, counter: None, again: false }
}

fn hello(agent: &str) -> Hello {
    Hello {
        boot: BootId::parse("b-1").unwrap(),
        agent_version: agent.into(),
        protocol: 1,
        held: Vec::new(),
        versions: Vec::new(),
        bodies: Vec::new(),
        status: Status::default(),
        clock: now(),
        session: None,
    }
}

#[tokio::test]
async fn of_many_nodes_that_speak_at_once_a_few_are_written_and_people_wait_for_no_others() {
    let fixture = fixture().await;
    let node = fixture.node("a").await;
    let registration = fixture.register(&node).await;
    let busy = [fixture.fleet.turn().await, fixture.fleet.turn().await, fixture.fleet.turn().await];
    let said = hello("1");
    let mut greeting = std::pin::pin!(fixture.fleet.greet(&node, &registration.edge, "", &said));
    assert!(futures::poll!(&mut greeting).is_pending(), "it is not in the database's queue");
    fixture.raise(Scope::Edge(edge()), Part::Trust).await;
    fixture.fleet.look(true).await.unwrap();
    drop(busy);
    greeting.await.unwrap();
}

#[tokio::test]
async fn a_known_node_that_comes_back_as_it_was_is_answered_from_memory() {
    let fixture = fixture().await;
    let node = fixture.node("a").await;
    let registration = fixture.register(&node).await;
    assert_eq!(fixture.fleet.greet(&node, &registration.edge, "", &hello("1")).await.unwrap(), welcome());
    fixture.fleet.look(true).await.unwrap();
    fixture.fleet.note_status((&node).into(), &Status::default()).await.unwrap();
    drop(registration);
    fixture.store.close().await;
    let registration = fixture.register(&node).await;
    assert_eq!(fixture.fleet.greet(&node, &registration.edge, "", &hello("1")).await.unwrap(), welcome());
    fixture.fleet.greet(&node, &registration.edge, "", &hello("2")).await.unwrap_err();
}

#[test]
fn one_node_at_a_time_is_asked_for_a_text_and_none_again_while_others_wait() {
    let mut wants = Wants::default();
    let hash = ListingHash::of_canonical("text");
    let [one, two] = ["n-1", "n-2"].map(|id| NodeId::parse(id).unwrap());
    assert_eq!(wants.claim(&one, &[hash], 0), [hash]);
    assert!(wants.claim(&two, &[hash], 1_999).is_empty());
    assert!(wants.claim(&one, &[hash], 2_000).is_empty(), "it was asked, and others may wait");
    assert_eq!(wants.claim(&two, &[hash], 2_000), [hash]);
    assert!(wants.claim(&one, &[hash], 5_999).is_empty());
    assert_eq!(wants.claim(&one, &[hash], 6_000), [hash], "nobody else came");
    assert!(wants.claim(&one, &[hash], 11_999).is_empty(), "and it waits longer each time");
    wants.arrived(&[hash].into());
    assert_eq!(wants.claim(&one, &[hash], 11_999), [hash]);
}

/// L1: a node that is asked first each time and has the text no longer.
#[test]
fn a_node_that_never_answers_does_not_keep_the_others_from_being_asked() {
    let mut wants = Wants::default();
    let hash = ListingHash::of_canonical("text");
    let silent: Vec<NodeId> = (0..5).map(|at| NodeId::parse(&format!("n-{at}")).unwrap()).collect();
    let other = NodeId::parse("n-9").unwrap();
    for round in 0..=51 {
        for node in &silent {
            wants.claim(node, &[hash], round * 2_000);
        }
    }
    assert_eq!(wants.claim(&other, &[hash], 102_000), [hash], "it comes before those that were asked");
}

#[test]
fn nodes_are_spread_over_the_time_that_their_number_needs() {
    for _ in 0..100 {
        let Farewell::Drain { after_ms } = Farewell::drain(10_000) else { panic!("a drain") };
        assert!(after_ms < 6_000, "{after_ms}");
    }
}
