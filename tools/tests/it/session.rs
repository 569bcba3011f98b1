//! Sessions of the handshake era that the server forgets. Case C23.

use std::sync::Arc;

use serde_json::{Value, json};
use tools::{Call, Error, ToolEvent};

use super::support::{Endpoint, Stage, call, send};

fn count(endpoint: &Endpoint, rpc: &str) -> usize {
    endpoint.received().iter().filter(|entry| entry["rpc"] == rpc).count()
}

async fn forget(endpoint: &Endpoint) {
    endpoint.set(&json!({"forget": true})).await;
}

#[tokio::test]
async fn a_lost_session_is_opened_anew_and_the_caller_decides() {
    let mut stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    forget(&endpoint).await;
    let lost = call(&tool, "echo", "{}").await.expect_err("forgotten");
    assert!(matches!(lost, Error::SessionLost { .. }) && !lost.may_have_run(), "{lost}");
    assert!(matches!(stage.event_now(), Some(ToolEvent::Reconnected)));
    tool.list().await.unwrap();
    let mut again = Call::new("echo", None);
    again.repeated = true;
    send(&tool, again).await.unwrap();
    let posts = endpoint.received().into_iter().filter(|entry| entry["method"] == "POST");
    let trail: Vec<_> = posts.skip(3).map(|entry| entry["rpc"].clone()).collect();
    let wanted = ["tools/call", "initialize", "notifications/initialized", "tools/list", "tools/call"];
    assert_eq!(trail, wanted.map(Value::from));
}

#[tokio::test]
async fn twenty_calls_that_find_it_lost_share_one_new_session() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = Arc::new(stage.open(endpoint.spec("/mcp")).await.unwrap());
    forget(&endpoint).await;
    let calls = (0..20).map(|_| call(&tool, "echo", "{}"));
    for outcome in futures::future::join_all(calls).await {
        // One that came late already used the new one.
        assert!(matches!(outcome, Ok(_) | Err(Error::SessionLost { .. })), "{outcome:?}");
    }
    assert_eq!(count(&endpoint, "initialize"), 2);
}

#[tokio::test]
async fn the_repeated_call_opens_no_second_session() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    forget(&endpoint).await;
    let mut again = Call::new("echo", None);
    again.repeated = true;
    let error = send(&tool, again).await.expect_err("forgotten again");
    assert!(matches!(error, Error::Rpc(_)), "{error}");
    assert_eq!(count(&endpoint, "initialize"), 1);
}

#[tokio::test]
async fn a_server_that_opens_no_new_session_is_not_asked_for_ever() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    forget(&endpoint).await;
    endpoint.set(&json!({"init": [404, ""]})).await;
    let error = call(&tool, "echo", "{}").await.expect_err("gone");
    // It may speak another revision by now, and took nothing of the call.
    assert!(matches!(error, Error::Reopen(_)) && error.may_be_of_another_era(), "{error}");
    assert!(error.to_string().contains("/mcp: it answers 404") && !error.may_have_run(), "{error}");
    assert_eq!(count(&endpoint, "initialize"), 2);
}

#[tokio::test]
async fn a_list_opens_a_new_session_and_starts_over() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    forget(&endpoint).await;
    assert!(tool.list().await.unwrap().list.complete);
    assert_eq!(count(&endpoint, "initialize"), 2);
}

#[tokio::test]
async fn another_status_for_an_unknown_session_fails_and_the_next_call_tests_it_first() {
    for status in [503, 400] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({"sessions": true, "lost": status}));
        let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
        forget(&endpoint).await;
        let error = call(&tool, "echo", "{}").await.expect_err("unknown session");
        assert!(matches!(error, Error::Rpc(_)) && error.may_have_run(), "{error}");
        assert_eq!(count(&endpoint, "initialize"), 1);
        let error = call(&tool, "echo", "{}").await.expect_err("tested and lost");
        assert!(matches!(error, Error::SessionLost { .. }), "{error}");
        assert_eq!((count(&endpoint, "ping"), count(&endpoint, "tools/call")), (1, 1));
        call(&tool, "echo", "{}").await.unwrap();
    }
}

#[tokio::test]
async fn a_session_under_suspicion_that_answers_goes_on() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    call(&tool, "status", r#"{"code":503}"#).await.expect_err("503");
    call(&tool, "echo", "{}").await.unwrap();
    assert_eq!((count(&endpoint, "ping"), count(&endpoint, "initialize")), (1, 1));
}

#[tokio::test]
async fn a_cut_connection_is_never_repeated() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    let error = call(&tool, "cut", "{}").await.expect_err("cut");
    assert!(error.may_have_run(), "{error}");
    assert_eq!(count(&endpoint, "tools/call"), 1);
}

/// Case C26.
#[tokio::test]
async fn a_stream_of_announcements_that_is_not_to_be_had_is_done_without() {
    for status in [400, 404, 405, 406] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({"sessions": true, "get": status}));
        let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
        assert!(tool.list().await.unwrap().list.complete, "{status}");
        call(&tool, "echo", "{}").await.unwrap();
        assert_eq!(count(&endpoint, "initialize"), 1, "{status}");
    }
}
