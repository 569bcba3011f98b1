//! Real tool servers that ask during a call, and real clients that answer, through a node: each in both
//! families of revisions.

use e2e::fleet::Fleet;
use e2e::process::{Process, here, node_js, npm, previous_python, python};
use serde_json::{Value, json};
use tokio::process::Command;

const MODERN: &str = "2026-07-28";

/// A node with the reference server (with a handshake) and one of the Python SDK (without).
async fn stage() -> Fleet {
    let fleet = Fleet::start(1).await.unwrap();
    let path = |path: std::path::PathBuf| path.canonicalize().unwrap().to_string_lossy().into_owned();
    let everything = npm("@modelcontextprotocol/server-everything/dist/index.js");
    let python = python().parent().unwrap().join("python").to_string_lossy().into_owned();
    let tools = json!({
        "every": {"command": [path(node_js()), path(everything)]},
        "asking": {"command": [python, path(here().join("fixtures/asking_server.py"))]},
    });
    fleet.install("asking", "1.0.0", &tools).await.unwrap();
    fleet.callable("every.echo", json!({"message": "x"})).await;
    e2e::eventually("greet to be listed", || async {
        let names = fleet.mcp(0).names().await?;
        anyhow::ensure!(names.iter().any(|name| name == "asking__greet"), "{names:?}");
        Ok(())
    })
    .await;
    fleet
}

/// What a client script prints: what it was asked, and the result.
async fn output(mut command: Command) -> Value {
    let output = command.kill_on_drop(true).output().await.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    serde_json::from_str(stdout.trim()).unwrap_or_else(|_| panic!("{stdout}{stderr}"))
}

async fn typescript(fleet: &Fleet, function: &str, arguments: &Value) -> Value {
    let mut command = Command::new(node_js());
    command.arg(here().join("peers/asked.mjs")).args([&fleet.mcp(0).url, &fleet.mcp(0).token]);
    command.args([function, &arguments.to_string()]);
    output(command).await
}

/// The second TypeScript SDK.
async fn typescript_2(fleet: &Fleet, mode: &str, function: &str, arguments: &Value, more: &[&str]) -> Value {
    let mut command = Command::new(node_js());
    command.arg(here().join("peers/client2.mjs")).args([&fleet.mcp(0).url, &fleet.mcp(0).token]);
    command.args([mode, function, &arguments.to_string()]).args(more);
    output(command).await
}

/// The Python SDK of the time before revision 2026-07-28.
async fn by_previous_python(fleet: &Fleet, function: &str, arguments: &Value) -> Value {
    let mut command = Command::new(previous_python());
    command.arg(here().join("peers/previous.py")).args([&fleet.mcp(0).url, &fleet.mcp(0).token]);
    command.args([function, &arguments.to_string()]);
    output(command).await
}

async fn by_python(fleet: &Fleet, mode: &str, function: &str, arguments: &Value) -> Value {
    let mut command = Command::new(python());
    command.arg(here().join("peers/asked.py")).args([&fleet.mcp(0).url, &fleet.mcp(0).token]);
    command.args([mode, function, &arguments.to_string()]);
    output(command).await
}

/// The reference server over HTTP, where its streams say whose call a question is of.
async fn over_http(fleet: &Fleet) -> Process {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(node_js());
    command.arg(npm("@modelcontextprotocol/server-everything/dist/index.js")).arg("streamableHttp");
    command.env("PORT", port.to_string());
    let process = Process::start(command, &fleet.folder().join("everything.log")).unwrap();
    e2e::eventually("it to listen", || tokio::net::TcpStream::connect(("127.0.0.1", port))).await;
    let tools = json!({"web": {"url": format!("http://127.0.0.1:{port}/mcp")}});
    fleet.install("web", "1.0.0", &tools).await.unwrap();
    fleet.callable("web.echo", json!({"message": "x"})).await;
    process
}

fn check_form(printed: &Value) {
    assert_eq!(printed["asked"], json!(["Please provide inputs for the following fields:"]), "{printed}");
    let text = printed["result"]["content"].to_string();
    assert!(text.contains("Ada") && text.contains("accept"), "{printed}");
}

fn check_sample(printed: &Value) {
    assert_eq!(printed["asked"].as_array().unwrap().len(), 1, "{printed}");
    assert!(printed["asked"][0].as_str().unwrap().contains("What is six times seven?"), "{printed}");
    assert!(printed["result"]["content"].to_string().contains("forty-two"), "{printed}");
}

fn check_greeting(printed: &Value) {
    assert_eq!(printed["asked"], json!(["Who are you?"]), "{printed}");
    assert_eq!(printed["result"]["content"][0]["text"], "Hello, Ada!", "{printed}");
}

#[tokio::test]
async fn real_servers_and_clients_ask_and_answer_through_a_node_in_both_families_of_revisions() {
    let fleet = stage().await;
    let (form, sample) = ("every__trigger-elicitation-request", "every__trigger-sampling-request");
    let prompt = json!({"prompt": "What is six times seven?", "maxTokens": 10});
    let hello = json!({"greeting": "Hello"});
    check_form(&typescript(&fleet, form, &json!({})).await);
    check_sample(&typescript(&fleet, sample, &prompt).await);
    check_greeting(&typescript(&fleet, "asking__greet", &hello).await);
    check_form(&by_previous_python(&fleet, form, &json!({})).await);
    check_sample(&by_previous_python(&fleet, sample, &prompt).await);
    check_greeting(&by_previous_python(&fleet, "asking__greet", &hello).await);
    for mode in ["legacy", MODERN] {
        check_form(&typescript_2(&fleet, mode, form, &json!({}), &[]).await);
        check_sample(&typescript_2(&fleet, mode, sample, &prompt, &[]).await);
        check_greeting(&typescript_2(&fleet, mode, "asking__greet", &hello, &[]).await);
        check_form(&by_python(&fleet, mode, form, &json!({})).await);
        check_sample(&by_python(&fleet, mode, sample, &prompt).await);
        check_greeting(&by_python(&fleet, mode, "asking__greet", &hello).await);
    }
}

#[tokio::test]
async fn over_http_several_agents_are_asked_at_once_and_each_its_own() {
    let fleet = Fleet::start(1).await.unwrap();
    let _server = over_http(&fleet).await;
    let (form, sample) = ("web__trigger-elicitation-request", "web__trigger-sampling-request");
    let prompt = json!({"prompt": "What is six times seven?", "maxTokens": 10});
    let nothing = json!({});
    let (one, two, three) = tokio::join!(
        typescript(&fleet, form, &nothing),
        by_python(&fleet, "legacy", sample, &prompt),
        by_python(&fleet, MODERN, form, &nothing),
    );
    check_form(&one);
    check_sample(&two);
    check_form(&three);
}

#[tokio::test]
async fn progress_of_a_real_server_arrives_and_a_call_that_is_given_up_ends() {
    let fleet = stage().await;
    let long = "every__trigger-long-running-operation";
    let (short, endless) = (json!({"duration": 1, "steps": 4}), json!({"duration": 120, "steps": 240}));
    let steps = json!([1, 2, 3, 4]);
    let previous = by_previous_python(&fleet, long, &short).await;
    assert_eq!(previous["progress"].to_string().replace(".0", ""), steps.to_string(), "{previous}");
    for mode in ["legacy", MODERN] {
        let done = typescript_2(&fleet, mode, long, &short, &[]).await;
        assert_eq!(done["progress"], steps, "{done}");
        assert!(done["result"]["content"].to_string().contains("completed"), "{done}");
        let begun = std::time::Instant::now();
        let stopped = typescript_2(&fleet, mode, long, &endless, &["cancel"]).await;
        assert!(stopped["error"].as_str().unwrap().contains("given up"), "{stopped}");
        assert!(begun.elapsed().as_secs() < 60, "it was not waited for");
    }
    // The tool is as it was: what was given up keeps nobody else.
    fleet.callable("every.echo", json!({"message": "x"})).await;
}
