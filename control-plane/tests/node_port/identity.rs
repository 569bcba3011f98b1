//! Who may do what on the node port: certificates that are renewed, nodes that were taken out, copies.

use control_plane::operation::expel::{ban, evict};
use control_plane::operation::find_bundle::node_record;
use control_plane::operation::keep_session::keep_session;
use control_plane::operation::quarantine::{quarantine, sessions};
use control_plane::pki::{Authority, SigningRequest};
use domain::digest::Digest;
use domain::id::{EdgeName, NodeId};
use domain::standing::Standing;
use proto::convert::{NodeSaid, SessionProof, counter_in};
use proto::identity::{NodeIdentity, validity};
use proto::v1::enroll_client::EnrollClient;
use proto::v1::identity_client::IdentityClient;
use proto::v1::server_message::Message;
use proto::v1::{self, JoinResponse, RenewRequest};
use rcgen::{CertificateParams, KeyPair};
use tonic::{Code, Status};

use crate::doors::get;
use crate::fixture::{Fixture, TEAM, by};
use crate::node::{Node, Stream, anonymous, channel, hello};

pub(crate) fn renewal(key: &KeyPair) -> RenewRequest {
    RenewRequest {
        signing_request: CertificateParams::default().serialize_request(key).unwrap().der().to_vec(),
    }
}

/// Asks behind TLS.
pub(crate) async fn renews(node: &Node, request: RenewRequest) -> Result<v1::RenewResponse, Status> {
    let channel = channel(&node.address, node.tls()).await;
    let channel = channel.map_err(|error| Status::unavailable(format!("{error:?}")))?;
    Ok(IdentityClient::new(channel).renew(request).await?.into_inner())
}

impl Node {
    fn id(&self) -> NodeId {
        NodeId::parse(&self.answer.node_id).unwrap()
    }

    /// The same node, as a copy of its folder shows it.
    fn copy(&self) -> Self {
        let key = KeyPair::from_pem(&self.key.serialize_pem()).unwrap();
        Self { address: self.address.clone(), key, answer: self.answer.clone() }
    }

    fn with(&self, certificates: Vec<Vec<u8>>) -> Self {
        let answer = JoinResponse { certificates, ..self.answer.clone() };
        Self { answer, ..self.copy() }
    }

    /// With a certificate that ended long ago.
    fn lapsed(&self, fixture: &Fixture) -> Self {
        let path = fixture.folder.path().join("ca.key");
        let authority = Authority::open(&path, &self.answer.fleet, None).unwrap();
        let request = SigningRequest::read(&renewal(&self.key).signing_request).unwrap();
        let identity = NodeIdentity::of_certificate(&self.answer.certificates[0]).unwrap();
        self.with(vec![
            authority
                .issue_node(&request, &identity, by().now.plus_millis(-30 * 24 * 3_600_000))
                .unwrap()
                .to_vec(),
        ])
    }

    async fn renew(&self, request: RenewRequest) -> Result<v1::RenewResponse, Status> {
        renews(self, request).await
    }

    async fn renew_lapsed(&self, fixture: &Fixture) -> Result<v1::RenewResponse, Status> {
        let channel = channel(&self.address, anonymous(fixture.authority())).await.unwrap();
        Ok(EnrollClient::new(channel).renew_lapsed(renewal(&self.key)).await?.into_inner())
    }

    /// Opens a stream, says Hello with this, and hears the first answer.
    pub(crate) async fn greets(&self, session: Option<SessionProof>) -> Result<(Stream, Message), Status> {
        let mut stream = self.stream().await?;
        let hello = proto::convert::Hello { session, ..hello(Vec::new()) };
        // One that is turned away hears the Goodbye before it says anything.
        stream.said.send((&NodeSaid::Hello(Box::new(hello))).into()).await.ok();
        let answer = stream.heard.message().await?.and_then(|answer| answer.message);
        Ok((stream, answer.unwrap()))
    }
}

fn code(status: &Status) -> &str {
    status.metadata().get("pintle-code").map_or("", |code| code.to_str().unwrap())
}

#[tokio::test]
async fn a_certificate_is_renewed_for_the_nodes_own_key_and_the_stream_goes_on() {
    let fixture = Fixture::new().await;
    let (node, other) = (fixture.node("a").await, fixture.node("b").await);
    let (mut stream, _) = node.current().await;
    let renewed = node.renew(renewal(&node.key)).await.unwrap();
    let leaf = &renewed.certificates[0];
    let identity = |der: &[u8]| NodeIdentity::of_certificate(der).unwrap();
    assert_eq!(identity(leaf), identity(&node.answer.certificates[0]));
    assert_eq!(renewed.authorities, node.answer.authorities);
    // A day, dated back by ten minutes (30-nodes, 1).
    let (from, until) = validity(leaf).unwrap();
    assert_eq!(until.millis_since(from), (24 * 60 + 10) * 60_000);
    stream.say(NodeSaid::Heartbeat(None)).await;
    assert!(matches!(stream.hear().await, Message::HeartbeatAck(_)));
    node.with(renewed.certificates).session(Vec::new()).await;

    let refused = node.renew(renewal(&other.key)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "another node's key");
    let refused = node.renew(RenewRequest { signing_request: vec![1, 2, 3] }).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_lapsed_certificate_opens_no_door_but_its_key_gets_another() {
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    let lapsed = node.lapsed(&fixture);
    let refused = lapsed.stream().await.err().unwrap();
    assert!(format!("{refused:?}").contains("CertificateExpired"), "{refused:?}");
    assert!(lapsed.renew(renewal(&node.key)).await.is_err());
    assert!(get(&node.address, lapsed.tls(), "/bundles/x", None).await.is_err());
    let renewed = lapsed.renew_lapsed(&fixture).await.unwrap();
    lapsed.with(renewed.certificates).session(Vec::new()).await;

    let stranger = Node { key: KeyPair::generate().unwrap(), ..node.copy() };
    let refused = stranger.renew_lapsed(&fixture).await.unwrap_err();
    assert_eq!((refused.code(), code(&refused)), (Code::PermissionDenied, "join_refused"));
    fixture.server.stop().await;
}

#[tokio::test]
async fn an_evicted_node_is_told_on_its_stream_and_at_each_connect() {
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    let (mut stream, _) = node.current().await;
    evict(fixture.server.store(), &by(), "a", "it was lost").await.unwrap();
    let (code, reason) = stream.goodbye().await;
    assert_eq!(code, "evicted");
    assert!(
        reason.contains("node a was evicted by token/admin") && reason.ends_with(": it was lost"),
        "{reason}"
    );
    for _ in 0..2 {
        let (_, answer) = node.greets(None).await.unwrap();
        assert!(matches!(answer, Message::Goodbye(goodbye) if goodbye.code == "evicted"));
    }
    control_plane::operation::remove_node::remove_node(fixture.server.store(), &by(), "a").await.unwrap();
    let (_, answer) = node.greets(None).await.unwrap();
    assert!(
        matches!(answer, Message::Goodbye(goodbye) if goodbye.code == "evicted"),
        "removed, it is told too"
    );
    fixture.server.stop().await;
}

/// What a server forgets when it stops, and what it reads again.
#[tokio::test]
async fn a_node_that_was_banned_while_it_was_away_is_told_by_the_next_server() {
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    node.current().await;
    ban(fixture.server.store(), &by(), "a", "").await.unwrap();
    let address = fixture.server.node_address();
    fixture.server.stop().await;
    let mut config = crate::fixture::config(fixture.folder.path());
    config.node_listen = address;
    let server = control_plane::Server::start(config).await.unwrap();
    let (_, answer) = node.greets(None).await.unwrap();
    assert!(matches!(answer, Message::Goodbye(goodbye) if goodbye.code == "banned"));
    server.stop().await;
}

/// A node that keeps session counters, as far as the wire shows one.
pub(crate) struct Disk {
    pub(crate) node: Node,
    pub(crate) counter: Vec<u8>,
}

impl Disk {
    pub(crate) fn copy(&self) -> Self {
        Self { node: self.node.copy(), counter: self.counter.clone() }
    }

    fn value(&self) -> u64 {
        counter_in(&self.counter).unwrap_or(0)
    }

    /// Connects as an agent does: repeats a challenge once, keeps the counter, says so. The Goodbye's code, or the
    /// open stream.
    pub(crate) async fn connects(&mut self) -> Result<Stream, String> {
        let mut challenge = Vec::new();
        loop {
            let proof = SessionProof { counter: self.counter.clone(), challenge: challenge.clone() };
            let (stream, answer) = self.node.greets(Some(proof)).await.unwrap();
            match answer {
                Message::Goodbye(goodbye) if goodbye.code == "repeat" && challenge.is_empty() => {
                    challenge = goodbye.challenge;
                }
                Message::Goodbye(goodbye) => return Err(goodbye.code),
                Message::Welcome(welcome) => {
                    assert!(counter_in(&welcome.counter) > counter_in(&self.counter));
                    self.counter = welcome.counter;
                    stream.say(NodeSaid::Kept(self.value())).await;
                    return Ok(stream);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Has the server read everything that was said before.
pub(crate) async fn settle(stream: &mut Stream) {
    stream.say(NodeSaid::Heartbeat(None)).await;
    while !matches!(stream.hear().await, Message::HeartbeatAck(_)) {}
}

#[tokio::test]
async fn copies_of_a_node_are_quarantined_until_a_person_picks_one() {
    let fixture = Fixture::new().await;
    let mut first = Disk { node: fixture.node("a").await, counter: Vec::new() };
    let mut stream = first.connects().await.ok().unwrap();
    settle(&mut stream).await;
    let mut second = first.copy();
    drop(stream);
    // The node alone comes back as often as it likes.
    for _ in 0..3 {
        settle(&mut first.connects().await.ok().unwrap()).await;
    }
    let mut live = first.connects().await.ok().unwrap();
    settle(&mut live).await;
    assert_eq!(second.connects().await.err().unwrap(), "quarantined");
    assert_eq!(first.connects().await.err().unwrap(), "quarantined");
    let (store, id) = (fixture.server.store(), first.node.id());
    let record = node_record(store, &id).await.unwrap().unwrap();
    assert_eq!(record.standing.standing, Standing::Quarantined);
    let seen: Vec<u64> = sessions(&record.copies).iter().map(|one| one.counter).collect();
    assert!(seen.contains(&first.value()) && seen.contains(&second.value()), "{seen:?}");

    keep_session(store, &by(), "a", second.value()).await.unwrap();
    // Else the server may not have looked yet.
    fixture.server.fleet().look(false).await.unwrap();
    assert_eq!(first.connects().await.err().unwrap(), "evicted");
    settle(&mut second.connects().await.ok().unwrap()).await;
    assert_eq!(first.connects().await.err().unwrap(), "evicted", "each time");
    settle(&mut second.connects().await.ok().unwrap()).await;
    let record = node_record(store, &id).await.unwrap().unwrap();
    assert_eq!(record.standing.standing, Standing::Active);
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_forged_counter_counts_as_none_and_a_late_hello_accuses_nobody() {
    let fixture = Fixture::new().await;
    let mut node = Disk { node: fixture.node("a").await, counter: Vec::new() };
    let mut stream = node.connects().await.ok().unwrap();
    settle(&mut stream).await;
    drop(stream);
    let old = node.copy();
    settle(&mut node.connects().await.ok().unwrap()).await;
    let mut forged = node.counter.clone();
    forged[8] ^= 1;
    for counter in [forged, Vec::new(), old.counter.clone()] {
        // Said, and never repeated.
        let proof = SessionProof { counter, challenge: vec![2; 41] };
        let (_, answer) = node.node.greets(Some(proof)).await.unwrap();
        assert!(matches!(answer, Message::Goodbye(goodbye) if goodbye.code == "repeat"));
    }
    settle(&mut node.connects().await.ok().unwrap()).await;
    // One that keeps none is taken as it is.
    assert!(matches!(node.node.greets(None).await.unwrap().1, Message::Welcome(_)));
    fixture.server.stop().await;
}

/// Every door of the port, tried with every kind of identity.
#[tokio::test]
async fn each_door_is_open_to_exactly_those_whose_row_says_so() {
    let fixture = Fixture::new().await;
    let archive = fixture.push(TEAM).await;
    fixture.assign("team@1.0.0").await;
    let path = format!("/bundles/{}", Digest::of(&archive));
    let store = fixture.server.store();
    let us = EdgeName::parse("us-1").unwrap();
    control_plane::operation::create_edge::create_edge(store, &by(), &us).await.unwrap();
    let mut string = fixture.join_string(1).await;
    let admin = by();
    let token = control_plane::operation::issue_join_token::issue_join_token(store, &admin, &us, 1, 60_000);
    let token = token.await.unwrap();
    (string.token, string.secret) = (token.id, token.secret);
    let good = fixture.node("good").await;
    let elsewhere = crate::node::join(&string, "elsewhere").await.unwrap();
    let evicted = fixture.node("evicted").await;
    let banned = fixture.node("banned").await;
    let quarantined = fixture.node("quarantined").await;
    let lapsed = good.lapsed(&fixture);
    let foreign = crate::node::foreign(&good, fixture.folder.path());
    evict(store, &by(), "evicted", "").await.unwrap();
    ban(store, &by(), "banned", "").await.unwrap();
    quarantine(store, by().now, &quarantined.id(), &[]).await.unwrap();
    fixture.server.fleet().look(false).await.unwrap();

    // Who, then what comes of: a session, a renewal behind TLS, a renewal by key, a download.
    let rows = [
        ("good", &good, ["Welcome", "ok", "ok", "200"]),
        ("of another edge", &elsewhere, ["Welcome", "ok", "ok", "404"]),
        ("evicted", &evicted, ["evicted", "node_evicted", "node_evicted", "404"]),
        ("banned", &banned, ["banned", "node_banned", "node_banned", "404"]),
        ("quarantined", &quarantined, ["quarantined", "node_quarantined", "node_quarantined", "404"]),
        ("lapsed", &lapsed, ["no TLS", "no TLS", "ok", "no TLS"]),
        ("of another authority", &foreign, ["no TLS", "no TLS", "join_refused", "no TLS"]),
    ];
    for (who, node, expected) in rows {
        let session = match node.greets(Some(SessionProof::default())).await {
            Ok((_, Message::Welcome(_))) => "Welcome".to_owned(),
            Ok((_, Message::Goodbye(goodbye))) => goodbye.code,
            Ok((_, other)) => format!("{other:?}"),
            Err(_) => "no TLS".to_owned(),
        };
        let of = |renewed: Result<v1::RenewResponse, Status>| match renewed {
            Ok(_) => "ok".to_owned(),
            Err(status) if code(&status).is_empty() => "no TLS".to_owned(),
            Err(status) => code(&status).to_owned(),
        };
        let renewed = of(node.renew(renewal(&node.key)).await);
        let by_key = of(node.renew_lapsed(&fixture).await);
        let download = match get(&node.address, node.tls(), &path, None).await {
            Ok((parts, _)) => parts.status.as_u16().to_string(),
            Err(_) => "no TLS".to_owned(),
        };
        assert_eq!([&*session, &*renewed, &*by_key, &*download], expected, "{who}");
    }
    // Nobody: no session and no renewal behind TLS; `doors` tries the rest.
    let strangers = channel(&good.address, anonymous(fixture.authority())).await.unwrap();
    let refused = IdentityClient::new(strangers).renew(renewal(&good.key)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    fixture.server.stop().await;
}
