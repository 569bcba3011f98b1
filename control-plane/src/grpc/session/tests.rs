use domain::id::PluginName;
use domain::plugin_set::{Head, Plan, PlannedPlugin, Scope};
use proto::convert::Content;

use super::*;
use crate::fleet::testing::{built, signer};
use crate::pki::{Authority, HeadSigner};

/// A stream with its clock, as a node would see it.
struct Stream {
    session: Session,
    now: u64,
    signer: HeadSigner,
    _folder: tempfile::TempDir,
}

fn plan(names: &[&str]) -> Content {
    let planned = |name: &&str| (PluginName::parse(name).unwrap(), Arc::new(PlannedPlugin::default()));
    Content::Plan(Plan { plugins: names.iter().map(planned).collect() })
}

fn edge() -> Scope {
    Scope::parse("edge/eu-1").unwrap()
}

fn node() -> Scope {
    Scope::parse("node/n-1").unwrap()
}

fn at(generation: u64) -> Position {
    Position { epoch: 1, generation }
}

fn set(signer: &HeadSigner, plan_at: u64) -> Set {
    let mut edge_set = EdgeSet::default();
    for part in [Part::Trust, Part::Policy] {
        edge_set.put(Arc::new(built(signer, edge(), at(1), &Content::empty(part), None)));
    }
    edge_set.put(Arc::new(built(signer, edge(), at(plan_at), &plan(&["team"]), None)));
    let grants = built(signer, node(), at(1), &Content::empty(Part::Grants), None);
    Set { edge: edge_set, grants: Some(Arc::new(grants)) }
}

fn stream() -> Stream {
    let folder = tempfile::tempdir().unwrap();
    let (authority, signer) = signer(folder.path());
    let identity = identity(&authority);
    let session = Session::new(identity, set(&signer, 5), 0);
    Stream { session, now: 0, signer, _folder: folder }
}

fn identity(authority: &Authority) -> Identity {
    Identity {
        fleet: Arc::clone(authority.fleet()),
        edge: EdgeName::parse("eu-1").unwrap(),
        node: NodeId::parse("n-1").unwrap(),
        authorities: [authority.certificate().to_vec()].into(),
        server: "server-1".into(),
    }
}

fn hello(held: Vec<(Part, v1::SignedHead)>) -> Input {
    Input::Said(NodeSaid::Hello(Box::new(Hello {
        boot: BootId::parse("b-1").unwrap(),
        agent_version: "0.1.0".into(),
        protocol: 1,
        held,
        versions: Vec::new(),
        bodies: Vec::new(),
        status: Status::default(),
        clock: Timestamp::from_millis(0),
        session: None,
    })))
}

/// What came out, in words.
fn words(outputs: &VecDeque<Output>) -> Vec<String> {
    outputs.iter().map(word).collect()
}

fn word(output: &Output) -> String {
    match output {
        Output::Send(bytes) => match v1::ServerMessage::decode(bytes.clone()).unwrap().message.unwrap() {
            Message::Welcome(welcome) => format!("welcome {:?}", welcome.current),
            Message::Part(update) => {
                let signed = update.head.unwrap();
                let head: Head =
                    v1::HeadStatement::decode(signed.statement.as_slice()).unwrap().try_into().unwrap();
                format!("{} {} +{}", head.part, head.position, update.bodies.len())
            }
            Message::Bodies(bodies) => format!("bodies {}", bodies.bodies.len()),
            Message::WantListings(want) => format!("want {}", want.hashes.len()),
            Message::ReportAck(ack) => format!("report_ack {}", ack.sequence),
            Message::HeartbeatAck(ack) => format!("heartbeat_ack {}", ack.want_status),
            Message::Goodbye(goodbye) => format!("goodbye {}: {}", goodbye.code, goodbye.reason),
            Message::Ping(_) => "ping".to_owned(),
            Message::WantHeld(_) => "want_held".to_owned(),
        },
        Output::Acked(acked) => format!("acked {} {}", acked.part, acked.position),
        Output::Refused(refused) => format!("refused {}", refused.part),
        Output::Want(hashes) => format!("ask for {}", hashes.len()),
        Output::Do(Effect::Admit(_)) => "admit".to_owned(),
        Output::Do(Effect::NoteAgain(_)) => "note again".to_owned(),
        Output::Do(Effect::Reload) => "reload".to_owned(),
        Output::Do(Effect::Rewind(proofs)) => format!("rewind {} {}", proofs[0].part, proofs[0].position),
        Output::Do(Effect::Salvage(held)) => format!("salvage {}", held.position),
        Output::Do(Effect::KeepHeld(shown)) => format!("keep_held {}", shown.trust.versions.len()),
        Output::Do(Effect::Record(boot, report)) => format!("record {boot} {}", report.sequence),
        Output::Do(Effect::StoreTexts(texts)) => format!("store {}", texts.len()),
        Output::Do(Effect::Texts(digests)) => format!("texts {}", digests.len()),
        Output::Do(Effect::NoteStatus(_)) => "note status".to_owned(),
        Output::Kept(counter) => format!("kept {counter}"),
        Output::Close => "close".to_owned(),
    }
}

fn admitted(again: bool) -> Input {
    Input::Admitted { session: "s".into(), epoch: 1, fleet_size: 3, counter: None, again }
}

impl Stream {
    fn take(&mut self, input: Input) -> Vec<String> {
        words(&self.session.handle(self.now, Timestamp::from_millis(7), input))
    }

    fn after(&mut self, millis: u64, input: Input) -> Vec<String> {
        self.now += millis;
        self.take(input)
    }

    fn admitted(&mut self) -> Vec<String> {
        self.take(admitted(false))
    }

    fn open(&mut self, held: Vec<(Part, v1::SignedHead)>) -> Vec<String> {
        assert_eq!(self.take(hello(held)), ["admit"]);
        self.admitted()
    }

    fn ack(&mut self, part: Part) -> Vec<String> {
        let built = self.session.set.get(part).unwrap();
        let acked = Acked { part, position: built.position, digest: built.digest };
        self.take(Input::Said(NodeSaid::Ack(acked)))
    }

    /// A stream that was welcomed and whose node has everything.
    fn current() -> Self {
        let mut stream = stream();
        stream.open(Vec::new());
        for part in Part::ALL {
            stream.ack(part);
        }
        stream
    }

    fn head(&self, part: Part, position: Position, content: &Content) -> (Part, v1::SignedHead) {
        let scope = if part == Part::Grants { node() } else { edge() };
        let digest = proto::convert::PartContent::from(content).manifest.digest();
        let time = Timestamp::from_millis(1_796_056_331_042);
        let fleet = Arc::clone(self.signer.fleet());
        let head = Head { fleet, scope, part, position, digest, issued: time, fresh_until: time };
        (part, self.signer.sign(&head).unwrap())
    }
}

#[test]
fn nothing_is_said_to_a_node_that_does_not_begin_with_hello() {
    let mut stream = stream();
    let said = stream.take(Input::Said(NodeSaid::Heartbeat(None)));
    assert_eq!(said, ["goodbye refused: the first message was no Hello", "close"]);
    assert!(stream.take(hello(Vec::new())).is_empty(), "a closed stream says nothing more");
}

#[test]
fn a_node_that_says_nothing_is_closed_after_ten_seconds() {
    let mut stream = stream();
    assert!(stream.after(9_999, Input::Tick).is_empty());
    assert_eq!(stream.session.deadline(), 10_000);
    assert_eq!(stream.after(1, Input::Tick), ["close"]);
}

#[test]
fn a_second_hello_and_an_older_protocol_are_refused() {
    let mut again = stream();
    again.open(Vec::new());
    assert_eq!(again.take(hello(Vec::new())), ["goodbye refused: a second Hello on one stream", "close"]);
    let mut old = stream();
    let Input::Said(NodeSaid::Hello(mut said)) = hello(Vec::new()) else { unreachable!() };
    said.protocol = 0;
    let answer = old.take(Input::Said(NodeSaid::Hello(said)));
    assert!(answer[0].contains("protocol 0 is older than 1"), "{answer:?}");
}

#[test]
fn a_node_that_holds_nothing_is_sent_every_part_in_order_and_whole() {
    let sent = stream().open(Vec::new());
    assert_eq!(sent, ["welcome []", "trust 1.1 +0", "grants 1.1 +0", "policy 1.1 +1", "plan 1.5 +1"]);
}

#[test]
fn a_node_that_is_current_is_confirmed_and_sent_nothing() {
    let mut stream = stream();
    let held = vec![
        stream.head(Part::Trust, at(1), &Content::empty(Part::Trust)),
        stream.head(Part::Grants, at(1), &Content::empty(Part::Grants)),
        stream.head(Part::Policy, at(1), &Content::Policy(domain::plugin_set::Policy::default())),
        stream.head(Part::Plan, at(5), &plan(&["team"])),
    ];
    let sent = stream.open(held);
    assert_eq!(
        sent,
        ["welcome [1, 4, 3, 2]", "acked trust 1.1", "acked grants 1.1", "acked policy 1.1", "acked plan 1.5"]
    );
}

/// What a node shows in its Hello.
type Holding<'a> = &'a dyn Fn(&Stream) -> (Part, v1::SignedHead);

#[test]
fn an_older_part_another_scopes_and_a_forged_newer_one_are_all_sent_anew() {
    let older = |s: &Stream| s.head(Part::Plan, at(4), &plan(&[]));
    let foreign = |s: &Stream| (Part::Plan, s.head(Part::Grants, at(9), &plan(&[])).1);
    let other_part = |s: &Stream| (Part::Plan, s.head(Part::Trust, at(9), &plan(&[])).1);
    let forged = |s: &Stream| {
        let (part, mut signed) = s.head(Part::Plan, at(9), &plan(&["team"]));
        signed.signature[0] ^= 1;
        (part, signed)
    };
    let forked_but_forged = |s: &Stream| {
        let (part, mut signed) = s.head(Part::Plan, at(5), &plan(&["other"]));
        signed.signature[0] ^= 1;
        (part, signed)
    };
    let rows: [(&str, Holding<'_>); 5] = [
        ("older", &older),
        ("foreign", &foreign),
        ("other part", &other_part),
        ("forged", &forged),
        ("forged fork", &forked_but_forged),
    ];
    for (name, held) in rows {
        let mut stream = stream();
        let held = held(&stream);
        let sent = stream.open(vec![held]);
        assert_eq!(sent.last().unwrap(), "plan 1.5 +1", "{name}: {sent:?}");
    }
}

/// A restored database: nothing goes back, and memory that is only late is no proof.
#[test]
fn a_node_with_a_signed_newer_head_makes_the_server_look_again_before_a_new_epoch_begins() {
    let mut late = stream();
    let newer = late.head(Part::Plan, at(6), &plan(&["team"]));
    assert_eq!(late.open(vec![newer.clone()]), ["reload"]);
    let six = set(&late.signer, 6);
    let opened = late.take(Input::Reloaded(six));
    assert_eq!(opened[0], "welcome [2]", "{opened:?}");

    for (name, held_at, names) in [("newer", 6, ["team"]), ("forked", 5, ["other"])] {
        let mut restored = stream();
        let held = restored.head(Part::Plan, at(held_at), &plan(&names));
        assert_eq!(restored.open(vec![held]), ["reload"], "{name}");
        let still = set(&restored.signer, 5);
        assert_eq!(restored.take(Input::Reloaded(still)), [format!("rewind plan 1.{held_at}")], "{name}");
        let opened = restored.take(Input::Reloaded(epoch(&restored.signer, 2)));
        assert_eq!(opened[0], "welcome []", "{name}: {opened:?}");
        assert_eq!(opened.last().unwrap(), "plan 2.7 +1", "{name}: {opened:?}");
    }
    let mut stuck = stream();
    let newer = stuck.head(Part::Plan, at(6), &plan(&["team"]));
    stuck.open(vec![newer]);
    stuck.take(Input::Reloaded(set(&stuck.signer, 5)));
    let refused = stuck.take(Input::Reloaded(set(&stuck.signer, 5)));
    assert!(refused[0].starts_with("goodbye refused"), "{refused:?}");
}

fn epoch(signer: &HeadSigner, epoch: u64) -> Set {
    let at = Position { epoch, generation: 7 };
    let mut edge_set = EdgeSet::default();
    for part in [Part::Trust, Part::Policy] {
        edge_set.put(Arc::new(built(signer, edge(), at, &Content::empty(part), None)));
    }
    edge_set.put(Arc::new(built(signer, edge(), at, &plan(&["team"]), None)));
    let grants = built(signer, node(), at, &Content::empty(Part::Grants), None);
    Set { edge: edge_set, grants: Some(Arc::new(grants)) }
}

/// Before a node is sent anything in place of what it holds from before the epoch, it shows that.
#[test]
fn what_a_node_holds_from_before_the_epoch_is_read_before_it_is_replaced() {
    let held_trust = |stream: &Stream| {
        let content = Content::empty(Part::Trust);
        let part = built(&stream.signer, edge(), at(9), &content, None);
        let message = v1::ServerMessage::decode(part.message(None)).unwrap().message.unwrap();
        let Message::Part(update) = message else { panic!("{message:?}") };
        update
    };
    let opening = || {
        let mut stream = stream();
        stream.session.set = epoch(&stream.signer, 2);
        let update = held_trust(&stream);
        let opened = stream.open(vec![(Part::Trust, update.head.clone().unwrap())]);
        assert_eq!(opened, ["welcome []", "salvage 1.9"], "nothing is sent yet");
        (stream, update)
    };
    let sent = ["trust 2.7 +0", "grants 2.7 +0", "policy 2.7 +1", "plan 2.7 +1"];

    let (mut known, _) = opening();
    assert_eq!(known.take(Input::Lost(false)), sent);

    let (mut lost, update) = opening();
    assert_eq!(lost.take(Input::Lost(true)), ["want_held"]);
    let newer = epoch(&lost.signer, 2);
    assert!(lost.take(Input::Set(newer)).is_empty(), "it waits");
    assert_eq!(lost.take(Input::Said(NodeSaid::HeldPart(Box::new(update.clone())))), ["keep_held 0"]);
    assert_eq!(lost.take(Input::HeldKept), sent);

    // What was not signed so, and silence, teach nothing.
    let (mut false_one, mut update) = opening();
    false_one.take(Input::Lost(true));
    update.manifest.push(v1::ManifestEntry { name: "x@1.0.0".into(), digest: vec![7; 32] });
    assert_eq!(false_one.take(Input::Said(NodeSaid::HeldPart(Box::new(update)))), sent);
    let (mut silent, _) = opening();
    silent.take(Input::Lost(true));
    assert_eq!(silent.session.deadline(), 3_000);
    assert_eq!(silent.after(3_000, Input::Tick), sent);
}

#[test]
fn of_changes_while_one_is_unacknowledged_only_the_newest_follows() {
    let mut stream = stream();
    stream.open(Vec::new());
    for generation in [6, 7, 8] {
        let newer = set(&stream.signer, generation);
        assert!(stream.take(Input::Set(newer)).is_empty(), "one is outstanding");
    }
    let five = stream.session.slots[&Part::Plan].outstanding.unwrap();
    let acked = Acked { part: Part::Plan, position: five.0, digest: five.1 };
    assert_eq!(stream.take(Input::Said(NodeSaid::Ack(acked))), ["acked plan 1.5", "plan 1.8 +1"]);
    assert!(stream.take(Input::Said(NodeSaid::Ack(acked))).is_empty(), "a late one says nothing");
}

#[test]
fn a_change_brings_only_what_the_generation_before_did_not_have() {
    let mut stream = Stream::current();
    let before = stream.session.set.get(Part::Plan).unwrap().clone();
    let newer = built(&stream.signer, edge(), at(6), &plan(&["team", "extra"]), Some(&before));
    let mut set = stream.session.set.clone();
    set.edge.put(Arc::new(newer));
    assert_eq!(stream.take(Input::Set(set.clone())), ["plan 1.6 +1"]);
    let mut fresh = self::stream();
    fresh.session.set = set;
    assert_eq!(fresh.open(Vec::new()).last().unwrap(), "plan 1.6 +2", "who has nothing is sent everything");
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    let mut stream = Stream::current();
    let acked = Acked { part: Part::Plan, position: at(99), digest: Digest::of(b"x") };
    let answer = stream.take(Input::Said(NodeSaid::Ack(acked)));
    assert!(answer[0].contains("acknowledged but never sent"), "{answer:?}");
}

#[test]
fn what_is_refused_as_a_whole_is_not_sent_again_until_it_changes() {
    let mut stream = stream();
    stream.open(Vec::new());
    let refused = Refused {
        part: Part::Plan,
        position: at(5),
        resource: None,
        code: "forked".into(),
        reason: "r".into(),
    };
    assert_eq!(stream.take(Input::Said(NodeSaid::Nack(refused))), ["refused plan"]);
    let same = stream.session.set.clone();
    assert!(stream.take(Input::Set(same)).is_empty());
    assert_eq!(stream.ack(Part::Plan), ["acked plan 1.5"], "a node that has room now says so");
    let newer = set(&stream.signer, 6);
    assert_eq!(stream.take(Input::Set(newer)), ["plan 1.6 +1"]);
}

fn refused(position: Position, code: &str) -> Input {
    let reason = "r".into();
    let refused = Refused { part: Part::Plan, position, resource: None, code: code.into(), reason };
    Input::Said(NodeSaid::Nack(refused))
}

#[test]
fn a_newer_part_that_waits_for_a_refused_one_is_sent_at_once() {
    let mut stream = stream();
    stream.open(Vec::new());
    let newer = set(&stream.signer, 6);
    assert!(stream.take(Input::Set(newer)).is_empty(), "one is outstanding");
    assert_eq!(stream.take(refused(at(5), "bodies")), ["refused plan", "plan 1.6 +1"]);
}

/// L1 of 30-nodes: a disk that has room again.
#[test]
fn what_a_full_disk_refused_is_sent_again_whole_after_ten_seconds() {
    let mut stream = Stream::current();
    let newer = set(&stream.signer, 6);
    assert_eq!(stream.take(Input::Set(newer)).len(), 1);
    assert_eq!(stream.take(refused(at(6), "disk")), ["refused plan"]);
    assert_eq!(stream.session.deadline(), stream.now + 10_000);
    assert!(stream.after(9_999, Input::Tick).is_empty());
    assert_eq!(stream.after(1, Input::Tick), ["plan 1.6 +1"]);
    assert_eq!(stream.take(refused(at(6), "disk")), ["refused plan"]);
    let latest = set(&stream.signer, 7);
    assert_eq!(stream.take(Input::Set(latest)), ["plan 1.7 +1"], "a newer one does not wait");
    assert!(stream.session.again().is_none());
}

/// L1: the text of an approval may reach the database after the approval did.
#[test]
fn a_part_whose_bodies_were_not_here_is_sent_again_after_ten_seconds() {
    let mut stream = Stream::current();
    let newer = set(&stream.signer, 6);
    assert_eq!(stream.take(Input::Set(newer)).len(), 1);
    assert_eq!(stream.take(refused(at(6), "bodies")), ["refused plan"]);
    assert!(stream.after(9_999, Input::Tick).is_empty());
    assert_eq!(stream.after(1, Input::Tick), ["plan 1.6 +1"]);
    assert_eq!(stream.take(refused(at(6), "digest")), ["refused plan"]);
    assert!(stream.session.again().is_none(), "what is wrong with itself is not");
}

/// A half-open link costs at most 8 s.
#[test]
fn a_push_that_stays_unacknowledged_is_asked_after_and_then_ends_the_stream() {
    let mut stream = stream();
    stream.open(Vec::new());
    assert!(stream.after(2_999, Input::Tick).is_empty());
    assert_eq!(stream.after(1, Input::Tick), ["ping"]);
    assert!(stream.after(4_999, Input::Tick).is_empty());
    assert_eq!(stream.after(1, Input::Tick), ["close"]);
}

#[test]
fn a_node_that_answers_but_is_slow_keeps_its_stream() {
    let mut stream = stream();
    stream.open(Vec::new());
    assert_eq!(stream.after(3_000, Input::Tick), ["ping"]);
    let answer = stream.after(1_000, Input::Said(NodeSaid::Heartbeat(None)));
    assert_eq!(answer, ["heartbeat_ack true"]);
    assert_eq!(stream.after(3_000, Input::Tick), ["ping"], "asked again, not closed");
}

/// L1: whatever the node lost, it is told anew on its next stream.
#[test]
fn a_node_that_answers_but_never_acknowledges_is_made_to_connect_anew() {
    let mut stream = stream();
    stream.open(Vec::new());
    let mut answers = Vec::new();
    for _ in 0..40 {
        answers = stream.after(3_000, Input::Tick);
        if answers == ["close"] {
            break;
        }
        assert_eq!(answers, ["ping"]);
        stream.take(Input::Said(NodeSaid::Heartbeat(None)));
    }
    assert_eq!(answers, ["close"]);
}

#[test]
fn a_node_that_asks_for_bodies_makes_headway() {
    let mut stream = stream();
    stream.open(Vec::new());
    for _ in 0..100 {
        stream.take(Input::Said(NodeSaid::Need(Vec::new())));
        assert_eq!(stream.after(3_000, Input::Tick), ["ping"]);
    }
}

#[test]
fn a_silent_node_that_has_everything_is_asked_after_three_heartbeats() {
    let mut stream = Stream::current();
    assert!(stream.after(44_999, Input::Tick).is_empty());
    assert_eq!(stream.after(1, Input::Tick), ["ping"]);
    assert_eq!(stream.after(5_000, Input::Tick), ["close"]);
}

#[test]
fn a_hello_that_is_to_be_noted_again_is_so_before_anything_that_is_said_later() {
    let mut stream = stream();
    assert_eq!(stream.take(hello(Vec::new())), ["admit"]);
    let said = stream.take(admitted(true));
    assert_eq!(said.first().map(String::as_str), Some("note again"), "{said:?}");
}

#[test]
fn a_status_is_asked_for_until_it_is_noted() {
    let mut stream = Stream::current();
    let known = Some(Status::default().digest());
    assert_eq!(stream.take(Input::Said(NodeSaid::Heartbeat(known))), ["heartbeat_ack false"]);
    let status = Status {
        versions: vec![proto::convert::VersionStatus {
            version: domain::id::PluginVersion::parse("team@1.0.0").unwrap(),
            state: proto::convert::VersionState::Serving,
            reason: "".into(),
            tools: Vec::new(),
        }],
    };
    let new = Some(status.digest());
    assert_eq!(stream.take(Input::Said(NodeSaid::Heartbeat(new))), ["heartbeat_ack true"]);
    assert_eq!(stream.take(Input::Said(NodeSaid::Status(status.clone()))), ["note status"]);
    assert!(stream.take(Input::Said(NodeSaid::Status(status))).is_empty(), "the same is not noted twice");
    assert_eq!(stream.take(Input::Said(NodeSaid::Heartbeat(new))), ["heartbeat_ack false"]);
    stream.take(Input::StatusNoted(false));
    assert_eq!(stream.take(Input::Said(NodeSaid::Heartbeat(new))), ["heartbeat_ack true"]);
}

#[test]
fn a_node_that_reports_without_end_is_recorded_at_a_rate_and_its_newest_word_counts() {
    let mut stream = Stream::current();
    let mut recorded = 0;
    for sequence in 1..=1_000 {
        recorded += stream.take(said(report(sequence))).len();
    }
    assert_eq!(recorded, 200, "as many as a node with many tools has");
    let next = stream.session.deadline();
    assert_eq!(stream.after(next - stream.now, Input::Tick), ["record b-1 1000"]);
}

fn report(sequence: u64) -> Report {
    Report {
        sequence,
        version: domain::id::PluginVersion::parse("team@1.0.0").unwrap(),
        tool: domain::id::ToolId::parse("team").unwrap(),
        connection: "".into(),
        complete: true,
        incomplete_reason: "".into(),
        functions: Vec::new(),
        address_class: "".into(),
        warnings: Vec::new(),
    }
}

fn said(report: Report) -> Input {
    Input::Said(NodeSaid::Report(Box::new(report)))
}

/// S3: what is acknowledged is durable.
#[test]
fn a_report_is_acknowledged_only_once_it_is_recorded() {
    let mut stream = Stream::current();
    assert_eq!(stream.take(said(report(1))), ["record b-1 1"]);
    let same = Arc::clone(stream.session.reports_under_way()[0]);
    assert!(stream.take(Input::Recorded(Arc::clone(&same), Outcome::Failed)).is_empty());
    assert_eq!(stream.session.deadline(), 2_000);
    assert_eq!(stream.after(2_000, Input::Tick), ["record b-1 1"], "tried again, the database was away");
    assert_eq!(stream.take(Input::Recorded(same, Outcome::Done)), ["report_ack 1"]);
    assert!(stream.session.reports_under_way().is_empty());
}

#[test]
fn a_report_waits_for_texts_and_is_recorded_when_they_come() {
    let mut stream = Stream::current();
    stream.take(said(report(1)));
    let same = Arc::clone(stream.session.reports_under_way()[0]);
    let missing = vec![ListingHash::of_canonical("{}")];
    let asked = stream.take(Input::Recorded(Arc::clone(&same), Outcome::MissingTexts(missing.clone())));
    assert_eq!(asked, ["ask for 1"]);
    assert_eq!(stream.take(Input::Said(NodeSaid::Listings(vec!["{}".into()]))), ["store 1"]);
    assert_eq!(stream.take(Input::Stored), ["record b-1 1"]);
    stream.take(Input::Recorded(Arc::clone(&same), Outcome::MissingTexts(missing)));
    assert_eq!(stream.after(2_000, Input::Tick), ["record b-1 1"], "another node may have sent it");
    assert_eq!(stream.take(Input::Recorded(same, Outcome::Done)), ["report_ack 1"]);
}

#[test]
fn a_newer_report_of_the_same_tool_takes_the_place_of_one_under_way() {
    let mut stream = Stream::current();
    stream.take(said(report(1)));
    let first = Arc::clone(stream.session.reports_under_way()[0]);
    assert_eq!(stream.take(said(report(2))), ["record b-1 2"]);
    assert!(stream.take(said(report(2))).is_empty(), "said twice, recorded once");
    let missing = Outcome::MissingTexts(vec![ListingHash::of_canonical("{}")]);
    assert!(stream.take(Input::Recorded(first, missing)).is_empty(), "nobody waits for the older one");
}

#[test]
fn bodies_that_are_needed_come_from_memory_and_texts_from_the_database() {
    let mut stream = Stream::current();
    let known = *stream.session.set.get(Part::Plan).unwrap().content.bodies.keys().next().unwrap();
    let text = Digest::of(b"{}");
    assert_eq!(stream.take(Input::Said(NodeSaid::Need(vec![known]))), ["bodies 1"]);
    assert_eq!(stream.take(Input::Said(NodeSaid::Need(vec![known, text]))), ["texts 1"]);
    assert_eq!(stream.take(Input::Texts(vec![Bytes::from_static(b"{}")])), ["bodies 2"], "one answer");
    assert_eq!(stream.take(Input::Texts(Vec::new())), ["bodies 0"], "nothing is an answer too");
    let big = Bytes::from(vec![b' '; 5 * 1024 * 1024]);
    // The node asks for the rest when these came; sent unasked it would come twice.
    assert_eq!(stream.take(Input::Texts(vec![big.clone(), big])), ["bodies 1"]);
    assert_eq!(
        stream.take(Input::Said(NodeSaid::Need(vec![known; 100]))),
        ["bodies 1"],
        "named a hundred times"
    );
    assert_eq!(stream.take(Input::Said(NodeSaid::Need(vec![text; 100]))), ["texts 1"]);
}

#[test]
fn a_stream_that_the_server_ends_says_why_and_when_to_come_back() {
    let mut superseded = Stream::current();
    let answer = superseded.take(Input::Farewell(Farewell::Superseded));
    assert_eq!(answer, ["goodbye superseded: this node has a newer stream", "close"]);
    let mut drained = stream();
    let answer = drained.take(Input::Farewell(Farewell::Drain { after_ms: 9 }));
    assert_eq!(answer, ["goodbye drain: the server stops", "close"]);
}
