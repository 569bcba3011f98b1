//! What is not let in, or not understood.

use reqwest::Method;

use crate::client::Client;
use crate::node::{Node, OPEN, same, serve, serve_with};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

async fn client() -> (Client, crate::node::Served) {
    let served = serve(&Node::echo(&[same("hello", OPEN)])).await;
    (Client::new(&served), served)
}

#[tokio::test]
async fn without_the_token_nothing_is_answered() {
    let (client, _served) = client().await;
    for (shown, challenge) in [
        (None, r#"Bearer realm="pintle""#),
        (Some("Bearer wrong"), r#"Bearer realm="pintle", error="invalid_token""#),
        (Some("Basic cGludGxl"), r#"Bearer realm="pintle", error="invalid_token""#),
    ] {
        for method in [Method::POST, Method::GET, Method::DELETE, Method::OPTIONS] {
            let answer = client.with("authorization", shown).send(method.clone(), PING).await;
            assert_eq!(
                (answer.status, &answer.headers["www-authenticate"]),
                (401, &challenge.parse().unwrap()),
                "{method}"
            );
        }
    }
}

#[tokio::test]
async fn pages_of_other_origins_and_names_are_refused_before_the_token_is_looked_at() {
    let (client, _served) = client().await;
    let without = client.with("authorization", None);
    for origin in ["http://evil.example", "null", "http://localhost.evil.example"] {
        assert_eq!(without.with("origin", Some(origin)).post(PING).await.status, 403, "{origin}");
    }
    for host in ["evil.example", "evil.example:7410", "192.0.2.1", "localhost.evil.example"] {
        assert_eq!(without.with("host", Some(host)).post(PING).await.status, 403, "{host}");
    }
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7410", "[::1]:7410"] {
        let (client, body) = client.modern("1", "server/discover", "");
        let answer =
            client.with("host", Some(host)).with("origin", Some("http://localhost:3000")).post(body).await;
        assert_eq!(answer.status, 200, "{host}");
        assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "no CORS");
    }
}

#[tokio::test]
async fn named_hosts_and_origins_are_let_in() {
    let served = serve_with(&Node::echo(&[]), |config| {
        config.allowed_hosts = vec!["node.example".into()];
        config.allowed_origins = vec!["https://console.example".into()];
    })
    .await;
    let (client, body) = Client::new(&served).modern("1", "server/discover", "");
    let client = client.with("host", Some("Node.Example:80")).with("origin", Some("https://console.example"));
    assert_eq!(client.post(body).await.status, 200);
}

#[tokio::test]
async fn what_is_no_message_is_answered_with_the_place_and_no_id() {
    let (client, _served) = client().await;
    for (body, code) in [
        ("", -32600),
        ("nonsense", -32600),
        ("{", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, -32700),
        ("\"ping\"", -32600),
        (r#"{"id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
    ] {
        let answer = client.post(body).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{body}: {}", answer.text);
        assert!(answer.json()["id"].is_null());
    }
}

#[tokio::test]
async fn a_request_over_the_limit_is_refused_with_the_setting() {
    let served = serve_with(&Node::echo(&[]), |config| config.body_bytes = 1_000).await;
    let answer = Client::new(&served).post(format!("{PING}{}", " ".repeat(1_000))).await;
    assert_eq!(answer.status, 413);
    assert!(
        answer.text.contains("1000 bytes") && answer.text.contains("gateway.body_bytes"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn other_content_types_methods_and_paths_are_refused() {
    let (client, _served) = client().await;
    assert_eq!(client.with("content-type", Some("text/plain")).post(PING).await.status, 415);
    assert_eq!(client.with("accept", Some("text/html")).post(PING).await.status, 406);
    for method in [Method::PUT, Method::OPTIONS, Method::PATCH] {
        assert_eq!(client.send(method.clone(), PING).await.status, 405, "{method}");
    }
    for method in [Method::GET, Method::DELETE] {
        let answer = client.with("mcp-protocol-version", Some("2026-07-28")).send(method, "").await;
        assert_eq!((answer.status, &answer.headers["allow"]), (405, &"POST".parse().unwrap()));
    }
    let mut elsewhere = client.clone();
    elsewhere.url = elsewhere.url.replace("/mcp", "/other");
    assert_eq!(elsewhere.post(PING).await.status, 404);
}

#[tokio::test]
async fn a_request_of_no_era_says_what_to_send() {
    let (client, _served) = client().await;
    let answer = client.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text.contains("initialize") && answer.text.contains("2026-07-28"), "{}", answer.text);
}
