//! What released protocols said and stored goes on being read: N and N-1 work together.
//!
//! `released/N.txt` is made once for each protocol, when it is released, and never edited. Ledgers are read in
//! `node-agent`.

#![allow(missing_docs, reason = "tests are sentences")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;

use domain::plugin_set::Head;
use prost::Message as _;
use proto::convert::{self, Hello, NodeSaid, PartContent};
use proto::v1;

/// Every kind of message there is in protocol 1.
const KINDS: [&str; 19] = [
    "up hello",
    "up ack",
    "up nack",
    "up need",
    "up listing",
    "up listings",
    "up status",
    "up heartbeat",
    "up counter_kept",
    "up held_part",
    "down welcome",
    "down part",
    "down bodies",
    "down want_listings",
    "down report_ack",
    "down heartbeat_ack",
    "down goodbye",
    "down ping",
    "down want_held",
];

type Kinds = BTreeMap<String, Vec<Vec<u8>>>;

fn released() -> Vec<Kinds> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("released");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path| {
        let mut kinds = Kinds::new();
        let text = std::fs::read_to_string(path).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (kind, bytes) = line.rsplit_once(' ').unwrap();
            kinds.entry(kind.to_owned()).or_default().push(hex::decode(bytes).unwrap());
        }
        kinds
    };
    files.map(read).collect()
}

fn head(signed: &v1::SignedHead, authorities: &[Vec<u8>]) -> Head {
    let statement = v1::HeadStatement::decode(signed.statement.as_slice()).unwrap();
    proto::head::verify(signed, &statement.fleet, authorities).expect("the signature holds")
}

#[test]
fn each_message_of_a_node_is_taken_and_means_what_it_said() {
    for kinds in released() {
        for kind in KINDS.iter().filter(|kind| kind.starts_with("up ")) {
            for bytes in &kinds[*kind] {
                let message = v1::NodeMessage::decode(bytes.as_slice()).unwrap();
                let said = NodeSaid::try_from(message).unwrap_or_else(|error| panic!("{kind}: {error}"));
                let again = NodeSaid::try_from(v1::NodeMessage::from(&said)).unwrap();
                assert_eq!(format!("{again:?}"), format!("{said:?}"), "{kind}");
            }
        }
    }
}

#[test]
fn the_heads_that_a_node_shows_are_believed() {
    for kinds in released() {
        let mut shown = 0;
        for bytes in &kinds["up hello"] {
            let message = v1::NodeMessage::decode(bytes.as_slice()).unwrap();
            let NodeSaid::Hello(hello) = NodeSaid::try_from(message).unwrap() else { panic!("a Hello") };
            for (part, signed) in &hello.held {
                assert_eq!(head(signed, &kinds["authority"]).part, *part);
                shown += 1;
            }
        }
        assert!(shown >= 4, "{shown}");
    }
}

/// Nodes whose agents kept no session counter yet said Hello without that field.
#[test]
fn a_hello_without_a_session_counter_is_taken() {
    for kinds in released() {
        for bytes in &kinds["up hello"] {
            let message = v1::NodeMessage::decode(bytes.as_slice()).unwrap();
            let Some(v1::node_message::Message::Hello(mut hello)) = message.message else {
                panic!("a Hello")
            };
            hello.session = None;
            assert!(Hello::try_from(hello).unwrap().session.is_none());
        }
    }
}

#[test]
fn each_message_of_a_server_is_read_whole() {
    for kinds in released() {
        for kind in KINDS.iter().filter(|kind| kind.starts_with("down ")) {
            for bytes in &kinds[*kind] {
                let message = v1::ServerMessage::decode(bytes.as_slice()).unwrap();
                assert_eq!(&message.encode_to_vec(), bytes, "{kind}: nothing of it is unknown");
                assert!(message.message.is_some(), "{kind}");
            }
        }
    }
}

#[test]
fn each_part_that_a_server_sends_is_believed_and_read() {
    for kinds in released() {
        for bytes in &kinds["down part"] {
            let message = v1::ServerMessage::decode(bytes.as_slice()).unwrap();
            let Some(v1::server_message::Message::Part(update)) = message.message else { panic!("a part") };
            let head = head(&update.head.unwrap(), &kinds["authority"]);
            let manifest = convert::manifest(&update.manifest).unwrap();
            assert_eq!(manifest.digest(), head.digest);
            let bodies = update.bodies.into_iter().map(|body| (domain::digest::Digest::of(&body), body));
            let bodies = bodies.filter(|(digest, _)| manifest.0.values().any(|named| named == digest));
            let content = PartContent { bodies: bodies.collect(), manifest };
            let (_, rejected) = content.read(head.part);
            // What was known to the node before is not sent again.
            assert!(rejected.iter().all(|one| !content.bodies.contains_key(&one.digest)), "{rejected:?}");
        }
    }
}
