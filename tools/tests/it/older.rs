//! Endpoints of the transport of 2024-11-05. Case C26.

use std::time::Duration;

use serde_json::{Value, json};
use tools::{Call, Era, Error, Opening, Tool, ToolEvent};

use super::support::{Endpoint, Stage, call, chain, raw, reports, send, until, value};

fn sent(endpoint: &Endpoint) -> Vec<String> {
    let line = |entry: Value| {
        let rpc = entry["rpc"].as_str().unwrap_or_default().to_owned();
        format!("{} {} {rpc}", entry["method"].as_str().unwrap(), entry["path"].as_str().unwrap())
    };
    endpoint.received().into_iter().filter(|entry| entry.get("closed").is_none()).map(line).collect()
}

async fn opened(stage: &Stage, endpoint: &Endpoint) -> Tool {
    stage.open(endpoint.spec("/sse")).await.unwrap()
}

#[tokio::test]
async fn it_is_the_last_that_is_tried_and_lists_calls_and_reports() {
    for status in [400, 404, 405] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({"post": status}));
        let tool = opened(&stage, &endpoint).await;
        assert_eq!(
            (tool.era(), tool.opening(), &*tool.protocol_version()),
            (Era::Handshake, Opening::Older, "2024-11-05")
        );
        let trail = [
            "POST /sse server/discover",
            "POST /sse initialize",
            "GET /sse ",
            "POST /messages?sid=1 initialize",
            "POST /messages?sid=1 notifications/initialized",
        ];
        assert_eq!(sent(&endpoint), trail);
        assert!(tool.list().await.unwrap().list.complete);
        let mut call_ = Call::new("echo", Some(raw(r#"{"n": 1e400}"#)));
        let mut receiver = reports(&mut call_);
        let result = send(&tool, call_).await.unwrap();
        assert!(result.0.get().contains(r#""structuredContent":{"n": 1e400}"#), "{}", result.0.get());
        assert!(receiver.recv().await.unwrap().with_token(&raw("7")).contains(r#""progress":1.50"#));
    }
}

#[tokio::test]
async fn what_is_no_refusal_of_the_newer_transport_is_no_reason_to_try_it() {
    for status in [401, 403, 406, 415, 500, 502] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({"post": status}));
        let error = chain(&stage.open(endpoint.spec("/sse")).await.expect_err("refused"));
        assert!(error.contains(&format!("answers {status}")), "{error}");
        assert!(!sent(&endpoint).iter().any(|line| line.starts_with("GET")), "{status}");
    }
}

#[tokio::test]
async fn of_two_failures_the_first_is_told() {
    let stage = Stage::new();
    let endpoint =
        Endpoint::start(&stage, json!({"probe": [404, "nothing here"], "init": [404, "nothing here"]}));
    let error = chain(&stage.open(endpoint.spec("/mcp")).await.expect_err("neither"));
    assert!(error.contains("/mcp: it answers 404: nothing here"), "{error}");
}

#[tokio::test]
async fn a_manifest_or_an_earlier_start_saves_the_tries() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let mut spec = endpoint.spec("/sse");
    spec.opening = Opening::Older;
    stage.open(spec).await.unwrap();
    assert_eq!(sent(&endpoint)[0], "GET /sse ");
}

#[tokio::test]
async fn nothing_is_sent_to_a_place_at_another_origin_and_only_the_first_place_counts() {
    let stage = Stage::new();
    let other = Endpoint::start(&stage, json!({}));
    let elsewhere = format!("http://127.0.0.1:{}/messages?sid=%s", other.port);
    for (named, wanted) in [
        (json!([elsewhere]), "instead of http://127.0.0.1:"),
        (json!(["http://0.0.0.0:PORT/messages?sid=%s"]), "the address that it listens on"),
        (json!(["http://127.0.0.1:PORT@evil.example/m"]), "evil.example"),
        (json!(["javascript:alert(1)"]), "no http or https URL"),
    ] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({"endpoint": named}));
        let error = chain(&stage.open(endpoint.spec("/sse")).await.expect_err(wanted));
        assert!(error.contains(wanted), "{error}");
        assert!(!sent(&endpoint).iter().any(|line| line.contains("/messages")));
    }
    let endpoint =
        Endpoint::start(&stage, json!({"endpoint": ["/messages?sid=%s", elsewhere, "/messages?sid=none"]}));
    let tool = opened(&stage, &endpoint).await;
    call(&tool, "echo", "{}").await.unwrap();
    assert!(other.received().iter().all(|entry| entry["path"] != "/messages"));
    let full = Endpoint::start(&stage, json!({"endpoint": ["http://127.0.0.1:PORT/messages?sid=%s"]}));
    opened(&stage, &full).await;
}

#[tokio::test]
async fn a_server_that_names_no_place_is_not_waited_for_for_ever() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"endpoint": []}));
    let mut spec = endpoint.spec("/sse");
    (spec.opening, spec.limits.start) = (Opening::Older, Duration::from_millis(300));
    let error = chain(&stage.open(spec).await.expect_err("silent"));
    assert!(error.contains("named no place for messages"), "{error}");
}

#[tokio::test]
async fn what_the_server_says_on_its_own_is_heard_before_the_answer() {
    let mut stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = opened(&stage, &endpoint).await;
    call(&tool, "change", "{}").await.unwrap();
    assert!(matches!(stage.event_now(), Some(ToolEvent::ListChanged)));
    let ponged = || {
        endpoint
            .received()
            .iter()
            .any(|e| e["body"].as_str().is_some_and(|b| b.contains(r#""id":"mine","result":{}"#)))
    };
    until("the ping was answered", ponged).await;
    let error = call(&tool, "spoilt", "{}").await.expect_err("NaN");
    assert!(matches!(error, Error::Unreadable(_)), "{error}");
}

#[tokio::test]
async fn a_stream_that_ends_fails_its_calls_and_is_opened_again() {
    let mut stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = opened(&stage, &endpoint).await;
    endpoint.set(&json!({"drop": true})).await;
    let error = call(&tool, "echo", "{}").await.expect_err("its stream is gone");
    assert!(matches!(error, Error::StreamEnded { .. }) && error.may_have_run(), "{error:?}");
    let error = call(&tool, "echo", "{}").await;
    // Whoever comes before the stream is open again opens it, and lists first.
    if let Err(error) = &error {
        assert!(matches!(error, Error::SessionLost { .. }) && !error.may_have_run(), "{error:?}");
    }
    assert!(matches!(stage.event().await, ToolEvent::Reconnected));
    assert_eq!(value(&call(&tool, "echo", "{}").await.unwrap().0)["structuredContent"], json!({}));
    assert_eq!(sent(&endpoint).iter().filter(|line| line.starts_with("GET")).count(), 2);
}

#[tokio::test]
async fn a_session_that_the_server_forgot_took_nothing() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = opened(&stage, &endpoint).await;
    endpoint.set(&json!({"drop": true, "dropped_first": true})).await;
    let error = call(&tool, "echo", "{}").await.expect_err("forgotten");
    assert!(matches!(error, Error::SessionLost { .. }) && !error.may_have_run(), "{error:?}");
    let mut again = Call::new("echo", None);
    again.repeated = true;
    send(&tool, again).await.unwrap();
}

#[tokio::test]
async fn a_cancelled_call_is_told_and_a_stopped_tool_hangs_up() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = opened(&stage, &endpoint).await;
    let mut call_ = Call::new("stuck", None);
    call_.deadline = Duration::from_millis(100);
    let error = send(&tool, call_).await.expect_err("never answered");
    assert!(matches!(error, Error::TimedOut { sent: true, .. }), "{error:?}");
    let told = || endpoint.received().iter().any(|entry| entry["rpc"] == "notifications/cancelled");
    until("the server was told", told).await;
    tool.stop().await;
    assert!(matches!(call(&tool, "echo", "{}").await, Err(Error::Stopped { sent: false })));
}
