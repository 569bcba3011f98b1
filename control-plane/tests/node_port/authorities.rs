//! A fleet goes from one authority to another while its nodes go on.

use control_plane::operation::roll_authority::progress;
use control_plane::pki::{AuthorityFiles, Move};
use control_plane::server::Chain;
use control_plane::{Config, Server};
use domain::plugin_set::Part;
use proto::v1::{self, JoinResponse};

use crate::fixture::{Fixture, config};
use crate::identity::{renewal, renews};
use crate::node::{Node, join};

fn with(node: &Node, renewed: v1::RenewResponse) -> Node {
    let v1::RenewResponse { certificates, authorities } = renewed;
    let answer = JoinResponse { certificates, authorities, ..node.answer.clone() };
    let key = rcgen::KeyPair::from_pem(&node.key.serialize_pem()).unwrap();
    Node { address: node.address.clone(), key, answer }
}

async fn current(node: &Node, held: &[(Part, v1::SignedHead)]) {
    let (_stream, welcome) = node.session(held.to_vec()).await;
    assert_eq!(welcome.current.len(), 4, "what an earlier authority's signer signed is believed");
}

#[tokio::test]
async fn every_node_goes_on_through_a_roll_over_and_one_that_would_be_cut_off_stops_it() {
    let fixture = Fixture::new().await;
    let folder = fixture.folder.path().to_owned();
    let files = AuthorityFiles::new(&folder.join("ca.key"));
    let address = fixture.server.node_address();
    let start = || {
        let config = Config { node_listen: address, ..config(&folder) };
        async move { Server::start(config).await }
    };
    let (node, late) = (fixture.node("a").await, fixture.node("late").await);
    let (stream, held) = node.current().await;
    drop(stream);
    fixture.server.stop().await;

    files.make(Move::Begin).unwrap();
    let server = start().await.unwrap();
    current(&node, &held).await;
    let at = progress(server.store()).await.unwrap();
    assert_eq!(
        (at.distrusting.as_slice(), at.of_others.len()),
        (["a".to_owned(), "late".to_owned()].as_slice(), 0)
    );
    let renewed = renews(&node, renewal(&node.key)).await.unwrap();
    assert_eq!(renewed.authorities.len(), 2);
    let node = with(&node, renewed);
    server.stop().await;

    files.make(Move::Switch).unwrap();
    let refused = start().await.err().unwrap();
    let said = Chain(&refused).to_string();
    assert!(
        said.contains("1 nodes do not trust the next authority yet") && said.contains(": late;"),
        "{said}"
    );
    files.make(Move::Back).unwrap();
    let server = start().await.unwrap();
    let late = with(&late, renews(&late, renewal(&late.key)).await.unwrap());
    assert!(progress(server.store()).await.unwrap().distrusting.is_empty());
    server.stop().await;

    files.make(Move::Switch).unwrap();
    let server = start().await.unwrap();
    current(&node, &held).await;
    let at = progress(server.store()).await.unwrap();
    assert_eq!((at.next, at.of_others.len()), (None, 2), "both certificates are of the one before");
    let node = with(&node, renews(&node, renewal(&node.key)).await.unwrap());
    current(&node, &held).await;
    late.session(Vec::new()).await;
    let late = with(&late, renews(&late, renewal(&late.key)).await.unwrap());
    assert!(progress(server.store()).await.unwrap().of_others.is_empty());
    server.stop().await;

    files.make(Move::Finish).unwrap();
    let server = start().await.unwrap();
    current(&node, &held).await;
    let renewed = renews(&late, renewal(&late.key)).await.unwrap();
    assert_eq!(renewed.authorities.len(), 1);
    let string = Fixture { server, folder: fixture.folder };
    join(&string.join_string(1).await, "new").await.unwrap();
    string.server.stop().await;
}
