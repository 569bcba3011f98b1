use std::os::unix::fs::PermissionsExt as _;

use control_plane::Server;
use control_plane::server::Chain;

use crate::fixture::{Fixture, config};

#[tokio::test]
async fn a_second_server_on_the_same_data_folder_is_refused() {
    let fixture = Fixture::new().await;
    let error = Server::start(config(fixture.folder.path())).await.unwrap_err().to_string();
    assert!(error.contains("another server runs with this data folder"), "{error}");
    fixture.server.stop().await;
    Server::start(config(fixture.folder.path())).await.unwrap().stop().await;
}

#[tokio::test]
async fn a_server_whose_authority_was_taken_away_says_which_file_to_mount() {
    let fixture = Fixture::new().await;
    fixture.server.stop().await;
    let key = fixture.folder.path().join("ca.key");
    std::fs::rename(&key, fixture.folder.path().join("elsewhere")).unwrap();
    let error = Server::start(config(fixture.folder.path())).await.unwrap_err();
    let said = Chain(&error).to_string();
    assert!(said.contains("ca.key is not there; mount the key file of the first server"), "{said}");
    assert!(!key.exists());
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let fixture = Fixture::new().await;
    let other = tempfile::tempdir().unwrap();
    let mut config = config(other.path());
    config.node_listen = fixture.server.node_address();
    let error = Server::start(config).await.unwrap_err().to_string();
    assert_eq!(error, format!("listen for nodes on {}", fixture.server.node_address()));
    fixture.server.stop().await;
}

#[tokio::test]
async fn what_a_server_keeps_is_its_owners_alone() {
    let fixture = Fixture::new().await;
    let folder = fixture.folder.path().join("fresh");
    let server = Server::start(config(&folder)).await.unwrap();
    let mode = |name: &str| std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(""), mode("ca.key"), mode("signer.key"), mode("admin.token")),
        (0o700, 0o600, 0o600, 0o600)
    );
    server.stop().await;
    fixture.server.stop().await;
}

#[tokio::test]
async fn nodes_are_told_to_come_back_when_the_server_stops_and_find_the_next_one_current() {
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    let (mut stream, held) = node.current().await;
    let address = fixture.server.node_address();
    let (said, ()) = tokio::join!(stream.goodbye(), fixture.server.stop());
    assert_eq!(said.0, "drain");
    drop(stream);
    let mut config = config(fixture.folder.path());
    config.node_listen = address;
    let server = Server::start(config).await.unwrap();
    let (_stream, welcome) = node.session(held).await;
    assert_eq!(welcome.current.len(), 4, "another start of the same fleet signs for the same authority");
    server.stop().await;
}

#[tokio::test]
async fn people_are_served_in_plain_http_on_loopback_alone() {
    let folder = tempfile::tempdir().unwrap();
    for address in [([0, 0, 0, 0], 0), ([192, 0, 2, 1], 0)] {
        let mut config = config(folder.path());
        config.people_listen = address.into();
        let error = Server::start(config).await.unwrap_err().to_string();
        assert!(error.contains("is no loopback address") && error.contains("127.0.0.1:0"), "{error}");
    }
    assert!(!folder.path().join("admin.token").exists(), "nothing was begun");
}
