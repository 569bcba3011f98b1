//! Streams that end before their answer, and are gone on with (handshake revisions; SEP-1699).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tools::{Call, Error, ToolEvent};

use super::support::{Endpoint, Stage, call, raw, reports, send, text, until};

/// The `Last-Event-ID` of each GET for a call's stream.
fn resumed(endpoint: &Endpoint) -> Vec<Value> {
    let gets = endpoint.received().into_iter().filter(|entry| entry["method"] == "GET");
    gets.map(|entry| entry["headers"]["last-event-id"].clone()).filter(Value::is_string).collect()
}

#[tokio::test]
async fn an_answer_is_waited_for_over_several_streams_and_nothing_is_called_twice() {
    for cut in [false, true] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
        let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
        let mut call_ = Call::new("polled", Some(raw(&json!({"polls": 3, "cut": cut}).to_string())));
        let mut receiver = reports(&mut call_);
        assert_eq!(text(&send(&tool, call_).await.unwrap()), "after 3");
        for step in 1..3 {
            let told = receiver.recv().await.unwrap().with_token(&raw("1"));
            assert!(told.contains(&format!(r#""progress":{step},"#)), "{told}");
        }
        assert!(receiver.recv().await.is_none());
        let ids = resumed(&endpoint);
        assert_eq!(ids.len(), 3);
        for (at, id) in ids.iter().enumerate() {
            assert!(id.as_str().unwrap().ends_with(&format!("-{at}")), "{ids:?}");
        }
        let received = endpoint.received();
        assert_eq!(received.iter().filter(|entry| entry["rpc"] == "tools/call").count(), 1);
        let get = received.iter().find(|entry| entry["headers"]["last-event-id"].is_string()).unwrap();
        assert_eq!(get["headers"]["mcp-session-id"], "s1");
        assert_eq!(get["headers"]["accept"], "text/event-stream");
    }
}

#[tokio::test]
async fn the_servers_pause_is_kept() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    let begun = Instant::now();
    call(&tool, "polled", r#"{"polls":2,"retry":300}"#).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(600), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_server_that_does_not_go_on_is_not_asked_for_ever_and_the_call_may_have_run() {
    for (status, most) in [(405, 1), (404, 1), (400, 1), (500, 5)] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
        let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
        let arguments = json!({"polls": 1, "status": status}).to_string();
        let error = call(&tool, "polled", &arguments).await.expect_err("no answer");
        assert!(matches!(error, Error::StreamEnded { .. }) && error.may_have_run(), "{error:?}");
        assert_eq!(resumed(&endpoint).len(), most, "{status}");
    }
}

#[tokio::test]
async fn the_calls_deadline_bounds_how_long_it_is_gone_on() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    let mut call_ = Call::new("polled", Some(raw(r#"{"polls":1000,"retry":0}"#)));
    call_.deadline = Duration::from_millis(700);
    let error = send(&tool, call_).await.expect_err("too late");
    assert!(matches!(error, Error::TimedOut { sent: true, .. }), "{error:?}");
    // A server that names no pause is still not asked all the time.
    assert!(resumed(&endpoint).len() <= 8, "{}", resumed(&endpoint).len());
}

#[tokio::test]
async fn a_call_can_be_cancelled_between_two_streams() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = Arc::new(stage.open(endpoint.spec("/mcp")).await.unwrap());
    let call_ = Call::new("polled", Some(raw(r#"{"polls":2,"retry":60000}"#)));
    let cancel = call_.cancel.clone();
    let waiting = tokio::spawn({
        let tool = Arc::clone(&tool);
        async move { send(&tool, call_).await }
    });
    until("it was called", || endpoint.received().iter().any(|entry| entry["rpc"] == "tools/call")).await;
    cancel.cancel();
    assert!(matches!(waiting.await.unwrap(), Err(Error::Cancelled)));
    let told = || endpoint.received().iter().any(|entry| entry["rpc"] == "notifications/cancelled");
    until("the server was told", told).await;
}

#[tokio::test]
async fn a_modern_stream_that_ends_is_over() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"era": "modern"}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    let error = call(&tool, "polled", r#"{"polls":1}"#).await.expect_err("no answer");
    assert!(matches!(error, Error::StreamEnded { .. }), "{error:?}");
    assert!(resumed(&endpoint).is_empty());
}

#[tokio::test]
async fn the_stream_of_announcements_goes_on_behind_its_last_event() {
    let mut stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"get": 200, "sessions": true}));
    let _tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    let changed =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\r\nid: e7\r\nretry: 5";
    endpoint.push_to_stream(changed).await;
    assert!(matches!(stage.event().await, ToolEvent::ListChanged));
    endpoint.set(&json!({"hang_up": true})).await;
    assert!(matches!(stage.event().await, ToolEvent::Reconnected));
    assert_eq!(resumed(&endpoint), [json!("e7")]);
}

#[tokio::test]
async fn a_session_is_deleted_at_the_end() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    tool.stop().await;
    let deleted: Vec<_> =
        endpoint.received().into_iter().filter(|entry| entry["method"] == "DELETE").collect();
    assert_eq!(deleted.len(), 1);
    assert_eq!(deleted[0]["headers"]["mcp-session-id"], "s1");
}
