//! Several servers on one `PostgreSQL`. Where there is none (`PINTLE_TEST_POSTGRES`), these tests say so.

use std::time::Duration;

use control_plane::operation::assign::assign;
use control_plane::operation::create_edge::create_edge;
use control_plane::operation::issue_join_token::issue_join_token;
use control_plane::{Config, Server};
use domain::digest::Digest;
use domain::id::PluginVersion;
use domain::plugin_set::{Head, Part};
use proto::convert::NodeSaid;
use proto::join_string::JoinString;
use proto::v1;
use proto::v1::server_message::Message;
use sqlx::{Connection as _, PgConnection};

use crate::doors::get;
use crate::fixture::{TEAM, archive, by, config, edge, push_to};
use crate::node::{Node, Stream, hello, join_with};

/// Servers that share a database, each with a folder of its own.
struct Replicas {
    servers: Vec<Server>,
    folders: Vec<tempfile::TempDir>,
    url: String,
    cluster: String,
}

/// A fleet of so many servers; `None` where there is no cluster to put it on.
async fn replicas(count: usize) -> Option<Replicas> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let Ok(cluster) = std::env::var("PINTLE_TEST_POSTGRES") else {
        assert!(
            std::env::var("CI").is_err(),
            "PINTLE_TEST_POSTGRES is not set, and CI must run both engines"
        );
        return None;
    };
    let name = format!("r_{}", uuid::Uuid::new_v4().simple());
    let mut admin = PgConnection::connect(&cluster).await.unwrap();
    run(&mut admin, format!("create database {name}")).await;
    let (base, _) = cluster.rsplit_once('/').unwrap();
    let url = format!("{base}/{name}");
    let mut replicas = Replicas { servers: Vec::new(), folders: Vec::new(), url, cluster };
    for _ in 0..count {
        replicas.add().await;
    }
    create_edge(replicas.servers[0].store(), &by(), &edge()).await.unwrap();
    Some(replicas)
}

async fn run(connection: &mut PgConnection, sql: String) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(connection).await.unwrap();
}

impl Replicas {
    async fn add(&mut self) {
        let folder = tempfile::tempdir().unwrap();
        let of_first = |name| self.folders.first().map(|first| first.path().join(name));
        let config = Config {
            database: Some(self.url.clone()),
            authority_key: of_first("ca.key"),
            secrets_key: of_first("secrets.key"),
            ..config(folder.path())
        };
        self.servers.push(Server::start(config).await.unwrap());
        self.folders.push(folder);
    }

    async fn join_string(&self, at: usize, uses: u64) -> JoinString {
        use rcgen::PublicKeyData as _;
        let token = issue_join_token(self.servers[at].store(), &by(), &edge(), uses, 60_000).await.unwrap();
        let pem = std::fs::read_to_string(self.folders[0].path().join("ca.key")).unwrap();
        let authority = rcgen::KeyPair::from_pem(&pem).unwrap().subject_public_key_info();
        JoinString {
            address: self.servers[at].advertised_node_address().to_owned(),
            token: token.id,
            secret: token.secret,
            authority: Digest::of(&authority),
            fleet: self.servers[at].fleet_id().to_owned(),
        }
    }

    /// A node that joined at one server and connects to another.
    async fn node(&self, name: &str, (joins, connects): (usize, usize)) -> Node {
        let string = self.join_string(joins, 1).await;
        let mut node = join_with(&string, name, rcgen::KeyPair::generate().unwrap()).await.unwrap();
        node.address = self.servers[connects].node_address().to_string();
        node
    }

    async fn assign(&self, at: usize, version: &str) {
        let version = PluginVersion::parse(version).unwrap();
        assign(self.servers[at].store(), &by(), &edge(), &version).await.unwrap();
    }

    /// Runs something that the product never does, on a connection of its own.
    async fn sql(&self, sql: &str) {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        run(&mut connection, sql.to_owned()).await;
    }

    /// Everything was sent without the full compare, which finds nothing now either.
    async fn missed_nothing(&self) {
        for server in &self.servers {
            server.fleet().look(true).await.unwrap();
            assert_eq!(server.fleet().missed(), 0);
        }
    }

    async fn stop(self) {
        for server in self.servers {
            server.stop().await;
        }
        let (_, name) = self.url.rsplit_once('/').unwrap();
        let mut admin = PgConnection::connect(&self.cluster).await.unwrap();
        run(&mut admin, format!("drop database {name} with (force)")).await;
    }
}

async fn next(stream: &mut Stream, part: Part) -> Head {
    loop {
        let (head, _) = stream.part().await;
        stream.ack(&head).await;
        if head.part == part {
            return head;
        }
    }
}

#[tokio::test]
async fn a_change_at_any_server_reaches_nodes_at_all_of_them() {
    let Some(replicas) = replicas(3).await else { return };
    push_to(replicas.servers[0].store(), replicas.folders[0].path(), TEAM).await;
    let nodes = [
        replicas.node("a", (0, 1)).await,
        replicas.node("b", (1, 2)).await,
        replicas.node("c", (2, 0)).await,
    ];
    let mut streams = Vec::new();
    for node in &nodes {
        streams.push(node.current().await.0);
    }
    replicas.assign(2, "team@1.0.0").await;
    for stream in &mut streams {
        assert_eq!(next(stream, Part::Plan).await.position.generation, 2);
    }
    replicas.missed_nothing().await;
    drop(streams);
    replicas.stop().await;
}

#[tokio::test]
async fn a_change_whose_wake_is_lost_is_found_and_one_that_commits_late_is_not_skipped() {
    let Some(replicas) = replicas(2).await else { return };
    let node = replicas.node("a", (0, 1)).await;
    let (mut stream, _) = node.current().await;
    // Nobody is told of this one.
    let raise = "update heads set generation = generation + 1 where scope = 'edge/eu-1' and part = 'trust'";
    replicas.sql(raise).await;
    assert_eq!(next(&mut stream, Part::Trust).await.position.generation, 2);
    // This one is begun before the next and committed after it was seen; the server looks in between.
    let mut late = PgConnection::connect(&replicas.url).await.unwrap();
    run(&mut late, format!("begin; {raise}")).await;
    replicas.sql(&raise.replace("trust", "policy")).await;
    assert_eq!(next(&mut stream, Part::Policy).await.position.generation, 2);
    run(&mut late, "commit".to_owned()).await;
    assert_eq!(next(&mut stream, Part::Trust).await.position.generation, 3);
    // Wakes that are lost since whoever listens was cut off.
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen %' \
               and datname = current_database()";
    replicas.sql(cut).await;
    replicas.sql(raise).await;
    assert_eq!(next(&mut stream, Part::Trust).await.position.generation, 4);
    replicas.missed_nothing().await;
    drop(stream);
    replicas.stop().await;
}

#[tokio::test]
async fn a_bundle_that_was_pushed_to_one_server_is_served_by_another() {
    let Some(replicas) = replicas(2).await else { return };
    let bytes = archive(TEAM);
    push_to(replicas.servers[0].store(), replicas.folders[0].path(), TEAM).await;
    replicas.assign(0, "team@1.0.0").await;
    let node = replicas.node("a", (0, 1)).await;
    let path = format!("/bundles/{}", Digest::of(&bytes));
    let asked = (0..5).map(|_| get(&node.address, node.tls(), &path, None));
    for answer in futures::future::join_all(asked).await {
        let (parts, body) = answer.unwrap();
        assert_eq!((parts.status.as_u16(), body.as_ref()), (200, bytes.as_slice()));
    }
    let kept = replicas.folders[1].path().join("blobs/sha256").join(Digest::of(&bytes).to_string());
    assert!(kept.exists());
    let left = std::fs::read_dir(replicas.folders[1].path().join("blobs/tmp")).unwrap().count();
    assert_eq!(left, 0);
    replicas.stop().await;
}

#[tokio::test]
async fn what_happens_once_happens_once_though_it_is_asked_of_all_servers_at_once() {
    let Some(replicas) = replicas(3).await else { return };
    push_to(replicas.servers[0].store(), replicas.folders[0].path(), TEAM).await;
    // One node, which does not know whether its first attempt arrived, joins everywhere.
    let string = replicas.join_string(0, 1).await;
    let key = rcgen::KeyPair::generate().unwrap();
    let joins = replicas.servers.iter().map(|server| {
        let mut string = string.clone();
        string.address = server.node_address().to_string();
        let key = rcgen::KeyPair::from_pem(&key.serialize_pem()).unwrap();
        async move { join_with(&string, "a", key).await.map(|node| node.answer.node_id) }
    });
    let joined = futures::future::join_all(joins).await;
    let ids: std::collections::BTreeSet<String> = joined.into_iter().map(Result::unwrap).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    // All are asked to assign the same.
    futures::future::join_all((0..3).map(|at| replicas.assign(at, "team@1.0.0"))).await;
    let mut connection = PgConnection::connect(&replicas.url).await.unwrap();
    for (name, expected) in [("node.join", 1_i64), ("edge.assignment.set", 1)] {
        let count: i64 = sqlx::query_scalar("select count(*) from audit where name = $1")
            .bind(name)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(count, expected, "{name}");
    }
    let used: i64 =
        sqlx::query_scalar("select used from join_tokens").fetch_one(&mut connection).await.unwrap();
    assert_eq!(used, 1);
    drop(connection);
    replicas.stop().await;
}

/// The server that began it is killed in the middle: its connection is cut with the lock held.
#[tokio::test]
async fn what_a_killed_server_left_in_the_middle_is_done_by_another_and_once() {
    let Some(replicas) = replicas(2).await else { return };
    push_to(replicas.servers[0].store(), replicas.folders[0].path(), TEAM).await;
    let node = replicas.node("a", (0, 1)).await;
    let (mut stream, _) = node.current().await;
    let begun = replicas.servers[0].store().begin_write().await.unwrap();
    let waiting = replicas.assign(1, "team@1.0.0");
    let cut = async {
        // Whoever waits for the lock is seen waiting before its holder is killed.
        let mut connection = PgConnection::connect(&replicas.url).await.unwrap();
        let waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
        counts(&mut connection, waits, |waits| waits > 0).await;
        let kill = "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted \
                    and database = (select oid from pg_database where datname = current_database())";
        run(&mut connection, kill.to_owned()).await;
    };
    tokio::join!(waiting, cut);
    drop(begun);
    assert_eq!(next(&mut stream, Part::Plan).await.position.generation, 2);
    // The server whose connection was cut goes on with another one.
    replicas.servers[0].store().check().await.unwrap();
    replicas.missed_nothing().await;
    drop(stream);
    replicas.stop().await;
}

/// A node that comes back as it was, at a server that knows it, is answered before the database is asked.
#[tokio::test]
async fn a_node_that_moves_between_servers_is_on_record_as_it_is() {
    let Some(replicas) = replicas(2).await else { return };
    push_to(replicas.servers[0].store(), replicas.folders[0].path(), TEAM).await;
    replicas.assign(0, "team@1.0.0").await;
    let mut node = replicas.node("a", (0, 0)).await;
    let addresses: Vec<String> = replicas.servers.iter().map(|one| one.node_address().to_string()).collect();
    let versions =
        |has: bool| if has { vec![PluginVersion::parse("team@1.0.0").unwrap()] } else { Vec::new() };
    // It has the version at one, not at the other, and has it again at the first.
    for (at, has) in [(0, true), (1, false), (0, true)] {
        node.address.clone_from(&addresses[at]);
        let mut stream = node.stream().await.unwrap();
        let said = proto::convert::Hello { versions: versions(has), ..hello(Vec::new()) };
        stream.say(NodeSaid::Hello(Box::new(said))).await;
        assert!(matches!(stream.hear().await, Message::Welcome(v1::Welcome { .. })));
        drop(stream);
        let mut connection = PgConnection::connect(&replicas.url).await.unwrap();
        let versions = "select count(*) from node_versions";
        counts(&mut connection, versions, |count| count == i64::from(has)).await;
    }
    replicas.stop().await;
}

/// Waits until what is counted is as expected.
async fn counts(connection: &mut PgConnection, what: &'static str, is_so: impl Fn(i64) -> bool) {
    let counted = async {
        while !is_so(sqlx::query_scalar(what).fetch_one(&mut *connection).await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), counted).await.expect(what);
}
