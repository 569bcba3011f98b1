//! Real tool servers, from npm and `PyPI`, as tools of a node.

use e2e::fleet::Fleet;
use e2e::process::{Process, here, node_js, npm, previous_python, python};
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

/// A page for what fetches pages; until it is dropped.
async fn page() -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/page", listener.local_addr().unwrap());
    let text = axum::response::Html("<html><body><p>A page of the tests.</p></body></html>");
    let router = axum::Router::new().route("/page", axum::routing::get(async move || text));
    (url, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

fn repository(folder: &std::path::Path) {
    for words in [
        &["init", "--quiet"][..],
        &[
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.org",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "Begin",
        ],
    ] {
        let status = std::process::Command::new("git").args(words).current_dir(folder).status().unwrap();
        assert!(status.success(), "git {words:?}");
    }
}

/// Official ones and others, with SDKs of several generations: each lists, calls and answers.
#[tokio::test]
async fn eight_more_servers_from_npm_and_pypi_answer_through_a_node() {
    let fleet = Fleet::start(1).await.unwrap();
    let (url, _page) = page().await;
    let repository_folder = fleet.folder().join("repository");
    std::fs::create_dir(&repository_folder).unwrap();
    repository(&repository_folder);
    let (node, previous) = (text(&node_js()), previous_python().parent().unwrap().to_owned());
    let of_npm = |script: &str| json!({"command": [node, text(&npm(script))]});
    let module = |name: &str, more: &[&str]| {
        let python = text(python().parent().unwrap()).as_str().unwrap().to_owned() + "/python";
        let words = [&[&*python, "-m", name], more].concat();
        json!({"command": words})
    };
    // An environment's commands name its own Python.
    let of_previous = |name: &str, more: &[&str]| {
        let program = text(&previous.join(name)).as_str().unwrap().to_owned();
        let words = [&[&*program], more].concat();
        json!({"command": words})
    };
    let database = fleet.folder().join("data.sqlite").to_string_lossy().into_owned();
    let mut memory = of_npm("@modelcontextprotocol/server-memory/dist/index.js");
    memory["env"] = json!({"MEMORY_FILE_PATH": fleet.folder().join("memory.jsonl")});
    let tools = json!({
        "memory": memory,
        "thinking": of_npm("@modelcontextprotocol/server-sequential-thinking/dist/index.js"),
        "world": of_npm("mcp-hello-world/build/stdio.js"),
        "commands": of_npm("mcp-server-commands/build/index.js"),
        "git": module("mcp_server_git", &[]),
        "fetch": module("mcp_server_fetch", &["--ignore-robots-txt", "--allow-private-ips"]),
        "sqlite": of_previous("mcp-server-sqlite", &["--db-path", &database]),
        "calculator": of_previous("mcp-server-calculator", &[]),
    });
    fleet.install("real", "1.0.0", &tools).await.unwrap();
    let entity =
        json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["writes programs"]}]});
    let thought =
        json!({"thought": "One.", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    let table = [
        ("memory", "create_entities", entity, "writes programs"),
        ("memory", "search_nodes", json!({"query": "programs"}), "Ada"),
        ("thinking", "sequentialthinking", thought, "thoughtHistoryLength"),
        ("world", "add", json!({"a": 2, "b": 40}), "42"),
        ("commands", "run_command", json!({"command": "echo forty-two"}), "forty-two"),
        ("git", "git_log", json!({"repo_path": repository_folder, "max_count": 1}), "Begin"),
        ("fetch", "fetch", json!({"url": url}), "A page of the tests."),
        ("sqlite", "create_table", json!({"query": "CREATE TABLE t (n INTEGER)"}), "created"),
        ("sqlite", "write_query", json!({"query": "INSERT INTO t VALUES (42)"}), "affected_rows"),
        ("sqlite", "read_query", json!({"query": "SELECT n FROM t"}), "42"),
        ("calculator", "calculate", json!({"expression": "6*7"}), "42"),
    ];
    for (tool, function, arguments, wanted) in table {
        let name = format!("{tool}__{function}");
        e2e::eventually(&format!("{name} to be listed"), || async {
            let names = fleet.mcp(0).names().await?;
            anyhow::ensure!(names.contains(&name), "{names:?}");
            Ok(())
        })
        .await;
        let outcome = fleet.mcp(0).call(&name, arguments).await.unwrap();
        assert!(!outcome.is_error && outcome.text.contains(wanted), "{name}: {outcome:?}");
    }
}
