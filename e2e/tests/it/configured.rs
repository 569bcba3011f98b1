//! What `pintle up --print-config CLIENT` prints, read as that client documents its file, and used.

use std::path::Path;
use std::process::Stdio;

use e2e::mutable::Mutable;
use e2e::process::{Process, here, pintle, python};
use serde_json::{Value, json};
use tokio::process::Command;

const HELLO: &str =
    r#"{"name":"hello","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;

async fn output(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn cli(data: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(pintle().unwrap());
    command.arg("--data").arg(data).args(words).env_remove("PINTLE_TOKEN");
    command
}

#[tokio::test]
async fn each_clients_printed_configuration_leads_to_the_node() {
    let folder = tempfile::tempdir().unwrap();
    // A name that shells and formats would stumble over.
    let data = folder.path().join("a fleet's \"data\"");
    let mut up = cli(&data, &["up", "--json", "--listen", "127.0.0.1:0"]);
    up.args(["--node-listen", "127.0.0.1:0", "--mcp-listen", "127.0.0.1:0"]);
    let mut up = Process::start(up, &folder.path().join("up.log")).unwrap();
    up.json().await.unwrap();
    let team = Mutable::new(folder.path(), "team");
    team.list(&[HELLO]).unwrap();
    let plugin = folder.path().join("greeter");
    std::fs::create_dir(&plugin).unwrap();
    let tools = json!({"team": {"command": team.command()}});
    let manifest = json!({"name": "greeter", "version": "1.0.0", "description": "Greets.", "tools": tools});
    std::fs::write(plugin.join("pintle.yaml"), manifest.to_string()).unwrap();
    output(cli(&data, &["plugin", "push", &plugin.to_string_lossy()])).await;
    output(cli(&data, &["assign", "greeter@1.0.0", "--edge", "local", "--wait"])).await;
    for (client, file) in
        [("claude-code", ".mcp.json"), ("codex", "config.toml"), ("opencode", "opencode.json")]
    {
        let printed = output(cli(&data, &["up", "--print-config", client])).await;
        assert!(!printed.contains("Bearer"), "{printed}");
        let file = folder.path().join(file);
        std::fs::write(&file, &printed).unwrap();
        let mut command = Command::new(python());
        command.arg(here().join("peers/configured.py")).arg(client).arg(&file);
        command.args(["team__hello", r#"{"name":"Ada"}"#]);
        let said: Value = serde_json::from_str(&output(command).await).unwrap();
        assert_eq!(said["tools"], json!(["team__hello"]), "{client}: {said}");
        assert_eq!(said["result"]["content"][0]["text"], r#"hello({"name": "Ada"})"#, "{client}: {said}");
    }
}
