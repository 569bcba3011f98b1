//! `pintle demo` and `pintle up` as a stranger runs them.

use std::process::Stdio;

use e2e::process::{Process, pintle};
use tokio::process::Command;

#[tokio::test]
async fn the_demo_observes_every_step() {
    let output = Command::new(pintle().unwrap())
        .arg("demo")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for told in [r"\u{E00", "endpoint moved", "pintle plugin approve-tools", "plugin.tools.approve"] {
        assert!(text.contains(told), "{told} is not in {text}");
    }
}

#[tokio::test]
async fn up_starts_stops_and_starts_again_with_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let up = || {
        let mut command = Command::new(pintle().unwrap());
        command.arg("--data").arg(folder.path()).args(["up", "--json", "--listen", "127.0.0.1:0"]);
        command.args(["--node-listen", "127.0.0.1:0", "--mcp-listen", "127.0.0.1:0"]);
        Process::start(command, &folder.path().join("up.log")).unwrap()
    };
    let mut first = up();
    first.json().await.unwrap();
    let cli = |words: &'static [&'static str]| {
        let mut command = Command::new(pintle().unwrap());
        command.arg("--data").arg(folder.path()).args(words).stdin(Stdio::null());
        async move { command.output().await.unwrap() }
    };
    assert!(cli(&["edge", "create", "mine"]).await.status.success());
    assert!(first.terminate().await.unwrap().success());
    let mut second = up();
    second.json().await.unwrap();
    let edges = cli(&["edge", "list"]).await;
    let edges = String::from_utf8_lossy(&edges.stdout);
    assert!(edges.contains("mine") && edges.contains("local"), "{edges}");
    let nodes = cli(&["node", "list", "--json"]).await;
    let nodes: serde_json::Value = serde_json::from_slice(&nodes.stdout).unwrap();
    let count = nodes.as_array().or_else(|| nodes["items"].as_array()).unwrap().len();
    assert_eq!(count, 1, "the node is the same as before");
}
