use std::sync::Arc;

use domain::digest::{Digest, ListingHash};
use domain::id::{PluginVersion, ToolId};
use domain::plugin_set::Part;
use proto::convert::{Content, NodeSaid, PartContent, Report, ReportedFunction, Seen};
use proto::v1::server_message::Message;

use crate::fixture::{Fixture, TEAM};
use crate::node::{Node, Stream};

fn text(words: &str) -> String {
    format!("{{\"description\":\"{words}\",\"inputSchema\":{{\"type\":\"object\"}}}}")
}

fn report(sequence: u64, words: &str) -> Report {
    let seen = Seen::Hash(ListingHash::of_canonical(&text(words)));
    Report {
        sequence,
        version: PluginVersion::parse("team@1.0.0").unwrap(),
        tool: ToolId::parse("team").unwrap(),
        connection: "".into(),
        complete: true,
        incomplete_reason: "".into(),
        functions: vec![ReportedFunction { name: "hello".into(), seen, not_shown: None }],
        address_class: "".into(),
        warnings: Vec::new(),
    }
}

async fn assigned() -> (Fixture, Node) {
    let fixture = Fixture::new().await;
    fixture.push(TEAM).await;
    fixture.assign("team@1.0.0").await;
    let node = fixture.node("a").await;
    (fixture, node)
}

impl Stream {
    async fn report(&self, report: Report) {
        self.say(NodeSaid::Report(Box::new(report))).await;
    }

    /// Hears until the report is acknowledged; answers what trust then says of `hello`, if it was
    /// sent meanwhile.
    async fn acknowledged(&mut self, sequence: u64) -> Option<ListingHash> {
        let (mut trusted, mut is_acknowledged) = (None, false);
        while !is_acknowledged || trusted.is_none() {
            match self.hear().await {
                Message::ReportAck(ack) => {
                    assert_eq!(ack.sequence, sequence);
                    is_acknowledged = true;
                }
                Message::Part(update) => {
                    let manifest = proto::convert::manifest(&update.manifest).unwrap();
                    let bodies = update.bodies.into_iter().map(|body| (Digest::of(&body), body));
                    let bodies: std::collections::BTreeMap<_, _> = bodies.collect();
                    let named: Vec<Digest> = manifest.0.values().copied().collect();
                    let along = bodies.keys().any(|digest| !named.contains(digest));
                    let Content::Trust(trust) = (PartContent { manifest, bodies }).read(Part::Trust).0 else {
                        panic!("trust")
                    };
                    assert!(along, "the text of what was approved comes along");
                    let version = PluginVersion::parse("team@1.0.0").unwrap();
                    let tool = &trust.versions[&version].tools[&ToolId::parse("team").unwrap()];
                    trusted = tool.functions.get(&Arc::from("hello")).map(|function| function.hash);
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
        trusted
    }
}

#[tokio::test]
async fn a_first_listing_becomes_the_snapshot_once_its_text_was_sent() {
    let (fixture, node) = assigned().await;
    let (mut stream, _) = node.current().await;
    stream.report(report(1, "hello")).await;
    let Message::WantListings(want) = stream.hear().await else { panic!("no question") };
    let hash = ListingHash::of_canonical(&text("hello"));
    assert_eq!(want.hashes, [hash.digest().as_bytes().to_vec()]);
    stream.say(NodeSaid::Listings(vec![text("hello")])).await;
    assert_eq!(stream.acknowledged(1).await, Some(hash));
    // Said again on a new stream of the same boot, it is acknowledged at once and changes nothing.
    let (mut again, _) = node.current().await;
    again.report(report(1, "hello")).await;
    assert!(matches!(again.hear().await, Message::ReportAck(ack) if ack.sequence == 1));
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_text_that_is_not_the_one_asked_for_makes_no_snapshot_and_the_question_is_put_again() {
    let (fixture, node) = assigned().await;
    let (mut stream, _) = node.current().await;
    stream.report(report(1, "hello")).await;
    assert!(matches!(stream.hear().await, Message::WantListings(_)));
    stream.say(NodeSaid::Listings(vec![text("something else")])).await;
    assert!(matches!(stream.hear().await, Message::WantListings(_)), "asked again");
    stream.say(NodeSaid::Listings(vec![text("hello")])).await;
    assert!(stream.acknowledged(1).await.is_some());
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_report_of_what_the_edge_does_not_have_is_acknowledged_and_passed_over() {
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    let (mut stream, _) = node.current().await;
    stream.report(report(3, "hello")).await;
    assert!(matches!(stream.hear().await, Message::ReportAck(ack) if ack.sequence == 3));
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_message_that_breaks_a_rule_is_not_taken_and_the_stream_goes_on() {
    use proto::v1::{self, node_message::Message as Said};
    let (fixture, node) = assigned().await;
    let (mut stream, _) = node.current().await;
    let bad = v1::ListingReport { plugin: "No Name".to_owned(), ..Default::default() };
    stream.said.send(v1::NodeMessage { message: Some(Said::Listing(bad)) }).await.unwrap();
    stream.say(NodeSaid::Heartbeat(None)).await;
    assert!(matches!(stream.hear().await, Message::HeartbeatAck(_)));
    fixture.server.stop().await;
}
