//! The revisions with sessions.

use reqwest::Method;
use serde_json::json;

use crate::client::{Client, Events};
use crate::node::{Node, OPEN, same, serve, serve_with};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;

fn initialize(version: &str) -> String {
    let params = json!({"protocolVersion": version, "capabilities": {"sampling": {}}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

#[tokio::test]
async fn a_session_that_is_not_known_is_404_but_initialize_starts_afresh() {
    let served = serve(&Node::echo(&[])).await;
    let client = Client::new(&served).with("mcp-protocol-version", Some("2025-11-25"));
    for id in ["unknown", "0123456789abcdef0123456789abcdef", ""] {
        let lost = client.with("mcp-session-id", Some(id));
        for (method, body) in [(Method::POST, LIST), (Method::GET, ""), (Method::DELETE, "")] {
            assert_eq!(lost.send(method.clone(), body).await.status, 404, "{method} {id}");
        }
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(lost.post(cancelled).await.status, 404);
        assert_eq!(lost.post(initialize("2025-11-25")).await.status, 200);
    }
    assert_eq!(client.post(LIST).await.status, 400, "without a session");
}

#[tokio::test]
async fn the_version_is_negotiated() {
    let served = serve(&Node::echo(&[])).await;
    let client = Client::new(&served);
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1900-01-01", "2025-11-25"),
    ] {
        let answer = client.post(initialize(asked)).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], agreed);
        let session = answer.headers["mcp-session-id"].to_str().unwrap();
        assert!(session.len() == 32 && session.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    let answer = client.post(r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#).await.json();
    let result = &answer["result"];
    assert_eq!(result["capabilities"], json!({"logging": {}, "tools": {"listChanged": true}}));
    assert_eq!(result["serverInfo"]["name"], "pintle");
    assert!(result.get("instructions").is_none() && result.get("resultType").is_none());
}

#[tokio::test]
async fn a_version_that_is_not_spoken_is_refused_in_a_session() {
    let served = serve(&Node::echo(&[])).await;
    let session = Client::new(&served).handshake("2025-06-18").await;
    let answer = session.with("mcp-protocol-version", Some("1999-01-01")).post(PING).await;
    assert_eq!((answer.status, answer.code()), (400, -32022));
    assert_eq!(
        session.with("mcp-protocol-version", None).post(PING).await.status,
        200,
        "2025-03-26 had no header"
    );
}

#[tokio::test]
async fn a_session_lists_pings_and_ends() {
    let served = serve(&Node::echo(&[same("b", OPEN), same("a", OPEN)])).await;
    let session = Client::new(&served).handshake("2025-11-25").await;
    let answer = session.post(LIST).await.json();
    assert_eq!(answer["result"]["tools"][0]["name"], "team__a");
    let members: Vec<&String> = answer["result"].as_object().unwrap().keys().collect();
    assert_eq!(members, ["tools"], "nothing of a later revision");
    assert_eq!(session.post(PING).await.text, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    assert_eq!(session.post(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#).await.status, 202);
    for method in ["tasks/list", "prompts/list", "resources/list", "server/discover"] {
        let answer = session.post(format!(r#"{{"jsonrpc":"2.0","id":"x","method":"{method}"}}"#)).await;
        assert_eq!((answer.status, answer.code()), (200, -32601), "{method}");
    }
    let stream = session.with("accept", Some("text/event-stream"));
    let mut events = Events::new(stream.open(Method::GET, "").await);
    assert_eq!(session.send(Method::DELETE, "").await.status, 204);
    assert!(events.next().await.is_none(), "its stream ends with it");
    assert_eq!(session.post(PING).await.status, 404);
    assert_eq!(session.send(Method::DELETE, "").await.status, 404);
}

#[tokio::test]
async fn a_newer_stream_takes_the_place_of_the_one_before() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let served = serve(&node).await;
    let stream = Client::new(&served).handshake("2025-11-25").await.with("accept", Some("text/event-stream"));
    let mut first = Events::new(stream.open(Method::GET, "").await);
    let mut second = Events::new(stream.open(Method::GET, "").await);
    assert!(first.next().await.is_none());
    node.set(&[]);
    assert_eq!(second.json().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn only_the_oldest_of_its_revisions_has_batches() {
    let served = serve(&Node::echo(&[same("echo", OPEN)])).await;
    let client = Client::new(&served);
    let call = |id: u32| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"team__echo"}}}}"#)
    };
    let batch =
        format!(r#"[{PING},{},{{"jsonrpc":"2.0","method":"notifications/x"}},7,{}]"#, call(3), call(4));
    let new = client.handshake("2025-06-18").await;
    assert_eq!(new.post(batch.clone()).await.code(), -32600);
    let (modern, _) = client.modern("1", "tools/call", r#""name":"team__echo""#);
    assert_eq!(modern.post("[]").await.code(), -32600, "not that its revision is unknown");
    let old = client.handshake("2025-03-26").await;
    let answers = old.post(batch).await.json();
    let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!(2), json!(3), json!(null), json!(4)]);
    assert_eq!(old.post(r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#).await.status, 202);
    for bad in ["[]".to_owned(), "[".to_owned(), format!("[{}]", vec![PING; 101].join(","))] {
        assert_eq!(old.post(bad).await.status, 400);
    }
}

#[tokio::test]
async fn sessions_are_bounded_and_the_one_unused_for_longest_makes_room() {
    let served = serve_with(&Node::echo(&[]), |config| config.sessions = 2).await;
    let client = Client::new(&served);
    let first = client.handshake("2025-11-25").await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let second = client.handshake("2025-11-25").await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    assert_eq!(first.post(PING).await.status, 200);
    let third = client.handshake("2025-11-25").await;
    assert_eq!(second.post(PING).await.status, 404);
    // Those in use make no room.
    let stream = |client: &Client| client.with("accept", Some("text/event-stream"));
    let _one = Events::new(stream(&first).open(Method::GET, "").await);
    let _two = Events::new(stream(&third).open(Method::GET, "").await);
    let answer = client.post(initialize("2025-11-25")).await;
    assert_eq!(answer.status, 503);
    assert!(answer.text.contains("gateway.sessions"));
}

#[tokio::test]
async fn an_unused_session_is_forgotten() {
    let idle = std::time::Duration::from_millis(50);
    let served = serve_with(&Node::echo(&[]), |config| config.session_idle = idle).await;
    let session = Client::new(&served).handshake("2025-11-25").await;
    let in_use = Client::new(&served).handshake("2025-11-25").await;
    let _events = Events::new(in_use.with("accept", Some("text/event-stream")).open(Method::GET, "").await);
    tokio::time::sleep(idle * 4).await;
    assert_eq!(session.post(PING).await.status, 404);
    assert_eq!(in_use.post(PING).await.status, 200);
}
