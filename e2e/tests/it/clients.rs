//! Real clients of a node's endpoint: the SDKs, the Inspector, and the bridge for stdio.

use e2e::fleet::Fleet;
use e2e::mutable::Mutable;
use e2e::process::{here, node_js, npm, pintle, previous_python, python};
use serde_json::{Value, json};
use tokio::process::Command;

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;

async fn stage() -> (Fleet, Mutable) {
    let fleet = Fleet::start(1).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    (fleet, team)
}

/// What a client script prints: the names it was listed and the result it was given.
async fn output(mut command: Command) -> String {
    let output = command.kill_on_drop(true).output().await.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout.into_owned()
}

fn check(printed: &str) {
    let value: Value = serde_json::from_str(printed.trim()).unwrap_or_else(|_| panic!("{printed}"));
    assert_eq!(value["tools"], json!(["team__hello"]));
    assert_eq!(value["result"]["content"][0]["text"], r#"hello({"name": "Ada"})"#);
}

#[tokio::test]
async fn both_typescript_sdks_list_and_call_the_newer_one_in_both_families_of_revisions() {
    let (fleet, _team) = stage().await;
    let script = |name: &str, mode: &[&str]| {
        let mut command = Command::new(node_js());
        command.arg(here().join("peers").join(name)).args([&fleet.mcp(0).url, &fleet.mcp(0).token]);
        command.args(mode).args(["team__hello", r#"{"name":"Ada"}"#]);
        command
    };
    check(&output(script("client.mjs", &[])).await);
    for mode in ["legacy", "2026-07-28"] {
        check(&output(script("client2.mjs", &[mode])).await);
    }
}

#[tokio::test]
async fn both_python_sdks_list_and_call() {
    let (fleet, _team) = stage().await;
    for (python, script) in [(python(), "client.py"), (previous_python(), "previous.py")] {
        let mut command = Command::new(python);
        command.arg(here().join("peers").join(script)).args([&fleet.mcp(0).url, &fleet.mcp(0).token]);
        command.args(["team__hello", r#"{"name":"Ada"}"#]);
        check(&output(command).await);
    }
}

#[tokio::test]
async fn the_inspector_lists_and_calls() {
    let (fleet, _team) = stage().await;
    let inspect = |more: &[&str]| {
        let mut command = Command::new(node_js());
        command.arg(npm(".bin/mcp-inspector")).args([
            "--cli",
            &fleet.mcp(0).url,
            "--transport",
            "http",
            "--header",
        ]);
        command.arg(format!("Authorization: Bearer {}", fleet.mcp(0).token)).args(more);
        command.env("HOME", fleet.folder());
        command
    };
    let list = output(inspect(&["--method", "tools/list"])).await;
    assert!(list.contains("team__hello"), "{list}");
    let call = ["--method", "tools/call", "--tool-name", "team__hello", "--tool-arg", "name=Ada"];
    let call = output(inspect(&call)).await;
    assert!(call.contains(r#"hello({\"name\": \"Ada\"})"#), "{call}");
}

#[tokio::test]
async fn the_rust_sdk_lists_and_calls_in_both_eras() {
    use rmcp::model::{CallToolRequestParams, ProtocolVersion};
    use rmcp::transport::StreamableHttpClientTransport;
    use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
    use rmcp::{ClientLifecycleMode, ServiceExt as _, serve_client_with_lifecycle};

    let (fleet, _team) = stage().await;
    let arguments = json!({"name": "Ada"}).as_object().cloned().unwrap();
    let transport = || {
        let config = StreamableHttpClientTransportConfig::with_uri(fleet.mcp(0).url.clone());
        StreamableHttpClientTransport::from_config(config.auth_header(fleet.mcp(0).token.clone()))
    };
    let handshake = ().serve(transport()).await.unwrap();
    let discover = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let stateless = serve_client_with_lifecycle((), transport(), discover).await.unwrap();
    for client in [handshake, stateless] {
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["team__hello"]);
        let request = CallToolRequestParams::new("team__hello").with_arguments(arguments.clone());
        let result = client.call_tool(request).await.unwrap();
        let text = serde_json::to_value(&result).unwrap()["content"][0]["text"].clone();
        assert_eq!(text, r#"hello({"name": "Ada"})"#);
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn the_rust_sdk_before_the_stateless_revision_lists_and_calls() {
    use rmcp_previous::ServiceExt as _;
    use rmcp_previous::model::CallToolRequestParams;
    use rmcp_previous::transport::StreamableHttpClientTransport;
    use rmcp_previous::transport::streamable_http_client::StreamableHttpClientTransportConfig;

    let (fleet, _team) = stage().await;
    let config = StreamableHttpClientTransportConfig::with_uri(fleet.mcp(0).url.clone());
    let config = config.auth_header(fleet.mcp(0).token.clone());
    let client = ().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["team__hello"]);
    let arguments = json!({"name": "Ada"}).as_object().cloned().unwrap();
    let request = CallToolRequestParams::new("team__hello").with_arguments(arguments);
    let result = serde_json::to_value(client.call_tool(request).await.unwrap()).unwrap();
    assert_eq!(result["content"][0]["text"], r#"hello({"name": "Ada"})"#);
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn the_rust_sdk_lists_and_calls_over_the_stdio_bridge() {
    use rmcp::ServiceExt as _;
    use rmcp::model::CallToolRequestParams;
    use rmcp::transport::TokioChildProcess;

    let (fleet, _team) = stage().await;
    let mut command = Command::new(pintle().unwrap());
    command.args(["mcp", "--endpoint", &fleet.mcp(0).url, "--node-data"]).arg(fleet.folder().join("node-1"));
    let client = ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["team__hello"]);
    let result = client.call_tool(CallToolRequestParams::new("team__hello")).await.unwrap();
    let text = serde_json::to_value(&result).unwrap()["content"][0]["text"].clone();
    assert_eq!(text, "hello({})");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn the_command_calls_and_tells_a_refusal_by_its_exit_code() {
    let (fleet, team) = stage().await;
    let node = fleet.folder().join("node-1").to_string_lossy().into_owned();
    let url = fleet.mcp(0).url.clone();
    let call = ["call", "team.hello", r#"{"name":"Ada"}"#, "--endpoint", &url, "--node-data", &node];
    assert!(fleet.cli(&call).await.unwrap().contains(r#"hello({"name": "Ada"})"#));
    team.list(&[&HELLO.replace("hello.", "nothing.")]).unwrap();
    fleet.refused("team.hello", "drifted").await;
    let output = fleet.cli_output(&call).await.unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("pintle plugin approve-tools greeter"));
}
