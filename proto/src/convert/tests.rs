use std::sync::Arc;

use domain::block::{Block, Target};
use domain::digest::{Digest, ListingHash};
use domain::id::{PluginName, PluginVersion, ToolId};
use domain::plugin_set::{
    FunctionTrust, Grant, GrantUse, Head, Kind, OriginTrust, Part, PlannedPlugin, PlannedTool,
    PlannedVersion, Policy, Position, Scope, ToolLimits, ToolTrust, VersionTrust,
};
use domain::time::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::v1;

/// Text of the error and of everything under it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

/// A field's name, and what makes it wrong.
type Row<'r, W> = (&'r str, fn(&mut W));

/// Changes one field of a good message and expects a fault that names it.
fn names<W, T>(good: &W, rows: &[Row<'_, W>])
where
    W: Clone,
    T: TryFrom<W, Error = Error> + std::fmt::Debug,
{
    T::try_from(good.clone()).expect("the good message is taken");
    for (field, spoil) in rows {
        let mut bad = good.clone();
        spoil(&mut bad);
        let error = T::try_from(bad).expect_err(field);
        assert!(chain(&error).contains(field), "{} does not name {field}", chain(&error));
    }
}

fn hash32() -> Vec<u8> {
    Digest::of(b"x").as_bytes().to_vec()
}

fn trust_entry() -> v1::TrustEntry {
    v1::TrustEntry {
        plugin: "team".into(),
        version: "1.0.0".into(),
        tools: vec![v1::ToolTrust {
            tool: "team".into(),
            snapshot_taken: true,
            functions: vec![v1::FunctionTrust { name: "hello".into(), hash: hash32(), rank: 1 }],
            origin: Some(v1::OriginTrust {
                state: v1::origin_trust::State::Pinned.into(),
                origin: "https://a.example".into(),
                earlier: vec![],
                address_class: String::new(),
            }),
        }],
        blocks: vec![v1::Block {
            id: "b1".into(),
            target: "tool team".into(),
            fleet_wide: true,
            reason: "it leaks".into(),
            blocked_by: "ada".into(),
            blocked_at_ms: 7,
        }],
    }
}

#[test]
fn each_bad_field_of_trust_is_named() {
    names::<_, (PluginVersion, VersionTrust)>(
        &trust_entry(),
        &[
            ("TrustEntry.plugin", |e| e.plugin = "Team".into()),
            ("TrustEntry.version", |e| e.version = "1".into()),
            ("ToolTrust.tool", |e| e.tools[0].tool = String::new()),
            ("ToolTrust.tool", |e| e.tools.push(e.tools[0].clone())),
            ("FunctionTrust.name", |e| e.tools[0].functions[0].name = String::new()),
            ("FunctionTrust.name", |e| e.tools[0].functions[0].name = "n".repeat(513)),
            ("FunctionTrust.name", |e| {
                let again = e.tools[0].functions[0].clone();
                e.tools[0].functions.push(again);
            }),
            ("FunctionTrust.hash", |e| e.tools[0].functions[0].hash = vec![1; 31]),
            ("ToolTrust.functions", |e| {
                e.tools[0].functions = vec![v1::FunctionTrust::default(); FUNCTIONS_MAX + 1];
            }),
            ("Block.id", |e| e.blocks[0].id = String::new()),
            ("Block.id", |e| e.blocks.push(e.blocks[0].clone())),
            ("Block.target", |e| e.blocks[0].target = "team".into()),
            ("Block.reason", |e| e.blocks[0].reason = "n".repeat(513)),
            ("Block.blocked_by", |e| e.blocks[0].blocked_by = String::new()),
            ("TrustEntry.blocks", |e| e.blocks = vec![v1::Block::default(); BLOCKS_MAX + 1]),
            ("OriginTrust.state", |e| e.tools[0].origin.as_mut().unwrap().state = 0),
            ("OriginTrust.state", |e| e.tools[0].origin.as_mut().unwrap().state = 99),
            ("OriginTrust.origin", |e| e.tools[0].origin.as_mut().unwrap().origin = String::new()),
        ],
    );
}

#[test]
fn each_bad_field_of_plan_is_named() {
    let version = v1::PlannedVersion {
        version: "1.0.0".into(),
        content_digest: hash32(),
        archive_sha256: hash32(),
        archive_length: 7,
        tools: vec![v1::PlannedTool {
            tool: "team".into(),
            kind: "command".into(),
            url: String::new(),
            connection: None,
        }],
    };
    let entry = v1::PlanEntry {
        plugin: "team".into(),
        installed: Some(version.clone()),
        candidate: Some(version),
        candidate_source: "rollout/1".into(),
    };
    names::<_, (PluginName, PlannedPlugin)>(
        &entry,
        &[
            ("PlanEntry.plugin", |e| e.plugin = "te am".into()),
            ("PlanEntry.candidate_source", |e| e.candidate_source = String::new()),
            ("PlannedVersion.version", |e| e.installed.as_mut().unwrap().version = "one".into()),
            ("PlannedVersion.content_digest", |e| e.installed.as_mut().unwrap().content_digest = vec![]),
            ("PlannedVersion.archive_sha256", |e| e.candidate.as_mut().unwrap().archive_sha256 = vec![0; 33]),
            ("PlannedTool.kind", |e| e.installed.as_mut().unwrap().tools[0].kind = "wasm".into()),
            ("PlannedTool.url", |e| e.installed.as_mut().unwrap().tools[0].url = "u".repeat(9_000)),
            ("PlannedTool.tool", |e| {
                let tools = &mut e.installed.as_mut().unwrap().tools;
                tools.push(tools[0].clone());
            }),
        ],
    );
}

#[test]
fn each_bad_field_of_a_grant_and_of_a_head_is_named() {
    let grant = v1::GrantEntry {
        plugin: "team".into(),
        source: "r/1".into(),
        version: "1.0.0".into(),
        r#use: "serve".into(),
    };
    names::<_, (PluginName, Grant)>(
        &grant,
        &[
            ("GrantEntry.plugin", |e| e.plugin = String::new()),
            ("GrantEntry.version", |e| e.version = "v1".into()),
            ("GrantEntry.source", |e| e.source = String::new()),
            ("GrantEntry.use", |e| e.r#use = "both".into()),
        ],
    );
    names::<_, Head>(
        &head_statement(),
        &[
            ("HeadStatement.fleet", |e| e.fleet = String::new()),
            ("HeadStatement.scope", |e| e.scope = "edge".into()),
            ("HeadStatement.scope", |e| e.scope = "fleet/x".into()),
            ("HeadStatement.part", |e| e.part = 0),
            ("HeadStatement.part", |e| e.part = 17),
            ("HeadStatement.digest", |e| e.digest = vec![0; 5]),
        ],
    );
}

fn head_statement() -> v1::HeadStatement {
    v1::HeadStatement {
        fleet: "f1".into(),
        epoch: 1,
        scope: "edge/eu-1".into(),
        part: v1::Part::Trust.into(),
        generation: 9,
        digest: hash32(),
        issued_ms: 5,
        fresh_until_ms: 6,
    }
}

fn listing_report() -> v1::ListingReport {
    v1::ListingReport {
        sequence: 4,
        plugin: "team".into(),
        version: "1.0.0".into(),
        tool: "team".into(),
        connection: String::new(),
        complete: true,
        incomplete_reason: String::new(),
        functions: vec![
            v1::ListedFunction { name: "hello".into(), hash: hash32(), ..Default::default() },
            v1::ListedFunction { name: "bad name".into(), left_out: "name".into(), ..Default::default() },
        ],
        address_class: String::new(),
        warnings: vec![],
    }
}

#[test]
fn each_bad_field_of_a_listing_report_is_named() {
    names::<_, Report>(
        &listing_report(),
        &[
            ("ListingReport.plugin", |e| e.plugin = String::new()),
            ("ListingReport.version", |e| e.version = "x".into()),
            ("ListingReport.tool", |e| e.tool = "a b".into()),
            ("ListingReport.connection", |e| e.connection = "c".repeat(513)),
            ("ListingReport.address_class", |e| e.address_class = "outer".into()),
            ("ListingReport.functions", |e| e.functions = vec![e.functions[0].clone(); FUNCTIONS_MAX + 1]),
            ("ListedFunction.name", |e| e.functions[0].name = "n".repeat(513)),
            ("ListedFunction.name", |e| e.functions.push(e.functions[0].clone())),
            ("ListedFunction.name", |e| e.functions[1].name = "hello".into()),
            ("ListedFunction.hash", |e| e.functions[0].hash = vec![1, 2]),
            ("ListedFunction.hash", |e| e.functions[0].hash = vec![]),
            ("ListedFunction.left_out", |e| e.functions[0].left_out = "name".into()),
            ("ListedFunction.left_out", |e| e.functions[1].left_out = "No Code".into()),
        ],
    );
}

#[test]
fn long_texts_of_a_report_are_cut_on_whole_characters() {
    let mut wire = listing_report();
    wire.incomplete_reason = "é".repeat(600);
    wire.functions[1].left_out_reason = format!("a{}", "é".repeat(600));
    wire.warnings = vec!["w".repeat(2_000)];
    let report = Report::try_from(wire).unwrap();
    assert_eq!(report.incomplete_reason.len(), 1_000);
    assert_eq!(report.warnings[0].len(), 1_000);
    let Seen::LeftOut { reason, .. } = &report.functions[1].seen else { panic!("left out") };
    assert_eq!(reason.len(), 999);
}

/// A tool's server may list anything, and its node must still be able to report it.
#[test]
fn a_report_of_endless_names_is_cut_on_the_way_out_and_taken() {
    let left_out = |name: String| ReportedFunction {
        name: name.into(),
        seen: Seen::LeftOut { code: "name".into(), reason: "r".repeat(5_000).into() },
        not_shown: None,
    };
    let mut report = Report::try_from(listing_report()).unwrap();
    report.functions.push(left_out("x".repeat(4_000)));
    report.functions.push(left_out(format!("{}y", "x".repeat(3_999))));
    let read = Report::try_from(v1::ListingReport::from(&report)).unwrap();
    assert_eq!(read.functions[2].name.len(), NAME_MAX);
    assert_eq!(read.functions.len(), 3, "two names that were cut to the same are one");
}

#[test]
fn each_bad_field_of_what_a_node_says_is_named() {
    use v1::node_message::Message;
    let said = |message| NodeSaid::try_from(v1::NodeMessage { message: Some(message) });
    let hello = || v1::Hello { boot: "b1".into(), protocol: 1, ..Default::default() };
    let held = v1::Held { part: 1, head: Some(v1::SignedHead::default()) };
    let ack = v1::Ack { part: 1, epoch: 1, generation: 1, digest: hash32() };
    let nack = v1::Nack {
        part: 2,
        resource: "team".into(),
        digest: hash32(),
        code: "plan_mismatch".into(),
        ..Default::default()
    };
    assert!(said(Message::Hello(hello())).is_ok() && said(Message::Ack(ack.clone())).is_ok());
    let proof = |counter, challenge| {
        Some(v1::SessionProof { counter: vec![0; counter], challenge: vec![0; challenge] })
    };
    let status = |state: &str, tool: &str| {
        Message::Status(v1::NodeStatus {
            versions: vec![v1::VersionStatus {
                plugin: "team".into(),
                version: "1.0.0".into(),
                state: state.into(),
                reason: String::new(),
                tools: vec![v1::ToolStatus {
                    tool: "t".into(),
                    state: tool.into(),
                    ..v1::ToolStatus::default()
                }],
            }],
        })
    };
    assert!(said(status("serving", "running")).is_ok());
    let rows = [
        ("Hello.boot", Message::Hello(v1::Hello { boot: "B".into(), ..hello() })),
        ("Held.part", Message::Hello(v1::Hello { held: vec![held.clone(), held.clone()], ..hello() })),
        ("Held.part", Message::Hello(v1::Hello { held: vec![v1::Held { part: 8, ..held }], ..hello() })),
        ("Held.head", Message::Hello(v1::Hello { held: vec![v1::Held { part: 1, head: None }], ..hello() })),
        ("Hello.versions", Message::Hello(v1::Hello { versions: vec!["team".into()], ..hello() })),
        ("Hello.bodies", Message::Hello(v1::Hello { bodies: vec![vec![0; 32]; 1_001], ..hello() })),
        ("SessionProof.counter", Message::Hello(v1::Hello { session: proof(129, 0), ..hello() })),
        ("SessionProof.challenge", Message::Hello(v1::Hello { session: proof(0, 129), ..hello() })),
        ("Ack.part", Message::Ack(v1::Ack { part: 0, ..ack.clone() })),
        ("Ack.digest", Message::Ack(v1::Ack { digest: vec![], ..ack })),
        ("Nack.code", Message::Nack(v1::Nack { code: String::new(), ..nack.clone() })),
        ("Nack.digest", Message::Nack(v1::Nack { digest: vec![], ..nack })),
        ("Need.digests", Message::Need(v1::Need { digests: vec![vec![1]] })),
        ("Heartbeat.status_digest", Message::Heartbeat(v1::Heartbeat { status_digest: vec![1] })),
        ("VersionStatus.state", status("dead", "running")),
        ("ToolStatus.state", status("serving", "dead")),
    ];
    for (field, message) in rows {
        let error = said(message).expect_err(field);
        assert!(chain(&error).contains(field), "{} does not name {field}", chain(&error));
    }
    let empty = NodeSaid::try_from(v1::NodeMessage { message: None }).unwrap_err();
    assert!(chain(&empty).contains("NodeMessage.message"));
}

#[test]
fn a_manifest_with_a_name_twice_or_a_bad_digest_is_refused() {
    let entry = |name: &str, digest: Vec<u8>| v1::ManifestEntry { name: name.into(), digest };
    let twice = manifest(&[entry("a", hash32()), entry("a", hash32())]).unwrap_err();
    assert!(chain(&twice).contains("ManifestEntry.name: `a` is there twice"), "{}", chain(&twice));
    assert!(chain(&manifest(&[entry("a", vec![9])]).unwrap_err()).contains("ManifestEntry.digest"));
    let many = vec![entry("a", hash32()); 10_001];
    assert!(chain(&manifest(&many).unwrap_err()).contains("10001 of at most 10000"));
}

#[test]
fn of_a_part_with_one_bad_resource_the_others_are_read() {
    let plugin = |name: &str| PluginName::parse(name).unwrap();
    let content = Content::Plan(domain::plugin_set::Plan {
        plugins: ["a", "b", "c"].map(|name| (plugin(name), Arc::default())).into(),
    });
    let mut part = PartContent::from(&content);
    let (_, other, digest) = encode_resource(&Resource::Plan(plugin("x"), Arc::default()));
    part.manifest.0.insert("a".into(), digest);
    part.bodies.insert(digest, other);
    let bad = Digest::of(b"\xff\xff");
    part.manifest.0.insert("b".into(), bad);
    part.bodies.insert(bad, b"\xff\xff".as_slice().into());
    part.manifest.0.insert("d".into(), Digest::of(b"absent"));
    let (read, rejected) = part.read(Part::Plan);
    let Content::Plan(plan) = read else { panic!("a plan") };
    assert_eq!(plan.plugins.keys().map(PluginName::as_str).collect::<Vec<_>>(), ["c"]);
    let said: Vec<String> = rejected.iter().map(|r| chain(&r.error)).collect();
    assert!(said[0].contains("`a` of plan: it calls itself `x`"), "{said:?}");
    assert!(said[1].contains("decode PlanEntry"), "{said:?}");
    assert!(said[2].contains("is missing"), "{said:?}");
    assert_eq!(part.missing(), [Digest::of(b"absent")]);
}

#[test]
fn a_part_without_resources_reads_as_its_default() {
    for part in Part::ALL {
        let (content, rejected) = PartContent::default().read(part);
        assert!(rejected.is_empty());
        assert_eq!(content, Content::empty(part));
        assert_eq!(content.part(), part);
    }
}

/// The digest is what nodes compare: other bytes for the same content would be a fork.
#[test]
fn the_encodings_of_this_protocol_stay_what_they_are() {
    let entry = v1::TrustEntry { blocks: vec![], ..trust_entry() };
    let (version, trust): (PluginVersion, VersionTrust) = entry.try_into().unwrap();
    let rows = [
        encode_resource(&Resource::Trust(version, Arc::new(trust))),
        encode_resource(&Resource::Policy(Policy::default())),
        encode_resource(&Resource::Plan(PluginName::parse("team").unwrap(), Arc::default())),
    ];
    let digests: Vec<String> = rows.iter().map(|(name, _, digest)| format!("{name} {digest}")).collect();
    assert_eq!(
        digests,
        [
            "team@1.0.0 47e8e82d2a46d1c9c58537699ce6f6d0186c4634c408727eff87bccb8c174bc5",
            "policy e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "team fe8779634beced8710565bb1cdb312872bf322ca5f8c9c906a41cde22ecb2ff9",
        ]
    );
}

prop_compose! {
    fn any_digest()(bytes in any::<[u8; 32]>()) -> Digest { Digest::from_bytes(bytes) }
}
prop_compose! {
    fn any_tool()(text in "[a-zA-Z][a-zA-Z0-9_.-]{0,20}") -> ToolId { ToolId::parse(&text).unwrap() }
}
prop_compose! {
    fn any_plugin()(text in "[a-z][a-z0-9-]{0,20}") -> PluginName { PluginName::parse(&text).unwrap() }
}
prop_compose! {
    fn any_version()(plugin in any_plugin(), a in 0u64..99, b in 0u64..99, pre in "(-rc\\.[1-9])?(\\+b[1-9])?")
        -> PluginVersion {
        PluginVersion { plugin, version: semver::Version::parse(&format!("{a}.{b}.0{pre}")).unwrap() }
    }
}
fn any_text() -> impl Strategy<Value = Arc<str>> {
    "[ -~é\u{200b}]{1,40}".prop_map(Into::into)
}
fn any_origin() -> impl Strategy<Value = OriginTrust> {
    prop_oneof![
        (any_text(), option::of(any_text()))
            .prop_map(|(origin, address_class)| OriginTrust::Pinned { origin, address_class }),
        (any_text(), vec(any_text(), 0..3))
            .prop_map(|(origin, earlier)| OriginTrust::Moved { origin, earlier }),
        any_text().prop_map(|origin| OriginTrust::New { origin }),
        Just(OriginTrust::Connection),
    ]
}
prop_compose! {
    fn any_tool_trust()(
        snapshot_taken in any::<bool>(),
        functions in btree_map(any_text(), (any_digest(), any::<u64>()), 0..4),
        origin in option::of(any_origin()),
    ) -> ToolTrust {
        let trust = |(digest, rank)| FunctionTrust { hash: ListingHash::from_digest(digest), rank };
        let functions = functions.into_iter().map(|(name, entry)| (name, trust(entry))).collect();
        ToolTrust { snapshot_taken, functions, origin }
    }
}
prop_compose! {
    fn any_planned()(
        a in 0u64..9,
        content_digest in any_digest(),
        archive_sha256 in any_digest(),
        archive_length in any::<u64>(),
        tools in btree_map(any_tool(), (0usize..5, option::of(any_text())), 0..3),
    ) -> PlannedVersion {
        let tools = tools.into_iter().map(|(id, (kind, url))| (id, PlannedTool { kind: Kind::ALL[kind], url, connection: None }));
        let version = PluginVersion::parse(&format!("x@{a}.0.1")).unwrap();
        PlannedVersion { version, content_digest, archive_sha256, archive_length, tools: tools.collect() }
    }
}

fn round_trip(resource: &Resource) {
    let (name, bytes, digest) = encode_resource(resource);
    let read = decode_resource(part_of(resource), &name, &bytes).unwrap();
    assert_eq!(&read, resource);
    assert_eq!(encode_resource(&read), (name, bytes, digest));
}

fn part_of(resource: &Resource) -> Part {
    match resource {
        Resource::Trust(..) => Part::Trust,
        Resource::Plan(..) => Part::Plan,
        Resource::Policy(_) => Part::Policy,
        Resource::Grant(..) => Part::Grants,
    }
}

fn any_block() -> impl Strategy<Value = Block> {
    let target = prop_oneof![
        Just("function team.hello"),
        Just("tool team"),
        Just("plugin team"),
        Just("plugin team@1.0.0")
    ];
    (target, any::<bool>(), ".{0,20}", "[a-z]{1,9}", any::<i64>()).prop_map(
        |(target, fleet, reason, by, at)| Block {
            target: Target::parse(target).unwrap(),
            is_fleet_wide: fleet,
            reason: reason.into(),
            by: by.into(),
            at: Timestamp::from_millis(at),
        },
    )
}

proptest! {
    #[test]
    fn trust_is_read_back_as_it_was_written(
        version in any_version(),
        tools in btree_map(any_tool(), any_tool_trust(), 0..4),
        blocks in btree_map("[a-z0-9]{1,8}".prop_map(Arc::from), any_block(), 0..3),
    ) {
        round_trip(&Resource::Trust(version, Arc::new(VersionTrust { tools, blocks })));
    }

    #[test]
    fn a_plan_is_read_back_as_it_was_written(
        plugin in any_plugin(),
        installed in option::of(any_planned()),
        candidate in option::of((any_text(), any_planned())),
    ) {
        let own = |mut planned: PlannedVersion| { planned.version.plugin = plugin.clone(); planned };
        let planned = PlannedPlugin { installed: installed.map(own), candidate: candidate.map(|(s, c)| (s, own(c))) };
        round_trip(&Resource::Plan(plugin.clone(), Arc::new(planned)));
    }

    #[test]
    fn policy_and_grants_are_read_back_as_they_were_written(
        command in 1u32.., url in 1u32.., age in option::of(1u32..), kinds in vec(0usize..5, 0..5), private in any::<bool>(),
        fresh in 1u64.., strict in any::<bool>(), lease in option::of(1u64..), limits in (1u64.., 1u64.., 1u64..),
        version in any_version(), source in any_text(), gate in any::<bool>(),
    ) {
        round_trip(&Resource::Policy(Policy {
            command_listing_interval_ms: command.into(),
            url_listing_interval_ms: url.into(),
            listing_age_max_ms: age.map(Into::into),
            forbidden_kinds: kinds.into_iter().map(|kind| Kind::ALL[kind]).collect(),
            allow_private_addresses: private,
            fresh_for_ms: fresh,
            strict,
            offline_lease_ms: lease,
            tool_limits: ToolLimits { memory: limits.0, files: limits.1, processes: limits.2 },
        }));
        let usage = if gate { GrantUse::Gate } else { GrantUse::Serve };
        round_trip(&Resource::Grant(version.plugin.clone(), Grant { source, version, usage }));
    }

    #[test]
    fn a_head_is_read_back_as_it_was_written(
        epoch in any::<u64>(), generation in any::<u64>(), part in 0usize..4, digest in any_digest(),
        issued in any::<i64>(), fresh in any::<i64>(), node in any::<bool>(),
    ) {
        let scope = Scope::parse(if node { "node/n-1" } else { "edge/e-1" }).unwrap();
        let head = Head {
            fleet: "f".into(), scope, part: Part::ALL[part], position: Position { epoch, generation }, digest,
            issued: Timestamp::from_millis(issued), fresh_until: Timestamp::from_millis(fresh),
        };
        let bytes = crate::head::statement(&head);
        prop_assert_eq!(Head::try_from(v1::HeadStatement::decode(bytes.as_slice()).unwrap()).unwrap(), head);
    }

    #[test]
    fn a_report_is_read_back_as_it_was_written(
        sequence in any::<u64>(), version in any_version(), tool in any_tool(), complete in any::<bool>(),
        functions in btree_map(any_text(), (option::of(any_digest()), option::of(any_text())), 0..5),
        warnings in vec(any_text(), 0..3), reason in any_text(),
    ) {
        let functions = functions.into_iter().map(|(name, (hash, not_shown))| {
            let seen = hash.map_or_else(
                || Seen::LeftOut { code: "twice".into(), reason: reason.clone() },
                |digest| Seen::Hash(ListingHash::from_digest(digest)),
            );
            ReportedFunction { name, seen, not_shown }
        });
        let report = Report {
            sequence, version, tool, connection: "".into(), complete, incomplete_reason: reason.clone(),
            functions: functions.collect(), address_class: "private".into(), warnings,
        };
        let said = NodeSaid::Report(Box::new(report));
        let bytes = v1::NodeMessage::from(&said).encode_to_vec();
        prop_assert_eq!(NodeSaid::try_from(v1::NodeMessage::decode(bytes.as_slice()).unwrap()).unwrap(), said);
    }

    #[test]
    fn what_a_node_says_is_read_back_as_it_was_written(
        versions in vec(any_version(), 0..3), digests in vec(any_digest(), 0..4), generation in any::<u64>(), clock in any::<i64>(),
        states in vec((0usize..5, 0usize..5, any_tool()), 0..3), reason in any_text(),
    ) {
        let status = Status { versions: versions.iter().zip(&states).map(|(version, (v, t, tool))| VersionStatus {
            version: version.clone(), state: VersionState::ALL[*v], reason: reason.clone(),
            tools: vec![ToolStatus { tool: tool.clone(), state: ToolState::ALL[*t], reason: reason.clone(), confined: reason.clone() }],
        }).collect() };
        let position = Position { epoch: 1, generation };
        let digest = Digest::of(b"m");
        let hello = Hello {
            boot: domain::id::BootId::parse("b-1").unwrap(), agent_version: "0.1.0".into(), protocol: 1,
            held: vec![(Part::Plan, v1::SignedHead { statement: vec![1], signature: vec![2], signer: vec![3] })],
            versions, bodies: digests.clone(), status: status.clone(), clock: Timestamp::from_millis(clock),
            session: Some(SessionProof { counter: vec![1, 2], challenge: vec![3] }),
        };
        let rows = [
            NodeSaid::Hello(Box::new(hello)),
            NodeSaid::Ack(Acked { part: Part::Trust, position, digest }),
            NodeSaid::Nack(Refused { part: Part::Plan, position, resource: Some(("team".into(), digest)), code: "a_b".into(), reason: reason.clone() }),
            NodeSaid::Nack(Refused { part: Part::Plan, position, resource: None, code: "forked".into(), reason }),
            NodeSaid::Need(digests),
            NodeSaid::Listings(vec!["{}".into()]),
            NodeSaid::Heartbeat(Some(status.digest())),
            NodeSaid::Heartbeat(None),
            NodeSaid::Kept(generation),
            NodeSaid::Status(status),
        ];
        for said in rows {
            let bytes = v1::NodeMessage::from(&said).encode_to_vec();
            prop_assert_eq!(NodeSaid::try_from(v1::NodeMessage::decode(bytes.as_slice()).unwrap()).unwrap(), said);
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..200)) {
        for part in Part::ALL {
            let _ = decode_resource(part, "team", &bytes);
        }
        if let Ok(wire) = v1::NodeMessage::decode(bytes.as_slice()) {
            let _ = NodeSaid::try_from(wire);
        }
    }
}
