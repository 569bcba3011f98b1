//! Two servers on one `PostgreSQL`: what one decides about a node, the other acts on.

use control_plane::operation::expel::evict;
use control_plane::operation::find_bundle::node_record;
use control_plane::{Config, Server};
use domain::id::NodeId;
use domain::standing::Standing;
use proto::v1::server_message::Message;
use sqlx::Connection as _;

use crate::fixture::{Fixture, by, config, edge};
use crate::identity::{Disk, settle};
use crate::node::Node;

/// Two servers, if there is a cluster (as for the store's tests).
async fn two() -> Option<(Fixture, Server, tempfile::TempDir)> {
    let Ok(cluster) = std::env::var("PINTLE_TEST_POSTGRES") else {
        assert!(std::env::var("CI").is_err(), "PINTLE_TEST_POSTGRES is not set, and CI must run this test");
        return None;
    };
    rustls::crypto::ring::default_provider().install_default().ok();
    let name = format!("t_{}", uuid::Uuid::new_v4().simple());
    let mut admin = sqlx::PgConnection::connect(&cluster).await.unwrap();
    let create = sqlx::AssertSqlSafe(format!("create database {name}"));
    sqlx::raw_sql(create).execute(&mut admin).await.unwrap();
    let mut url = url::Url::parse(&cluster).unwrap();
    url.set_path(&name);
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = Some(url.to_string());
    let first = Server::start(Config { database: database.clone(), ..config(one.path()) }).await.unwrap();
    control_plane::operation::create_edge::create_edge(first.store(), &by(), &edge()).await.unwrap();
    let (authority_key, secrets_key) =
        (Some(one.path().join("ca.key")), Some(one.path().join("secrets.key")));
    let config = Config { database, authority_key, secrets_key, ..config(other.path()) };
    let second = Server::start(config).await.unwrap();
    Some((Fixture { server: first, folder: one }, second, other))
}

/// The node, as it connects to another server.
fn at(node: &Node, server: &Server) -> Node {
    let key = rcgen::KeyPair::from_pem(&node.key.serialize_pem()).unwrap();
    Node { address: server.node_address().to_string(), key, answer: node.answer.clone() }
}

#[tokio::test]
async fn an_eviction_ends_the_stream_on_whatever_server_it_is() {
    let Some((fixture, second, _folder)) = two().await else { return };
    let node = at(&fixture.node("a").await, &second);
    let (mut stream, _) = node.current().await;
    evict(fixture.server.store(), &by(), "a", "").await.unwrap();
    // Within a second (30-nodes, 1), and another for a machine that has much else to do.
    let told = tokio::time::timeout(std::time::Duration::from_secs(2), stream.goodbye()).await;
    assert_eq!(told.unwrap().0, "evicted");
    let (_, answer) = node.greets(None).await.unwrap();
    assert!(matches!(answer, Message::Goodbye(goodbye) if goodbye.code == "evicted"));
    second.stop().await;
    fixture.server.stop().await;
}

#[tokio::test]
async fn copies_that_live_on_two_servers_are_found_once_both_have_written_what_they_know() {
    let Some((fixture, second, _folder)) = two().await else { return };
    let mut here = Disk { node: fixture.node("a").await, counter: Vec::new() };
    settle(&mut here.connects().await.ok().unwrap()).await;
    let mut there = Disk { node: at(&here.node, &second), ..here.copy() };
    let mut first = here.connects().await.ok().unwrap();
    settle(&mut first).await;
    let mut other = there.connects().await.ok().unwrap();
    settle(&mut other).await;
    let mut quarantined = false;
    for _ in 0..3 {
        // The last time for the one that wrote first.
        for fleet in [fixture.server.fleet(), second.fleet(), fixture.server.fleet()] {
            fleet.flush().await;
        }
        // Whichever was told that there is a newer stream comes back.
        for disk in [&mut here, &mut there] {
            match disk.connects().await {
                Ok(mut stream) => settle(&mut stream).await,
                Err(code) => quarantined |= code == "quarantined",
            }
        }
    }
    assert!(quarantined);
    let id = NodeId::parse(&here.node.answer.node_id).unwrap();
    let record = node_record(fixture.server.store(), &id).await.unwrap().unwrap();
    assert_eq!(record.standing.standing, Standing::Quarantined);
    second.stop().await;
    fixture.server.stop().await;
}
