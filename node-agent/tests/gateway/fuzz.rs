//! A target for a fuzzer: any requests at a node's endpoint.

use std::panic::AssertUnwindSafe;

use reqwest::Method;
use serde_json::Value;

use crate::client::{Client, modern_body};
use crate::node::{Node, OPEN, same, serve};

/// What is changed by the fuzzer.
const BODIES: [&str; 10] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"f","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":""}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"team__hello","arguments":{"n":1e400},"_meta":{"progressToken":7}}}"#,
    r#"[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}]"#,
    r#"{"jsonrpc":"2.0","id":4,"result":{"action":"accept","content":{}}}"#,
    r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"no"}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"debug"}}"#,
    "",
    "\u{feff} {}",
];

const HEADERS: [&str; 9] = [
    "accept",
    "content-type",
    "mcp-protocol-version",
    "mcp-session-id",
    "mcp-method",
    "mcp-name",
    "mcp-param-n",
    "last-event-id",
    "origin",
];

/// The body that is begun with, what is put where of it in place of how much, and headers.
type Input = (u8, Vec<(u16, u8, Vec<u8>)>, Vec<(u8, Vec<u8>)>);

#[test]
fn whatever_comes_is_answered_and_the_next_request_too() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let served = runtime.block_on(serve(&Node::echo(&[same("hello", OPEN)])));
    let client = AssertUnwindSafe(runtime.block_on(async { Client::new(&served) }));
    let modern = [
        modern_body("1", "tools/call", r#""name":"team__hello","arguments":{"n":1}"#),
        modern_body("1", "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#),
        modern_body("1", "server/discover", ""),
    ];
    let bodies: Vec<&str> = BODIES.into_iter().chain(modern.iter().map(String::as_str)).collect();
    bolero::check!().with_type::<Input>().with_iterations(500).for_each(|(body, edits, headers)| {
        let mut body = bodies[usize::from(*body) % bodies.len()].as_bytes().to_vec();
        for (at, removed, put) in edits {
            let from = usize::from(*at) % (body.len() + 1);
            let to = (from + usize::from(*removed)).min(body.len());
            body.splice(from..to, put.iter().copied());
        }
        let mut changed = Client::clone(&client);
        for (name, value) in headers {
            if let Ok(value) = reqwest::header::HeaderValue::from_bytes(value) {
                changed.headers.insert(HEADERS[usize::from(*name) % HEADERS.len()], value);
            }
        }
        runtime.block_on(async {
            let response = changed.open_bytes(Method::POST, body).await;
            assert!(!response.status().is_server_error(), "{}", response.status());
            let kind = response.headers().get("content-type").cloned();
            // A stream that stays open is not waited for.
            if kind.is_some_and(|kind| kind == "application/json") {
                let text = response.text().await.unwrap();
                assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
            }
            let answer = client.ask("server/discover", "").await;
            assert_eq!(answer.status, 200);
        });
    });
}
