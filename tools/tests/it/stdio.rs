//! Tools over stdio, handshake era: opening, listing, calling.

use serde_json::json;
use tools::Era;

use super::support::{Stage, call, value};

#[tokio::test]
async fn a_tool_is_started_listed_and_called() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    assert_eq!((tool.era(), &*tool.protocol_version()), (Era::Handshake, "2025-11-25"));
    let list = tool.list().await.unwrap();
    assert!(list.list.complete && list.broken.is_none());
    assert_eq!(&*list.list.entries[0], r#"{"name": "echo", "inputSchema": {"type": "object"}}"#);
    let result = call(&tool, "echo", r#"{"a":1}"#).await.unwrap();
    assert_eq!(value(&result.0)["structuredContent"], json!({"a": 1}));
    assert!(!result.is_error());
    tool.stop().await;
    let methods: Vec<_> = stage.received().iter().map(|m| m["method"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        methods,
        ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"]
    );
}
