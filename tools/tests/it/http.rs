//! Endpoints: eras, headers, answers in both forms, statuses, addresses, announcements.

use std::sync::Arc;
use std::time::Duration;

use domain::origin::{AddressClass, ClassPolicy};
use serde_json::{Value, json};
use tools::{AddressRefusal, Call, CallError, Era, Error, HeaderParam, ToolEvent};

use super::support::{Endpoint, Stage, call, chain, raw, reports, send, text, until, value};

#[tokio::test]
async fn each_era_lists_and_calls_in_both_forms() {
    for (era, wanted) in [("handshake", Era::Handshake), ("modern", Era::Modern)] {
        for sse in [false, true] {
            let stage = Stage::new();
            let endpoint = Endpoint::start(&stage, json!({"era": era, "sse": sse, "sessions": true}));
            let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
            assert_eq!(tool.era(), wanted);
            let list = tool.list().await.unwrap().list;
            assert!(list.complete);
            assert_eq!(&*list.entries[0], r#"{"name": "echo", "inputSchema": {"type": "object"}}"#);
            let arguments = r#"{"n":1e400,"id":18446744073709551616}"#;
            let result = call(&tool, "echo", arguments).await.unwrap();
            assert!(result.0.get().contains(arguments), "{}", result.0);
            assert!(tool.connected_to().unwrap().ip().is_loopback());
            tool.stop().await;
            // A GET that was under way may be written down after it.
            let received = endpoint.received();
            let is_ended = received.iter().any(|entry| entry["method"] == "DELETE");
            assert_eq!(is_ended, wanted == Era::Handshake, "{received:?}");
        }
    }
}

#[tokio::test]
async fn modern_requests_mirror_their_metadata_in_headers() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"era": "modern"}));
    let mut spec = endpoint.spec("/mcp");
    spec.headers = http::HeaderMap::from_iter([(
        "authorization".parse::<http::HeaderName>().unwrap(),
        "Bearer s3cret".parse().unwrap(),
    )])
    .into();
    let tool = stage.open(spec).await.unwrap();
    let mut call_ =
        Call::new("echo", Some(raw(r#"{"city":"Zürich","deep":{"n":7,"b":true},"gone":null,"f":[1]}"#)));
    let param = |name: &str, path: &[&str]| HeaderParam {
        name: name.into(),
        path: path.iter().map(|&part| part.into()).collect(),
    };
    call_.header_params = vec![
        param("City", &["city"]),
        param("N", &["deep", "n"]),
        param("B", &["deep", "b"]),
        param("Gone", &["gone"]),
        param("Absent", &["x", "y"]),
        param("List", &["f"]),
    ];
    send(&tool, call_).await.unwrap();
    let got = endpoint.received().into_iter().find(|entry| entry["rpc"] == "tools/call").unwrap();
    let headers = &got["headers"];
    for (name, wanted) in [
        ("mcp-protocol-version", json!("2026-07-28")),
        ("mcp-method", json!("tools/call")),
        ("mcp-name", json!("echo")),
        ("mcp-param-city", json!("=?base64?WsO8cmljaA==?=")),
        ("mcp-param-n", json!("7")),
        ("mcp-param-b", json!("true")),
        ("mcp-param-gone", Value::Null),
        ("mcp-param-absent", Value::Null),
        ("mcp-param-list", Value::Null),
        ("authorization", json!("Bearer s3cret")),
        ("accept", json!("application/json, text/event-stream")),
        ("mcp-session-id", Value::Null),
    ] {
        assert_eq!(headers.get(name).unwrap_or(&Value::Null), &wanted, "{name}");
    }
}

#[tokio::test]
async fn the_handshake_sends_session_and_version_and_no_modern_header() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true, "version": "2025-06-18"}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    call(&tool, "echo", "{}").await.unwrap();
    let got = endpoint.received().into_iter().find(|entry| entry["rpc"] == "tools/call").unwrap();
    let headers = &got["headers"];
    assert_eq!(headers["mcp-session-id"], "s1");
    assert_eq!(headers["mcp-protocol-version"], "2025-06-18");
    assert!(headers.get("mcp-method").is_none());
}

#[tokio::test]
async fn bad_answers_to_the_opening_each_get_their_sentence() {
    let not_found = json!([404, ""]);
    for (config, wanted) in [
        (json!({"probe": not_found, "init": not_found}), "/mcp: it answers 404"),
        (json!({"probe": [401, ""]}), "needs (other) credentials"),
        (json!({"probe": [403, "no"]}), "it answers 403"),
        (json!({"probe": [500, "boom\u{7}"]}), "it answers 500: boom\\u{7}"),
        (
            json!({"probe": [200, "<html>", "text/html"]}),
            "answers with text/html, so this is not an MCP endpoint",
        ),
        (json!({"era": "modern", "versions": ["2031-01-01"]}), "it offers `2031-01-01`"),
        (json!({"version": "2031-01-01"}), "it offers `2031-01-01`"),
        (
            json!({"init": [200, r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"closed today"}}"#]}),
            "closed today",
        ),
    ] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, config);
        let error = chain(&stage.open(endpoint.spec("/mcp")).await.expect_err(wanted));
        assert!(error.contains(wanted), "{error}");
    }
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let mut spec = endpoint.spec("/mcp");
    drop(endpoint);
    spec.limits.start = Duration::from_secs(5);
    let error = chain(&stage.open(spec).await.expect_err("nobody is there"));
    assert!(error.contains("reach http://127.0.0.1:") && error.contains("refused"), "{error}");
}

#[tokio::test]
async fn fallbacks_lead_to_the_handshake() {
    for probe in
        [json!([400, "what?"]), json!([404, ""]), json!([405, ""]), json!([202, ""]), json!("<never>")]
    {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({ "probe": probe }));
        let mut spec = endpoint.spec("/mcp");
        spec.limits.probe = Duration::from_millis(100);
        let tool = stage.open(spec).await.expect("it opens");
        assert_eq!(tool.era(), Era::Handshake, "{probe}");
    }
}

#[tokio::test]
async fn a_modern_endpoint_that_is_only_slow_stays_modern() {
    let stage = Stage::new();
    let decline = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"","data":{"supported":["2026-07-28"]}}}"#;
    let endpoint = Endpoint::start(&stage, json!({"era": "modern", "late": true, "init": [400, decline]}));
    let mut spec = endpoint.spec("/mcp");
    spec.limits.probe = Duration::from_millis(50);
    assert_eq!(stage.open(spec).await.unwrap().era(), Era::Modern);
}

/// Case C19, event streams.
#[tokio::test]
async fn event_streams_follow_the_standard_byte_by_byte() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/C19-framing.json");
    let case: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"era": "modern"}));
    for row in case["sse"].as_array().unwrap() {
        let id = row["id"].as_str().unwrap();
        endpoint.set(&json!({"chunks": row["chunks"]})).await;
        // A fresh tool, whose list is its second request, as in the case.
        let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
        let list = tool.list().await;
        match id {
            "stream-ends-without-blank-line" => {
                assert!(matches!(list, Err(Error::StreamEnded { .. })), "{list:?}");
            }
            // It cuts inside a string, where the line feed that joins the parts is no white space.
            "two-data-lines" => assert!(matches!(list, Err(Error::Unreadable(_))), "{list:?}"),
            _ => assert!(list.unwrap().list.entries[0].contains("grüße"), "{id}"),
        }
    }
}

#[tokio::test]
async fn progress_comes_before_the_answer_on_its_own_stream() {
    for era in ["handshake", "modern"] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({ "era": era }));
        let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
        let mut call_ = Call::new("progress", None);
        let mut receiver = reports(&mut call_);
        assert_eq!(text(&send(&tool, call_).await.unwrap()), "done");
        let got = receiver.recv().await.unwrap().with_token(&raw("1"));
        assert_eq!(got, r#"{"progressToken":1,"progress":1.50,"total":9007199254740993}"#);
        assert!(receiver.recv().await.is_none(), "the other token's is nobody's");
    }
}

#[tokio::test]
async fn a_stream_that_ends_before_its_answer_is_taken_up_where_it_ended() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true, "announces": false}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    let mut later = Call::new("later", Some(raw(r#"{"retry":150,"streams":2}"#)));
    let mut told = reports(&mut later);
    let begun = std::time::Instant::now();
    assert_eq!(text(&send(&tool, later).await.unwrap()), "later");
    assert!(begun.elapsed().as_millis() >= 450, "three streams, and the server's time before each");
    assert!(told.try_recv().is_ok());
    let named = |entry: &Value| entry["headers"]["last-event-id"].as_str().map(str::to_owned);
    let received = endpoint.received();
    assert_eq!(received.iter().filter_map(named).collect::<Vec<_>>(), ["at-1", "at-2", "at-3"]);
    let gets = received.iter().filter(|entry| named(entry).is_some());
    assert!(gets.clone().all(|get| get["headers"]["mcp-session-id"] == "s1"), "{gets:?}");
    let error =
        call(&tool, "later", r#"{"retry":1,"streams":0,"get":405}"#).await.expect_err("not to be had");
    assert!(matches!(error, Error::StreamEnded { .. }) && error.may_have_run(), "{error}");
}

#[tokio::test]
async fn streams_are_not_taken_up_in_the_modern_era() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"era": "modern"}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    let error = call(&tool, "later", r#"{"retry":1,"streams":0}"#).await.expect_err("it ended");
    assert!(matches!(error, Error::StreamEnded { .. }), "{error}");
    assert!(endpoint.received().iter().all(|entry| entry["method"] != "GET"));
}

#[tokio::test]
async fn a_cancelled_call_closes_its_stream_and_the_handshake_era_is_told_too() {
    for era in ["handshake", "modern"] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({ "era": era }));
        let tool = Arc::new(stage.open(endpoint.spec("/mcp")).await.unwrap());
        let mut call_ = Call::new("slow", None);
        let mut receiver = reports(&mut call_);
        let cancel = call_.cancel.clone();
        let waiting = tokio::spawn({
            let tool = Arc::clone(&tool);
            async move { send(&tool, call_).await }
        });
        receiver.recv().await.unwrap();
        cancel.cancel();
        assert!(matches!(waiting.await.unwrap(), Err(Error::Cancelled)));
        until("the stream is closed", || endpoint.received().iter().any(|e| e.get("closed").is_some())).await;
        let told = || endpoint.received().iter().any(|entry| entry["rpc"] == "notifications/cancelled");
        if era == "handshake" {
            until("the tool was told", told).await;
        } else {
            assert!(!told());
        }
    }
}

#[tokio::test]
async fn a_refused_call_is_no_request() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    let refused = tool.call(Call::new("echo", None), || Err(5)).await;
    assert!(matches!(refused, Err(CallError::Refused(5))), "{refused:?}");
    // Allowed when asked first, and no more when the connection is there.
    let asked = std::sync::atomic::AtomicU32::new(0);
    let refused = tool.call(Call::new("echo", None), move || {
        if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 { Ok(()) } else { Err(6) }
    });
    assert!(matches!(refused.await, Err(CallError::Refused(6))));
    call(&tool, "echo", r#"{"a":2}"#).await.unwrap();
    let calls: Vec<_> =
        endpoint.received().into_iter().filter(|entry| entry["rpc"] == "tools/call").collect();
    assert_eq!(calls.len(), 1);
}

#[tokio::test]
async fn statuses_and_odd_answers_fail_their_call_with_the_reason() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let mut spec = endpoint.spec("/mcp");
    spec.limits.message_bytes = 100_000;
    let tool = stage.open(spec).await.unwrap();
    let status = |arguments: Value| {
        let arguments = arguments.to_string();
        let tool = &tool;
        async move { call(tool, "status", &arguments).await.expect_err("a bad status") }
    };
    let error = status(json!({"code": 503, "headers": [["Retry-After", "7"]]})).await;
    assert!(
        matches!(error, Error::Status { status: 503, retry_after: Some(wait), .. } if wait.as_secs() == 7)
    );
    let error = status(json!({"code": 401, "headers": [["WWW-Authenticate", "Bearer x"]]})).await;
    assert!(
        matches!(error, Error::Unauthorized { status: 401, challenge: Some(ref c), .. } if &**c == "Bearer x")
    );
    let error = status(json!({"code": 404})).await;
    assert!(matches!(error, Error::Status { status: 404, .. }), "no session, no new one: {error}");
    let error = call(&tool, "html", "{}").await.expect_err("a page");
    assert!(matches!(error, Error::NotMcp { .. }), "{error}");
    let error = call(&tool, "cut", "{}").await.expect_err("cut");
    assert!(matches!(error, Error::Unreachable { sent: true, .. }) && error.may_have_run(), "{error:?}");
    let error = call(&tool, "spoilt", "{}").await.expect_err("spoilt");
    assert!(chain(&error).contains("not JSON at byte"), "{error}");
    for sse in [false, true] {
        endpoint.set(&json!({ "sse": sse })).await;
        let error = call(&tool, "big", r#"{"bytes":200000}"#).await.expect_err("too long");
        assert!(matches!(error, Error::TooLong { limit: 100_000, .. }), "{error}");
        call(&tool, "big", r#"{"bytes":50000}"#).await.unwrap();
    }
    let error = call(&tool, "nothing", "{}").await.expect_err("unknown");
    assert!(matches!(error, Error::Rpc(ref rpc) if rpc.code == -32602), "{error}");
    assert_eq!(endpoint.received().iter().filter(|entry| entry["rpc"] == "initialize").count(), 1);
}

#[tokio::test]
async fn result_types_that_we_do_not_carry_are_told() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"era": "modern"}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    assert!(matches!(call(&tool, "input", "{}").await, Err(Error::InputRequired(_))));
    let error = call(&tool, "odd", r#"{"type":"task"}"#).await.expect_err("unknown");
    assert!(matches!(error, Error::ResultType(ref kind) if &**kind == "task"), "{error}");
}

#[tokio::test]
async fn questions_of_a_server_to_an_agent_that_cannot_be_asked_are_declined() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    assert_eq!(text(&call(&tool, "ask", "{}").await.unwrap()), "asked");
    let declined = || {
        endpoint.received().iter().any(|entry| {
            let body = entry["body"].as_str().unwrap_or_default();
            body.contains(r#""id":"mine","error":{"code":-32603"#)
        })
    };
    until("it was declined", declined).await;
}

#[tokio::test]
async fn announcements_come_on_the_stream_that_is_kept_open() {
    for (era, kind) in [("handshake", "GET"), ("modern", "POST")] {
        let mut stage = Stage::new();
        let endpoint = Endpoint::start(&stage, json!({"era": era, "get": 200, "sessions": true}));
        let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        endpoint.push_to_stream(changed).await;
        assert!(matches!(stage.event().await, ToolEvent::ListChanged), "{era} by {kind}");
        // Cut and opened again: something may have been missed.
        endpoint.set(&json!({"hang_up": true})).await;
        assert!(matches!(stage.event().await, ToolEvent::Reconnected), "{era}");
        endpoint.push_to_stream(changed).await;
        assert!(matches!(stage.event().await, ToolEvent::ListChanged), "{era}");
        tool.stop().await;
    }
}

#[tokio::test]
async fn a_stream_of_who_announces_nothing_is_opened_again_without_a_word() {
    let mut stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"get": 200, "announces": false}));
    let _tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    while endpoint.set(&json!({"hang_up": true})).await == 0 {}
    while endpoint.set(&json!({})).await == 0 {}
    // What it says all the same is heard, and is the first that is.
    endpoint.push_to_stream(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
    assert!(matches!(stage.event().await, ToolEvent::ListChanged));
}

#[tokio::test]
async fn an_announcement_before_an_answer_is_handled_first() {
    let mut stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = stage.open(endpoint.spec("/mcp")).await.unwrap();
    call(&tool, "announce", "{}").await.unwrap();
    assert!(matches!(stage.event_now(), Some(ToolEvent::ListChanged)));
}

#[tokio::test]
async fn addresses_are_judged_before_anything_is_connected_to() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let refused = async |edit: &dyn Fn(&mut tools::UrlSpec)| {
        let mut spec = endpoint.spec("/mcp");
        edit(&mut spec);
        match stage.open(spec).await {
            Err(tools::StartError::Opening(Error::Address { fault, .. })) => fault,
            other => panic!("{other:?}"),
        }
    };
    let named = |spec: &mut tools::UrlSpec| {
        spec.url.set_host(Some("tool.example")).unwrap();
        spec.resolve = vec![("tool.example".to_owned(), "127.0.0.1".parse().unwrap())];
    };
    let no_policy = |spec: &mut tools::UrlSpec| spec.addresses.policy = ClassPolicy::default();
    assert!(matches!(refused(&no_policy).await, AddressRefusal::Class(_)));
    let both = |spec: &mut tools::UrlSpec| {
        named(spec);
        no_policy(spec);
    };
    assert!(matches!(refused(&both).await, AddressRefusal::Class(_)));
    let pinned = |spec: &mut tools::UrlSpec| {
        named(spec);
        spec.addresses.pinned = Some(AddressClass::Public);
    };
    let fault = refused(&pinned).await;
    assert!(fault.to_string().contains("loopback address where a public one is pinned"), "{fault}");
    let metadata = |spec: &mut tools::UrlSpec| {
        named(spec);
        spec.resolve[0].1 = "169.254.169.254".parse().unwrap();
    };
    assert!(matches!(refused(&metadata).await, AddressRefusal::Never(_)));
    let port = endpoint.port;
    let own = move |spec: &mut tools::UrlSpec| spec.addresses.never = vec![([0, 0, 0, 0], port).into()];
    assert_eq!(refused(&own).await, AddressRefusal::OwnListener);
    assert!(endpoint.received().is_empty());
    let mut spec = endpoint.spec("/mcp");
    named(&mut spec);
    let tool = stage.open(spec).await.unwrap();
    assert_eq!(value(&call(&tool, "echo", "{}").await.unwrap().0)["structuredContent"], json!({}));
    assert!(endpoint.received()[0]["headers"]["host"].as_str().unwrap().starts_with("tool.example:"));
}
