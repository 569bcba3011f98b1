//! The demo's MCP server over both transports and eras, as a client sees it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A demo tool with pipes.
struct Tool {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Tool {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
            .arg("demo-tool")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout) }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn read(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = self.read();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                             "io.modelcontextprotocol/clientCapabilities": {}});
    params
}

fn control(path: &Path, description: &str) {
    let entry = json!({"name": "hello", "description": description, "inputSchema": {"type": "object"}});
    let partial = path.with_extension("new");
    std::fs::write(&partial, json!({"tools": [entry]}).to_string()).unwrap();
    std::fs::rename(partial, path).unwrap();
}

#[test]
fn the_handshake_lists_calls_and_tells_of_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (file, log) = (folder.path().join("control.json"), folder.path().join("calls.jsonl"));
    control(&file, "one");
    let mut tool = Tool::start(&["--control", file.to_str().unwrap(), "--log", log.to_str().unwrap()]);
    let hello = tool.ask(1, "initialize", &json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(hello["result"]["capabilities"]["tools"]["listChanged"], true);
    tool.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let list = tool.ask(2, "tools/list", &json!({}));
    assert_eq!(list["result"]["tools"][0]["description"], "one");
    let called = tool.ask(3, "tools/call", &json!({"name": "hello", "arguments": {"name": "Ada"}}));
    assert_eq!(called["result"]["content"][0]["text"], "Hello, Ada!");
    assert!(std::fs::read_to_string(&log).unwrap().contains(r#""function":"hello""#));
    control(&file, "two");
    assert_eq!(tool.read()["method"], "notifications/tools/list_changed");
    let list = tool.ask(4, "tools/list", &json!({}));
    assert_eq!(list["result"]["tools"][0]["description"], "two");
}

#[test]
fn the_modern_era_discovers_and_tells_of_changes_on_a_subscription() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("control.json");
    control(&file, "one");
    let mut tool = Tool::start(&["--control", file.to_str().unwrap()]);
    let found = tool.ask(1, "server/discover", &modern(json!({})));
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    tool.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen",
                      "params": modern(json!({"notifications": {"toolsListChanged": true}}))}));
    assert_eq!(tool.read()["method"], "notifications/subscriptions/acknowledged");
    control(&file, "two");
    let told = tool.read();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 2);
    let list = tool.ask(3, "tools/list", &modern(json!({})));
    assert_eq!(list["result"]["resultType"], "complete");
}

#[test]
fn a_handshake_only_tool_does_not_discover() {
    let mut tool = Tool::start(&["--handshake-only"]);
    assert_eq!(tool.ask(1, "server/discover", &modern(json!({})))["error"]["code"], -32601);
}

#[test]
fn unreadable_lines_and_unknown_functions_are_errors_and_not_the_end() {
    let mut tool = Tool::start(&[]);
    writeln!(tool.stdin, "not JSON").unwrap();
    assert_eq!(tool.read()["error"]["code"], -32700);
    assert_eq!(tool.ask(1, "tools/call", &json!({"name": "reboot"}))["error"]["code"], -32602);
    assert_eq!(tool.ask(2, "ping", &json!({}))["result"], json!({}));
}

#[test]
fn it_ends_when_stdin_does() {
    for args in [[].as_slice(), &["--http", "127.0.0.1:0", "--until-stdin-ends"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
            .arg("demo-tool")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "{args:?}");
    }
}

#[test]
fn over_http_it_answers_at_the_printed_url_and_streams_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("control.json");
    control(&file, "one");
    let mut tool =
        Tool::start(&["--http", "127.0.0.1:0", "--until-stdin-ends", "--control", file.to_str().unwrap()]);
    let url = tool.line().trim().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = reqwest::Client::new();
        let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        let list: Value = http.post(&url).json(&ask).send().await.unwrap().json().await.unwrap();
        assert_eq!(list["result"]["tools"][0]["description"], "one");
        let mut events = http.get(&url).send().await.unwrap();
        control(&file, "two");
        let event = events.chunk().await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&event).contains("notifications/tools/list_changed"));
        let foreign =
            http.post(&url).header("origin", "https://evil.example").json(&ask).send().await.unwrap();
        assert_eq!(foreign.status(), 403);
    });
}

#[test]
fn it_does_not_listen_beyond_this_machine() {
    let output = Command::new(env!("CARGO_BIN_EXE_pintle"))
        .args(["demo-tool", "--http", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
