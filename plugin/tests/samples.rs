//! The examples and templates: they lint clean, pack, and their servers answer as MCP asks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails here has found a fault")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plugin::init::{Template, init};
use plugin::{bundle, lint};
use serde_json::{Value, json};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

#[test]
fn every_example_lints_clean_and_packs() {
    for name in ["hello", "remote"] {
        assert_eq!(lint::lint(&example(name)), [], "{name}");
        let out = tempfile::tempdir().unwrap();
        let packed = bundle::pack(&example(name), out.path(), &mut |_, _| {}).unwrap();
        assert_eq!(packed.path.file_name().unwrap().to_str(), Some(&*format!("{name}-1.0.0.pintle")));
    }
}

/// What the server answers to these lines, one answer a line.
fn talk(server: &Path, lines: &[String]) -> Vec<Value> {
    let mut child =
        Command::new("python3").arg(server).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn check(server: &Path) {
    let hello = |arguments: Value| json!({"name": "hello", "arguments": arguments});
    let answers = talk(
        server,
        &[
            "no json".to_owned(),
            request(1, "initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}})),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
            request(2, "tools/list", &json!({})),
            request(3, "tools/call", &hello(json!({"name": "Zo\u{eb}"}))),
            request(4, "tools/call", &hello(json!({"name": 1}))),
            request(5, "tools/call", &json!({"name": "other"})),
            request(6, "resources/list", &json!({})),
            request(7, "ping", &json!({})),
            request(8, "initialize", &json!({"protocolVersion": "1999-01-01"})),
        ],
    );
    assert_eq!(answers.len(), 9, "a notification was answered: {answers:#?}");
    assert_eq!(answers[0]["error"]["code"], -32700);
    assert_eq!(answers[1]["result"]["protocolVersion"], "2025-11-25");
    let first = &answers[2]["result"]["tools"][0];
    assert_eq!((&first["name"], &first["inputSchema"]["type"]), (&json!("hello"), &json!("object")));
    assert_eq!(answers[3]["result"]["content"][0]["text"], "Hello, Zo\u{eb}!");
    assert_eq!(answers[4]["result"]["isError"], true);
    assert_eq!(answers[5]["error"]["code"], -32602);
    assert_eq!(answers[6]["error"]["code"], -32601);
    assert_eq!(answers[7]["result"], json!({}));
    assert_eq!(answers[8]["result"]["protocolVersion"], "2025-11-25");
}

#[test]
fn the_example_server_answers_as_the_protocol_asks() {
    check(&example("hello").join("server.py"));
}

#[test]
fn the_server_of_a_new_plugin_answers_as_the_protocol_asks() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("mine");
    init(&plugin, Template::Python).unwrap();
    check(&plugin.join("server.py"));
}
