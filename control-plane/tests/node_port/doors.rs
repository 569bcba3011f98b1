use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use proto::v1::fleet_client::FleetClient;
use rustls::ClientConfig;
use tonic::Code;

use crate::fixture::{Fixture, by};
use crate::node::{Node, anonymous, channel, connect, foreign};

/// Asks over HTTP/1.1 on the node port; the status, headers and body.
pub(crate) async fn get(
    address: &str,
    tls: ClientConfig,
    path: &str,
    range: Option<&str>,
) -> std::io::Result<(http::response::Parts, Bytes)> {
    let tls = connect(address, tls, b"http/1.1").await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.map_err(std::io::Error::other)?;
    tokio::spawn(connection);
    let mut request = http::Request::get(path).header("host", "control-plane");
    if let Some(range) = range {
        request = request.header("range", range);
    }
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let response = sender.send_request(request).await.map_err(std::io::Error::other)?;
    let (parts, body) = response.into_parts();
    Ok((parts, body.collect().await.map_err(std::io::Error::other)?.to_bytes()))
}

/// 30-nodes, 1: without a certificate only `Enroll`, before anything else is parsed.
#[tokio::test]
async fn without_a_certificate_every_door_but_enroll_is_shut() {
    let fixture = Fixture::new().await;
    let (address, authority) = (fixture.server.node_address().to_string(), fixture.authority());
    let strangers = channel(&address, anonymous(authority)).await.unwrap();
    let refusal = FleetClient::new(strangers.clone()).session(tokio_stream::empty()).await.unwrap_err();
    assert_eq!(refusal.code(), Code::Unauthenticated);
    for path in ["/pintle.fleet.v1.Fleet/Session", "/pintle.fleet.v1.Fleet/Other", "/any.Service/Method"] {
        let mut grpc = tonic::client::Grpc::new(strangers.clone());
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let refusal = grpc.unary(tonic::Request::new(()), path.parse().unwrap(), codec).await.unwrap_err();
        assert_eq!(refusal.code(), Code::Unauthenticated, "{path}");
    }
    let bundle = format!("/bundles/{}", "0".repeat(64));
    for path in [bundle.as_str(), "/", "/healthz", "/api/v1/status", "/pintle.fleet.v1.EnrollX/Join"] {
        let (parts, body) = get(&address, anonymous(authority), path, None).await.unwrap();
        assert_eq!((parts.status.as_u16(), body.len()), (401, 0), "{path}");
    }
    fixture.server.stop().await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_does_not_get_through_tls() {
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    let foreign = foreign(&node, fixture.folder.path());
    assert!(foreign.stream().await.is_err());
    assert!(get(&node.address, foreign.tls(), "/bundles/x", None).await.is_err());
    fixture.server.stop().await;
}

/// A key of the fleet's own authority for a node that is not on record, or not with that key.
#[tokio::test]
async fn a_certificate_alone_makes_no_node() {
    let fixture = Fixture::new().await;
    let node = fixture.node("a").await;
    let authority = control_plane::pki::Authority::open(
        &fixture.folder.path().join("ca.key"),
        &node.answer.fleet,
        Some(&fixture.authority().to_string()),
    )
    .unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let der = rcgen::CertificateParams::default().serialize_request(&key).unwrap();
    let signing = control_plane::pki::SigningRequest::read(der.der()).unwrap();
    let own = proto::identity::NodeIdentity::of_certificate(&node.answer.certificates[0]).unwrap();
    let pem = key.serialize_pem();
    for uri in [own.to_string(), own.to_string().replace("edge/eu-1", "edge/us-1"), format!("{own}0")] {
        let identity = proto::identity::NodeIdentity::parse(&uri).unwrap();
        let certificate = authority.issue_node(&signing, &identity, by().now).unwrap().to_vec();
        let answer = proto::v1::JoinResponse { certificates: vec![certificate], ..node.answer.clone() };
        let key = rcgen::KeyPair::from_pem(&pem).unwrap();
        let refusal = Node { address: node.address.clone(), key, answer }.stream().await.err().unwrap();
        assert_eq!(refusal.code(), Code::PermissionDenied, "{uri}: {refusal:?}");
    }
    fixture.server.stop().await;
}
