use domain::id::{EdgeName, NodeId, PluginName, PluginVersion, ToolId};
use domain::plugin_set::{
    FunctionTrust, Grants, Head, Kind, Plan, PlannedPlugin, PlannedTool, PlannedVersion, Policy, Position,
    Scope, ToolTrust, Trust, VersionTrust,
};
use domain::time::Timestamp;
use prost::Message as _;
use proto::convert::PartContent;

use super::*;

/// Reads the statement; the word `forged` as signature is not believed.
fn verify(signed: &v1::SignedHead) -> Result<Head, String> {
    if &signed.signature[..] == b"forged" {
        return Err("its signature does not hold".to_owned());
    }
    let statement = v1::HeadStatement::decode(signed.statement.as_slice()).map_err(|e| e.to_string())?;
    Head::try_from(statement).map_err(|e| e.to_string())
}

fn edge() -> Scope {
    Scope::Edge(EdgeName::parse("eu-1").unwrap())
}

fn me() -> Me {
    Me { edge: EdgeName::parse("eu-1").unwrap(), node: NodeId::parse("n-1").unwrap() }
}

fn scope(part: Part) -> Scope {
    if part == Part::Grants { Scope::Node(NodeId::parse("n-1").unwrap()) } else { edge() }
}

fn update(scope: Scope, generation: u64, content: &Content) -> v1::PartUpdate {
    let part = content.part();
    let encoded = PartContent::from(content);
    let head = Head {
        fleet: "f".into(),
        scope,
        part,
        position: Position { epoch: 1, generation },
        digest: encoded.manifest.digest(),
        issued: Timestamp::default(),
        fresh_until: Timestamp::default(),
    };
    let statement = v1::HeadStatement::from(&head).encode_to_vec();
    v1::PartUpdate {
        head: Some(v1::SignedHead { statement, ..v1::SignedHead::default() }),
        manifest: convert::manifest_entries(&encoded.manifest),
        bodies: encoded.bodies.into_values().collect(),
    }
}

fn hash(text: &str) -> ListingHash {
    ListingHash::of_canonical(text)
}

fn trust(text: &str) -> Content {
    let functions = [("hello".into(), FunctionTrust { hash: hash(text), rank: 1 })].into();
    let tool = ToolTrust { snapshot_taken: true, functions, origin: None };
    let version =
        VersionTrust { tools: [(ToolId::parse("team").unwrap(), tool)].into(), ..VersionTrust::default() };
    let versions = [(PluginVersion::parse("team@1.0.0").unwrap(), Arc::new(version))].into();
    Content::Trust(Trust { versions })
}

fn plan(version: &str) -> Content {
    let version = PluginVersion::parse(&format!("team@{version}")).unwrap();
    let planned = PlannedVersion {
        version,
        content_digest: Digest::of(b"content"),
        archive_sha256: Digest::of(b"archive"),
        archive_length: 7,
        tools: [(
            ToolId::parse("team").unwrap(),
            PlannedTool { kind: Kind::Command, url: None, connection: None },
        )]
        .into(),
    };
    let entry = PlannedPlugin { installed: Some(planned), candidate: None };
    Content::Plan(Plan { plugins: [(PluginName::parse("team").unwrap(), Arc::new(entry))].into() })
}

/// A session and what it ordered.
struct Talk {
    session: Session,
    applied: Vec<Content>,
    sent: Vec<NodeSaid>,
    closed: Option<Closed>,
    disk: Result<(), String>,
}

impl Talk {
    fn new(held: Held) -> Self {
        let session = Session::new(me(), Arc::new(verify), held, &Status::default(), 0);
        Self { session, applied: Vec::new(), sent: Vec::new(), closed: None, disk: Ok(()) }
    }

    fn welcomed(held: Held, current: &[Part]) -> Self {
        let mut talk = Self::new(held);
        let current = current.iter().map(|part| v1::Part::from(*part).into()).collect();
        talk.hear(
            Message::Welcome(v1::Welcome { current, heartbeat_ms: 10_000, ..v1::Welcome::default() }),
            0,
        );
        talk
    }

    fn hear(&mut self, message: Message, now_ms: u64) {
        let orders = self.session.message(v1::ServerMessage { message: Some(message) }, now_ms);
        self.obey(orders);
    }

    fn part(&mut self, generation: u64, content: &Content) {
        self.hear(Message::Part(update(scope(content.part()), generation, content)), 0);
    }

    fn bodies(&mut self, texts: &[&str]) {
        let bodies = texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
        self.hear(Message::Bodies(v1::Bodies { bodies }), 0);
    }

    fn obey(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Send(said) => self.sent.push(said),
                Order::Store(storing) => {
                    let after = self.session.stored(*storing, self.disk.clone());
                    self.obey(after);
                }
                Order::Apply(_, content) => self.applied.push(*content),
                Order::Close(closed) => self.closed = Some(closed),
                _ => {}
            }
        }
    }

    fn nack(&self) -> &Refused {
        match self.sent.last() {
            Some(NodeSaid::Nack(refused)) => refused,
            other => panic!("expected a nack, got {other:?}"),
        }
    }

    fn acks(&self) -> Vec<(Part, u64)> {
        let ack = |said: &NodeSaid| match said {
            NodeSaid::Ack(acked) => Some((acked.part, acked.position.generation)),
            _ => None,
        };
        self.sent.iter().filter_map(ack).collect()
    }

    fn confirmed(&self) -> usize {
        self.session.held.confirmed.len()
    }

    fn heartbeats(&self) -> usize {
        self.sent.iter().filter(|said| matches!(said, NodeSaid::Heartbeat(_))).count()
    }

    fn tick(&mut self, now_ms: u64, waiting: bool) {
        let orders = self.session.tick(now_ms, waiting);
        self.obey(orders);
    }
}

// R3.25, R3.26
#[test]
fn the_set_is_whole_only_once_each_part_came_and_was_made_durable() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.part(1, &trust("text"));
    assert_eq!(talk.confirmed(), 0, "its listing's text is missing");
    assert!(matches!(&talk.sent[..], [NodeSaid::Need(digests)] if digests[..] == [hash("text").digest()]));
    talk.bodies(&["text"]);
    assert_eq!(talk.acks(), [(Part::Trust, 1)]);
    talk.part(1, &Content::Grants(Grants::default()));
    talk.part(1, &Content::Policy(Policy::default()));
    assert_eq!(talk.confirmed(), 3);
    talk.part(1, &plan("1.0.0"));
    assert_eq!(talk.confirmed(), 4);
    assert_eq!(talk.applied.len(), 4);
}

// R3.27
#[test]
fn what_the_ledger_has_counts_only_once_the_server_confirms_it() {
    let mut first = Talk::welcomed(Held::default(), &[]);
    first.part(1, &plan("1.0.0"));
    let held = Held { parts: first.session.held.parts, confirmed: BTreeSet::new() };
    assert_eq!(Talk::new(held.clone()).confirmed(), 0);
    let again = Talk::welcomed(held, &[Part::Plan, Part::Trust]);
    assert_eq!(again.session.held.confirmed, BTreeSet::from([Part::Plan]), "trust is not held");
}

#[test]
fn a_part_that_cannot_be_made_durable_is_neither_applied_nor_acknowledged() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.disk = Err("no space left".to_owned());
    talk.part(1, &plan("1.0.0"));
    assert_eq!(&*talk.nack().code, "disk");
    assert!(talk.applied.is_empty() && talk.acks().is_empty() && talk.confirmed() == 0);
}

#[test]
fn a_part_that_could_not_be_made_durable_is_tried_again_by_itself_until_the_disk_takes_it() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.disk = Err("no space left".to_owned());
    talk.part(1, &plan("1.0.0"));
    assert_eq!(talk.session.next_tick_ms(false), 5_000);
    talk.tick(4_999, false);
    assert_eq!(talk.sent.len(), 1);
    talk.tick(5_000, false);
    assert_eq!(&*talk.nack().code, "disk");
    talk.disk = Ok(());
    talk.tick(9_999, false);
    assert!(talk.acks().is_empty());
    talk.tick(10_000, false);
    assert_eq!((talk.acks(), talk.applied.len()), (vec![(Part::Plan, 1)], 1));
    talk.tick(20_000, false);
    assert_eq!(talk.applied.len(), 1);
}

#[test]
fn a_newer_part_takes_the_place_of_one_that_waits_for_the_disk() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.disk = Err("no space left".to_owned());
    talk.part(1, &plan("1.0.0"));
    talk.disk = Ok(());
    talk.part(2, &plan("2.0.0"));
    talk.tick(60_000, false);
    assert_eq!((talk.acks(), talk.applied.as_slice()), (vec![(Part::Plan, 2)], &[plan("2.0.0")][..]));
}

#[test]
fn the_servers_time_is_taken_from_its_welcome_and_from_each_answer_to_a_heartbeat() {
    let mut talk = Talk::new(Held::default());
    let welcome = v1::Welcome { clock_ms: 7, fresh_ms: 9, ..v1::Welcome::default() };
    let ack = v1::HeartbeatAck { clock_ms: 8, fresh_ms: 9, want_status: true };
    for (message, clock) in [(Message::Welcome(welcome), 7), (Message::HeartbeatAck(ack), 8)] {
        let orders = talk.session.message(v1::ServerMessage { message: Some(message) }, 0);
        let heard = orders.iter().find_map(|order| match order {
            Order::Heard { clock, fresh_ms } => Some((clock.as_millis(), *fresh_ms)),
            _ => None,
        });
        assert_eq!(heard, Some((clock, 9)));
    }
    let silent = Message::HeartbeatAck(v1::HeartbeatAck::default());
    assert!(talk.session.message(v1::ServerMessage { message: Some(silent) }, 0).is_empty());
}

#[test]
fn nothing_moves_backwards_and_one_generation_has_one_content() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.part(5, &plan("1.0.0"));
    talk.part(4, &plan("0.9.0"));
    assert_eq!(&*talk.nack().code, "outdated");
    talk.part(5, &plan("6.6.6"));
    assert_eq!(&*talk.nack().code, "forked");
    talk.part(5, &plan("1.0.0"));
    assert_eq!(talk.acks(), [(Part::Plan, 5), (Part::Plan, 5)]);
    assert_eq!(talk.applied, [plan("1.0.0")]);
}

#[test]
fn a_part_of_somebody_else_forged_or_damaged_is_refused_and_what_is_held_stays() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.part(1, &plan("1.0.0"));
    let other = Scope::Edge(EdgeName::parse("us-1").unwrap());
    talk.hear(Message::Part(update(other, 2, &plan("2.0.0"))), 0);
    assert_eq!(&*talk.nack().code, "scope");
    let mut forged = update(edge(), 2, &plan("2.0.0"));
    forged.head.as_mut().unwrap().signature = b"forged".to_vec();
    talk.hear(Message::Part(forged), 0);
    assert_eq!((&*talk.nack().code, talk.nack().position.generation), ("signature", 2));
    let mut damaged = update(edge(), 2, &plan("2.0.0"));
    damaged.manifest[0].digest = Digest::of(b"another").as_bytes().to_vec();
    talk.hear(Message::Part(damaged), 0);
    assert_eq!(&*talk.nack().code, "digest");
    assert_eq!(talk.applied, [plan("1.0.0")]);
    assert_eq!(talk.closed, None);
}

#[test]
fn a_plan_entry_that_cannot_be_read_is_refused_alone_and_does_not_take_away_what_ran() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.part(1, &plan("1.0.0"));
    let rubbish = Bytes::from_static(b"\xff\xff");
    let mut broken = update(edge(), 2, &plan("2.0.0"));
    broken.manifest[0].digest = Digest::of(&rubbish).as_bytes().to_vec();
    let manifest = convert::manifest(&broken.manifest).unwrap();
    let head = Head { digest: manifest.digest(), ..verify(broken.head.as_ref().unwrap()).unwrap() };
    broken.head.as_mut().unwrap().statement = v1::HeadStatement::from(&head).encode_to_vec();
    broken.bodies = vec![rubbish];
    talk.hear(Message::Part(broken), 0);
    let refused: Vec<&Refused> = talk
        .sent
        .iter()
        .filter_map(|said| if let NodeSaid::Nack(n) = said { Some(n) } else { None })
        .collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].resource.as_ref().map(|(name, _)| &**name), Some("team"));
    assert_eq!(talk.acks(), [(Part::Plan, 1), (Part::Plan, 2)]);
    assert_eq!(talk.applied.last(), Some(&plan("1.0.0")));
}

#[test]
fn bodies_of_one_part_do_not_end_the_wait_of_another() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    let mut lean = update(edge(), 1, &plan("1.0.0"));
    let plan_body = lean.bodies.remove(0);
    talk.hear(Message::Part(lean), 0);
    talk.part(1, &trust("text"));
    talk.bodies(&["text"]);
    assert_eq!(talk.acks(), [(Part::Trust, 1)]);
    talk.hear(Message::Bodies(v1::Bodies { bodies: vec![plan_body] }), 0);
    assert_eq!(talk.acks(), [(Part::Trust, 1), (Part::Plan, 1)]);
}

#[test]
fn bodies_that_do_not_come_are_not_asked_for_for_ever() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.part(1, &trust("text"));
    talk.bodies(&["something else"]);
    assert_eq!(&*talk.nack().code, "bodies");
}

#[test]
fn a_newer_part_takes_the_place_of_one_that_is_not_whole_and_keeps_its_texts() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.part(1, &trust("one"));
    talk.part(2, &trust("two"));
    talk.bodies(&["two"]);
    assert_eq!(talk.acks(), [(Part::Trust, 2)]);
    talk.part(3, &trust("two"));
    assert_eq!(talk.acks(), [(Part::Trust, 2), (Part::Trust, 3)], "the text is here already");
}

/// L1: the server waits for the acknowledgement of the newer one, and sends nothing before.
#[test]
fn an_older_part_that_is_said_again_does_not_end_the_wait_for_a_newer_ones_bodies() {
    for said_again in ["one", "two"] {
        let mut talk = Talk::welcomed(Held::default(), &[]);
        talk.part(1, &trust("one"));
        talk.bodies(&["one"]);
        talk.part(3, &trust("three"));
        talk.part(if said_again == "one" { 1 } else { 2 }, &trust(said_again));
        talk.bodies(&["three"]);
        assert_eq!(talk.acks().last(), Some(&(Part::Trust, 3)), "{said_again} was said again");
    }
}

#[test]
fn an_older_part_that_is_said_again_does_not_take_the_place_of_a_newer_one_that_waits_for_the_disk() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.part(1, &plan("1.0.0"));
    talk.disk = Err("no space left on device".to_owned());
    talk.part(3, &plan("3.0.0"));
    talk.part(2, &plan("2.0.0"));
    assert_eq!(&*talk.nack().code, "outdated");
    talk.disk = Ok(());
    talk.tick(5_000, false);
    assert_eq!(talk.acks(), [(Part::Plan, 1), (Part::Plan, 3)]);
}

#[test]
fn what_is_held_already_does_not_take_the_place_of_a_newer_part_that_is_not_whole() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.part(1, &trust("one"));
    talk.bodies(&["one"]);
    talk.part(2, &trust("two"));
    talk.part(1, &trust("one"));
    talk.bodies(&["two"]);
    assert_eq!(talk.acks(), [(Part::Trust, 1), (Part::Trust, 1), (Part::Trust, 2)]);
}

#[test]
fn while_an_approval_may_come_a_silent_link_is_given_up_after_eight_seconds() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.tick(2_999, true);
    assert_eq!(talk.heartbeats(), 0);
    talk.tick(3_000, true);
    assert_eq!(talk.heartbeats(), 1);
    assert_eq!(talk.session.next_tick_ms(true), 8_000);
    talk.tick(7_999, true);
    assert_eq!(talk.closed, None);
    talk.tick(8_000, true);
    assert_eq!(talk.closed, Some(Closed::Silent));
}

#[test]
fn a_silent_link_that_nobody_waits_for_has_twenty_seconds_and_an_answer_keeps_it() {
    let mut talk = Talk::new(Held::default());
    talk.tick(19_999, false);
    assert_eq!(talk.heartbeats(), 0);
    talk.tick(20_000, false);
    assert_eq!(talk.heartbeats(), 1);
    talk.hear(Message::Welcome(v1::Welcome::default()), 24_000);
    talk.tick(25_000, false);
    assert_eq!(talk.closed, None);
}

#[test]
fn a_ping_is_answered_at_once_and_heartbeats_name_the_status_that_was_sent() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.hear(Message::Ping(v1::Ping {}), 10);
    assert!(
        matches!(talk.sent.last(), Some(NodeSaid::Heartbeat(Some(digest))) if *digest == Status::default().digest())
    );
    talk.tick(10_009, false);
    assert_eq!(talk.heartbeats(), 1);
    talk.tick(10_010, false);
    assert_eq!(talk.heartbeats(), 2);
}

#[test]
fn three_heartbeats_fit_into_an_edges_freshness() {
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.session.fresh_for(6_000);
    assert_eq!(talk.session.next_tick_ms(false), 2_000);
    talk.tick(2_000, false);
    assert_eq!((talk.heartbeats(), talk.session.next_tick_ms(false)), (1, 4_000));
    talk.session.fresh_for(1);
    assert_eq!(talk.session.next_tick_ms(false), 2_500);
    talk.session.fresh_for(u64::MAX);
    talk.tick(2_500, false);
    assert_eq!(talk.session.next_tick_ms(false), 12_500);
}

#[test]
fn a_server_that_does_not_keep_to_the_protocol_ends_the_session() {
    let mut talk = Talk::new(Held::default());
    talk.part(1, &plan("1.0.0"));
    assert!(matches!(talk.closed, Some(Closed::Broken(_))));
    let mut talk = Talk::welcomed(Held::default(), &[]);
    talk.hear(Message::Welcome(v1::Welcome::default()), 0);
    assert!(matches!(talk.closed, Some(Closed::Broken(_))));
    let mut talk = Talk::welcomed(Held::default(), &[]);
    assert!(talk.session.message(v1::ServerMessage { message: None }, 0).is_empty(), "of a later release");
}
