//! Real tool servers, from npm and `PyPI`, as tools of a node.

use e2e::fleet::Fleet;
use e2e::process::{Process, here, node_js, npm, python};
use serde_json::{Value, json};
use tokio::process::Command;

fn text(path: &std::path::Path) -> Value {
    Value::String(
        path.canonicalize()
            .unwrap_or_else(|_| panic!("{} is missing: scripts/test installs it", path.display()))
            .to_string_lossy()
            .into_owned(),
    )
}

#[tokio::test]
async fn the_everything_server_lists_and_calls_through_a_node() {
    let fleet = Fleet::start(1).await.unwrap();
    let script = npm("@modelcontextprotocol/server-everything/dist/index.js");
    let tools = json!({"every": {"command": [text(&node_js()), text(&script)]}});
    fleet.install("everything", "2026.8.31", &tools).await.unwrap();
    fleet.callable("every.echo", json!({"message": "x"})).await;
    let echo = fleet.mcp(0).call("every__echo", json!({"message": "Grüße"})).await.unwrap();
    assert_eq!(echo.text, "Echo: Grüße");
    let sum = fleet.mcp(0).call("every__get-sum", json!({"a": 2, "b": 40})).await.unwrap();
    assert!(sum.text.contains("42"), "{sum:?}");
    let bad = fleet.mcp(0).call("every__get-sum", json!({"a": "two", "b": 40})).await.unwrap();
    assert_eq!(bad.refusal.as_deref(), Some("bad_arguments"), "{bad:?}");
    assert!(fleet.mcp(0).names().await.unwrap().len() >= 8);
}

#[tokio::test]
async fn the_filesystem_server_reads_only_through_its_approved_functions() {
    let fleet = Fleet::start(1).await.unwrap();
    let script = npm("@modelcontextprotocol/server-filesystem/dist/index.js");
    let folder = fleet.folder().join("files");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("note.txt"), "a note").unwrap();
    let tools = json!({"files": {"command": [text(&node_js()), text(&script), text(&folder)]}});
    fleet.install("files", "1.0.0", &tools).await.unwrap();
    let path = folder.canonicalize().unwrap().join("note.txt");
    fleet.callable("files.read_text_file", json!({"path": path})).await;
    let note = fleet.mcp(0).call("files__read_text_file", json!({"path": path})).await.unwrap();
    assert_eq!(note.text, "a note");
}

#[tokio::test]
async fn the_time_server_speaks_the_stateless_era_and_answers() {
    let fleet = Fleet::start(1).await.unwrap();
    let tools = json!({"clock": {"command": [text(python().parent().unwrap()).as_str().unwrap().to_owned() + "/python", "-m", "mcp_server_time"]}});
    fleet.install("clock", "1.0.0", &tools).await.unwrap();
    fleet.callable("clock.get_current_time", json!({"timezone": "Europe/Berlin"})).await;
    let time =
        fleet.mcp(0).call("clock__get_current_time", json!({"timezone": "Europe/Berlin"})).await.unwrap();
    assert!(time.text.contains("Europe/Berlin") && !time.is_error, "{time:?}");
}

#[tokio::test]
async fn a_fastmcp_server_over_http_lists_and_calls_through_a_node() {
    let fleet = Fleet::start(1).await.unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(python());
    command.arg(here().join("fixtures/fastmcp_server.py")).arg(port.to_string());
    let _process = Process::start(command, &fleet.folder().join("fastmcp.log")).unwrap();
    e2e::eventually("FastMCP to listen", || tokio::net::TcpStream::connect(("127.0.0.1", port))).await;
    fleet
        .install("weather", "1.0.0", &json!({"wx": {"url": format!("http://127.0.0.1:{port}/mcp")}}))
        .await
        .unwrap();
    fleet.callable("wx.add", json!({"a": 1, "b": 2})).await;
    let sum = fleet.mcp(0).call("wx__add", json!({"a": 1, "b": 2})).await.unwrap();
    assert_eq!(sum.text, "3");
    let today = fleet.mcp(0).call("wx__today", json!({"city": "Oslo"})).await.unwrap();
    assert_eq!(today.text, "Oslo: mild, light wind");
}
