//! Starting: dead, silent, noisy and odd programs each get a sentence; each era is found.

use std::time::Duration;

use serde_json::{Value, json};
use tools::{Era, Opening, StartError};

use super::support::{Stage, call, chain, value};

async fn failure(stage: &Stage, command: &[&str]) -> String {
    chain(&stage.start_spec(stage.command(command)).await.expect_err("it started"))
}

async fn failure_within(stage: &Stage, config: Value, start: Duration) -> String {
    let mut spec = stage.python(config);
    spec.limits.probe = start / 10;
    spec.limits.start = start;
    chain(&stage.start_spec(spec).await.expect_err("it started"))
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_with_the_remedy() {
    let stage = Stage::new();
    let error = failure(&stage, &["no-such-program", "--x"]).await;
    assert!(error.contains("no program `no-such-program` on PATH `/"), "{error}");
    assert!(error.contains("install it on this node"), "{error}");
    let error = failure(&stage, &["/no/such/program"]).await;
    assert!(error.contains("at that path"), "{error}");
    let error = failure(&stage, &["bin/program"]).await;
    assert!(error.contains("under ${plugin}"), "{error}");
    assert!(matches!(stage.start_spec(stage.command(&[])).await, Err(StartError::EmptyCommand)));
}

#[tokio::test]
async fn a_script_whose_interpreter_ends_with_a_carriage_return_is_explained() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    let script = stage.folder.path().join("tool.sh");
    std::fs::write(&script, "#!/bin/sh\r\nexit 0\r\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = failure(&stage, &[script.to_str().unwrap()]).await;
    assert!(error.contains("`/bin/sh\\u{D}`"), "{error}");
    assert!(error.contains("carriage return"), "{error}");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = failure(&stage, &[script.to_str().unwrap()]).await;
    assert!(error.contains("Permission denied"), "{error}");
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_reported_with_its_last_words() {
    let mut stage = Stage::new();
    let config = json!({"exit": 3, "stderr": "loading\nmissing setting API_KEY\u{200B}\n"});
    let error = chain(&stage.start_spec(stage.python(config)).await.expect_err("it started"));
    assert!(error.contains("ended with exit code 3 before it answered"), "{error}");
    assert!(error.contains("missing setting API_KEY\\u{200B}"), "{error}");
    assert!(stage.event_now().is_none(), "the start's error says it already");
}

#[tokio::test]
async fn a_program_that_never_answers_is_told_from_one_that_only_makes_noise() {
    let stage = Stage::new();
    let within = Duration::from_millis(800);
    let error = failure_within(&stage, json!({"mute": true}), within).await;
    assert!(error.contains("did not answer within 0 s; a tool must speak MCP"), "{error}");
    let error = failure_within(&stage, json!({"mute": true, "before": "Hello\nWorld\u{1}\n"}), within).await;
    assert!(error.contains("2 line(s) that are no messages, the first `Hello`"), "{error}");
    let error =
        failure_within(&stage, json!({"mute": true, "before": "{\n \"jsonrpc\": \"2.0\"\n}\n"}), within)
            .await;
    assert!(error.contains("one message must be one line"), "{error}");
}

#[tokio::test]
async fn the_modern_era_is_found_and_every_request_carries_its_metadata() {
    let stage = Stage::new();
    let tool = stage.start(json!({"era": "modern"})).await;
    assert_eq!((tool.era(), &*tool.protocol_version()), (Era::Modern, "2026-07-28"));
    tool.list().await.unwrap();
    let result = call(&tool, "echo", r#"{"a":1}"#).await.unwrap();
    assert_eq!(value(&result.0)["structuredContent"], json!({"a": 1}));
    tool.stop().await;
    for message in stage.received() {
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{message}");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}), "{message}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "pintle", "{message}");
    }
}

#[tokio::test]
async fn any_error_but_a_modern_one_leads_to_the_handshake() {
    let data = json!({"supported": ["2025-06-18"], "requested": "2026-07-28"});
    for config in [
        json!({"probe_code": -32601}),
        json!({"probe_code": -32000}),
        json!({"probe_code": 0}),
        json!({"probe_code": -32022, "probe_data": data}),
    ] {
        let stage = Stage::new();
        assert_eq!(stage.start(config).await.era(), Era::Handshake);
    }
}

#[tokio::test]
async fn a_server_that_stays_silent_before_the_handshake_is_waited_for_shortly() {
    let stage = Stage::new();
    let mut spec = stage.python(json!({"era": "deaf"}));
    spec.limits.probe = Duration::from_millis(100);
    let tool = stage.start_spec(spec).await.unwrap();
    assert_eq!(tool.era(), Era::Handshake);
    let methods: Vec<_> = stage.received().iter().map(|message| message["method"].clone()).collect();
    assert_eq!(methods[..2], ["server/discover", "initialize"]);
}

#[tokio::test]
async fn a_modern_server_that_is_only_slow_stays_modern() {
    let stage = Stage::new();
    let mut spec = stage.python(json!({"era": "late"}));
    spec.limits.probe = Duration::from_millis(50);
    let tool = stage.start_spec(spec).await.unwrap();
    assert_eq!(tool.era(), Era::Modern);
    assert!(tool.list().await.unwrap().list.complete);
}

#[tokio::test]
async fn a_server_that_dies_of_the_probe_is_started_again_without_it() {
    let mut stage = Stage::new();
    let tool = stage.start(json!({"era": "dies"})).await;
    assert_eq!(tool.era(), Era::Handshake);
    assert!(tool.list().await.unwrap().list.complete);
    assert!(stage.event_now().is_none());
}

#[tokio::test]
async fn revisions_that_nobody_has_in_common_are_named_on_both_sides() {
    let stage = Stage::new();
    for config in [
        json!({"version": "2031-01-01"}),
        json!({"era": "modern", "versions": ["2031-01-01"]}),
        json!({"probe_code": -32022, "probe_data": {"supported": ["2031-01-01"]}}),
    ] {
        let error = chain(&stage.start_spec(stage.python(config)).await.expect_err("it started"));
        assert!(error.contains("`2031-01-01`") && error.contains("2026-07-28, 2025-11-25"), "{error}");
    }
    for version in ["2025-06-18", "2025-03-26", "2024-11-05"] {
        let tool = stage.start(json!({ "version": version })).await;
        assert_eq!(&*tool.protocol_version(), version);
    }
}

#[tokio::test]
async fn what_is_known_to_shake_hands_is_not_probed() {
    let stage = Stage::new();
    let mut spec = stage.python(json!({}));
    spec.opening = Opening::Handshake;
    let tool = stage.start_spec(spec).await.unwrap();
    assert_eq!(tool.opening(), Opening::Handshake);
    assert_eq!(stage.received()[0]["method"], "initialize");
    // One that was another when it was last seen is found out all the same.
    let stage = Stage::new();
    let mut spec = stage.python(json!({"era": "modern"}));
    spec.opening = Opening::Handshake;
    let tool = stage.start_spec(spec).await.unwrap();
    assert_eq!((tool.era(), tool.opening()), (Era::Modern, Opening::Probe));
}
