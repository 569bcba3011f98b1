use domain::digest::Digest;
use proto::identity::NodeIdentity;
use proto::join_string::JoinString;
use proto::v1::enroll_client::EnrollClient;
use rcgen::KeyPair;
use tonic::Code;

use crate::fixture::Fixture;
use crate::node::{anonymous, channel, join, join_with, request};

#[tokio::test]
async fn a_wrong_token_and_a_used_one_are_refused_with_what_to_do() {
    let fixture = Fixture::new().await;
    let string = fixture.join_string(1).await;
    let wrong = JoinString { secret: "wrong".to_owned(), ..string.clone() };
    let refusal = join(&wrong, "a").await.err().unwrap();
    assert_eq!(refusal.code(), Code::PermissionDenied);
    assert_eq!(refusal.metadata().get("pintle-code").unwrap(), "join_refused");
    assert!(refusal.message().contains("pintle node token"), "{refusal:?}");
    let unknown = JoinString { token: "none".to_owned(), ..string.clone() };
    assert_eq!(
        join(&unknown, "a").await.err().unwrap().message(),
        refusal.message(),
        "which was wrong is not said"
    );

    join(&string, "a").await.unwrap();
    let used = join(&string, "b").await.err().unwrap();
    assert!(used.message().contains("used 1 of 1 times"), "{used:?}");
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_request_that_is_none_is_refused_before_the_token_is_used() {
    let fixture = Fixture::new().await;
    let string = fixture.join_string(1).await;
    let channel = channel(&string.address, anonymous(string.authority)).await.unwrap();
    let mut client = EnrollClient::new(channel);
    let key = KeyPair::generate().unwrap();
    let good = request(&key, &string, "a");
    let mut no_request = good.clone();
    no_request.signing_request = vec![1, 2, 3];
    let mut bad_name = good.clone();
    bad_name.node_name = "no name".to_owned();
    let mut endless = good.clone();
    endless.agent_version = "v".repeat(100_000);
    let rows =
        [(no_request, Code::InvalidArgument), (bad_name, Code::InvalidArgument), (endless, Code::OutOfRange)];
    for (bad, code) in rows {
        assert_eq!(client.join(bad).await.unwrap_err().code(), code);
    }
    client.join(good).await.unwrap();
    fixture.server.stop().await;
}

#[tokio::test]
async fn the_same_key_gets_the_same_node_again() {
    let fixture = Fixture::new().await;
    let string = fixture.join_string(1).await;
    let key = KeyPair::generate().unwrap();
    let again = KeyPair::from_pem(&key.serialize_pem()).unwrap();
    let first = join_with(&string, "a", key).await.unwrap();
    let second = join_with(&string, "a", again).await.unwrap();
    assert_eq!(first.answer.node_id, second.answer.node_id);
    let identity = NodeIdentity::of_certificate(&second.answer.certificates[0]).unwrap();
    assert_eq!(
        identity.to_string(),
        format!("spiffe://{}/edge/eu-1/node/{}", first.answer.fleet, first.answer.node_id)
    );
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_server_with_another_authority_is_not_spoken_to() {
    let fixture = Fixture::new().await;
    let string = JoinString { authority: Digest::of(b"another"), ..fixture.join_string(1).await };
    let refusal = join(&string, "a").await.err().unwrap();
    assert_eq!(refusal.code(), Code::Unavailable);
    fixture.server.stop().await;
}
