use domain::digest::Digest;
use domain::plugin_set::Part;
use proto::convert::{NodeSaid, PartContent};
use proto::v1;
use proto::v1::server_message::Message;

use crate::fixture::{Fixture, TEAM, edge};

#[tokio::test]
async fn a_node_that_joins_is_sent_the_four_parts_in_order_and_acknowledges_them() {
    let fixture = Fixture::new().await;
    let archive = fixture.push(TEAM).await;
    fixture.assign("team@1.0.0").await;
    let node = fixture.node("a").await;
    let (mut stream, welcome) = node.session(Vec::new()).await;
    assert!(welcome.current.is_empty() && welcome.fleet_size == 1 && welcome.heartbeat_ms > 0);
    for part in Part::ALL {
        let (head, update) = stream.part().await;
        assert_eq!(head.part, part);
        let manifest = proto::convert::manifest(&update.manifest).unwrap();
        let bodies = update.bodies.into_iter().map(|body| (Digest::of(&body), body)).collect();
        let (content, rejected) = PartContent { manifest, bodies }.read(part);
        assert!(rejected.is_empty());
        if let proto::convert::Content::Plan(plan) = content {
            let installed = plan.plugins.values().next().unwrap().installed.clone().unwrap();
            assert_eq!(installed.archive_sha256, Digest::of(&archive));
        }
        stream.ack(&head).await;
    }
    // An answer to a heartbeat shows that the acknowledgements before it were taken.
    stream.say(NodeSaid::Heartbeat(None)).await;
    assert!(matches!(stream.hear().await, Message::HeartbeatAck(_)));
    let acknowledged = fixture.server.fleet().acknowledged(&edge(), Part::Plan).unwrap();
    assert_eq!((acknowledged.acknowledged, acknowledged.connected), (1, 1));
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_change_reaches_all_streams_of_the_edge_without_a_question() {
    let fixture = Fixture::new().await;
    fixture.push(TEAM).await;
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let ((mut first, _), (mut second, _)) = (a.current().await, b.current().await);
    fixture.assign("team@1.0.0").await;
    for stream in [&mut first, &mut second] {
        let mut parts = vec![stream.part().await.0, stream.part().await.0];
        parts.sort_by_key(|head| head.part);
        assert_eq!(parts.iter().map(|head| head.part).collect::<Vec<_>>(), [Part::Trust, Part::Plan]);
        assert!(parts.iter().all(|head| head.position.generation == 2), "{parts:?}");
    }
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_node_that_comes_back_current_is_confirmed_in_few_bytes() {
    use prost::Message as _;
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    let (stream, held) = node.current().await;
    drop(stream);
    let (mut stream, welcome) = node.session(held).await;
    assert_eq!(welcome.current.len(), 4);
    assert!(welcome.encoded_len() <= 200, "{}", welcome.encoded_len());
    stream.say(NodeSaid::Heartbeat(None)).await;
    assert!(matches!(stream.hear().await, Message::HeartbeatAck(_)), "nothing else follows");
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_node_that_comes_back_with_older_or_forged_heads_is_sent_the_part_anew() {
    let fixture = Fixture::new().await;
    fixture.push(TEAM).await;
    let node = fixture.node("a").await;
    let (_, old) = node.current().await;
    fixture.assign("team@1.0.0").await;
    // Otherwise memory might be as old as the node.
    fixture.server.fleet().look(false).await.unwrap();
    let forged = |(part, mut head): (Part, v1::SignedHead)| {
        head.statement.push(0);
        (part, head)
    };
    for held in [old.clone(), old.into_iter().map(forged).collect()] {
        let (mut stream, welcome) = node.session(held).await;
        assert!(!welcome.current.contains(&i32::from(v1::Part::Plan)));
        let (head, update) = loop {
            let (head, update) = stream.part().await;
            if head.part == Part::Plan {
                break (head, update);
            }
        };
        assert_eq!((head.position.generation, update.bodies.len()), (2, 1));
    }
    fixture.server.stop().await;
}

/// A database that was put back: what the fleet signed is proof, and nothing goes backwards.
#[tokio::test]
async fn a_node_that_is_ahead_of_the_database_is_not_sent_back() {
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    let (_, held) = node.current().await;
    let pki = |name: &str| fixture.folder.path().join(name);
    let bound = fixture.authority().to_string();
    let authority =
        control_plane::pki::Authority::open(&pki("ca.key"), &node.answer.fleet, Some(&bound)).unwrap();
    let signer = control_plane::pki::HeadSigner::open(&pki("signer.key"), &authority).unwrap();
    let newer = held.into_iter().map(|(part, signed)| {
        let mut head = proto::head::verify(&signed, &node.answer.fleet, &node.answer.authorities).unwrap();
        head.position.generation += 7;
        (part, signer.sign(&head).unwrap())
    });
    let newer: Vec<_> = newer.collect();
    let (mut stream, welcome) = node.session(newer).await;
    assert_eq!((welcome.epoch, welcome.current.len()), (2, 0));
    // What it holds is asked for before anything takes its place; it lost it meanwhile.
    assert!(matches!(stream.hear().await, Message::WantHeld(_)));
    stream.say(NodeSaid::HeldPart(Box::default())).await;
    for part in Part::ALL {
        let (head, _) = stream.part().await;
        assert_eq!((head.part, head.position.epoch), (part, 2));
        assert!(head.position.generation > 8, "{head:?}");
        stream.ack(&head).await;
    }
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_second_stream_of_a_node_takes_the_place_of_the_first() {
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    let (mut first, held) = node.current().await;
    let (_second, _) = node.session(held).await;
    assert_eq!(first.goodbye().await.0, "superseded");
    assert_eq!(fixture.server.fleet().connected_count(), 1);
    fixture.server.stop().await;
}

#[tokio::test]
async fn bodies_that_a_node_lacks_are_sent_by_digest() {
    let fixture = Fixture::new().await;
    fixture.push(TEAM).await;
    fixture.assign("team@1.0.0").await;
    let node = fixture.node("a").await;
    let (mut stream, _) = node.session(Vec::new()).await;
    let (_, trust) = stream.part().await;
    let wanted = proto::convert::manifest(&trust.manifest).unwrap();
    for _ in 1..Part::ALL.len() {
        stream.part().await;
    }
    let unknown = Digest::of(b"nowhere");
    stream.say(NodeSaid::Need(wanted.0.values().copied().chain([unknown]).collect())).await;
    let Message::Bodies(bodies) = stream.hear().await else { panic!("bodies") };
    assert_eq!(bodies.bodies, trust.bodies);
    stream.say(NodeSaid::Need(vec![unknown])).await;
    let Message::Bodies(bodies) = stream.hear().await else { panic!("bodies") };
    assert!(bodies.bodies.is_empty(), "what does not come is not there");
    fixture.server.stop().await;
}
