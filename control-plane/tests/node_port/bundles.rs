use domain::digest::Digest;

use crate::doors::get;
use crate::fixture::{Fixture, TEAM};

#[tokio::test]
async fn a_bundle_is_for_nodes_whose_plan_names_it_and_can_be_resumed() {
    let fixture = Fixture::new().await;
    let archive = fixture.push(TEAM).await;
    let node = fixture.node("a").await;
    let path = format!("/bundles/{}", Digest::of(&archive));
    let (parts, _) = get(&node.address, node.tls(), &path, None).await.unwrap();
    assert_eq!(parts.status, 404, "no plan names it yet");
    fixture.assign("team@1.0.0").await;

    let (parts, body) = get(&node.address, node.tls(), &path, None).await.unwrap();
    assert_eq!((parts.status.as_u16(), body.as_ref()), (200, archive.as_slice()));
    let (parts, body) = get(&node.address, node.tls(), &path, Some("bytes=10-")).await.unwrap();
    assert_eq!((parts.status.as_u16(), body.as_ref()), (206, &archive[10..]));
    let range = format!("bytes 10-{}/{}", archive.len() - 1, archive.len());
    assert_eq!(parts.headers["content-range"], range.as_str());
    let beyond = format!("bytes={}-", archive.len());
    let (parts, _) = get(&node.address, node.tls(), &path, Some(&beyond)).await.unwrap();
    assert_eq!(parts.status, 416);
    for path in ["/bundles/abc", "/bundles/..%2Fca.key", "/bundles/"] {
        let (parts, _) = get(&node.address, node.tls(), path, None).await.unwrap();
        assert_eq!(parts.status, 404, "{path}");
    }
    fixture.server.stop().await;
}
