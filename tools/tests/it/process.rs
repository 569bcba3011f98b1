//! Tool processes: their environment, their end, and that of everything they started.

use serde_json::{Value, json};
use tools::{Error, ToolEvent};

use super::support::{Stage, call, chain, group, server, text, until, value};

#[tokio::test]
async fn the_environment_is_the_manifests_and_nothing_else() {
    let stage = Stage::new();
    let mut spec = stage.python(json!({}));
    spec.env = vec![("TOKEN".to_owned(), "t".to_owned()), ("HOME".to_owned(), "/elsewhere".to_owned())];
    let path = spec.path.clone();
    let tool = stage.start_spec(spec).await.unwrap();
    let got: Value = serde_json::from_str(&text(&call(&tool, "env", "{}").await.unwrap())).unwrap();
    let mut got = got.as_object().unwrap().clone();
    let (pid, pgid) = (got.remove("pid").unwrap(), got.remove("pgid").unwrap());
    assert_eq!(pid, pgid);
    assert_eq!(u64::from(tool.process().unwrap().pid), pid.as_u64().unwrap());
    let home = stage.folder.path().canonicalize().unwrap();
    assert_eq!(got.remove("cwd").unwrap().as_str().unwrap(), home.to_str().unwrap());
    // Set by the interpreter itself.
    got.remove("LC_CTYPE");
    let home = stage.folder.path().to_str().unwrap();
    assert_eq!(
        Value::Object(got),
        json!({"PATH": path, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "TZ": "UTC",
               "PYTHONHASHSEED": "0", "TOKEN": "t"})
    );
}

#[tokio::test]
async fn a_crash_fails_the_waiting_calls_and_is_told_once() {
    let mut stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let (stuck, down) = tokio::join!(call(&tool, "stuck", "{}"), call(&tool, "exit", r#"{"code":7}"#));
    for outcome in [stuck, down, call(&tool, "echo", "{}").await] {
        let error = outcome.expect_err("it is gone");
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        assert!(chain(&error).contains("exit code 7; the end of its stderr: going down"), "{error}");
    }
    let ToolEvent::Exited { status, stderr } = stage.event().await else { panic!("another event") };
    assert_eq!((&*status, &*stderr), ("ended with exit code 7", "going down"));
    assert!(stage.event_now().is_none() && tool.process().is_none());
}

#[tokio::test]
async fn a_stopped_tool_ends_politely_and_says_nothing() {
    let mut stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let pid = u64::from(tool.process().unwrap().pid);
    let (waiting, ()) = tokio::join!(call(&tool, "stuck", "{}"), async {
        until("the call arrived", || stage.received().iter().any(|m| m["params"]["name"] == "stuck")).await;
        tool.stop().await;
    });
    let error = waiting.expect_err("stopped");
    assert!(matches!(error, Error::Stopped { .. }) && error.may_have_run(), "it had been written: {error}");
    until("the group is gone", || group(pid).is_empty()).await;
    tool.stop().await;
    assert!(stage.event_now().is_none());
}

#[tokio::test]
async fn a_tool_that_closes_its_output_is_ended() {
    let mut stage = Stage::new();
    let mut spec = stage.python(json!({}));
    spec.command = ["bash", "-c", CLOSES_OUTPUT].map(str::to_owned).to_vec();
    let tool = stage.start_spec(spec).await.unwrap();
    let pid = u64::from(tool.process().unwrap().pid);
    assert!(matches!(call(&tool, "echo", "{}").await, Err(Error::Gone { .. })));
    assert!(matches!(stage.event().await, ToolEvent::Exited { .. }));
    until("the group is gone", || group(pid).is_empty()).await;
}

const CLOSES_OUTPUT: &str = r#"
read -r _; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}'
read -r _; echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}'
read -r _; read -r _; exec >&-; cat >/dev/null
"#;

async fn stubborn(stage: &Stage) -> (tools::Tool, Vec<u64>) {
    let spec = stage.command(&["bash", &server("C30-launcher.sh")]);
    let tool = stage.start_spec(spec).await.unwrap();
    let pids: Value = serde_json::from_str(&text(&call(&tool, "pids", "{}").await.unwrap())).unwrap();
    let pids = ["launcher", "server", "helper"].map(|name| pids[name].as_u64().unwrap()).to_vec();
    assert_eq!(u64::from(tool.process().unwrap().pid), pids[0]);
    assert_eq!(group(pids[0]).len(), 3);
    (tool, pids)
}

/// Case C30.
#[tokio::test]
async fn a_launchers_stubborn_grandchildren_end_with_it() {
    let stage = Stage::new();
    let (tool, pids) = stubborn(&stage).await;
    tool.stop().await;
    until("all three are gone", || group(pids[0]).is_empty()).await;
}

/// Case C30.
#[tokio::test]
async fn a_dropped_tool_takes_everything_with_it() {
    let stage = Stage::new();
    let (tool, pids) = stubborn(&stage).await;
    drop(tool);
    until("all three are gone", || group(pids[0]).is_empty()).await;
}

/// Case C30.
#[tokio::test]
async fn what_an_earlier_run_left_behind_is_ended_by_number_and_start_time() {
    let stage = Stage::new();
    let (tool, pids) = stubborn(&stage).await;
    let process = tool.process().unwrap();
    let other = tools::Process { started: process.started + 1, ..process };
    assert!(!other.kill_leftover());
    assert_eq!(group(pids[0]).len(), 3);
    assert!(process.kill_leftover());
    until("all three are gone", || group(pids[0]).is_empty()).await;
}

/// Case C30.
#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let stage = Stage::new();
    let marker = stage.folder.path().join("pid");
    let script = format!("echo $$ > {}; sleep 600 & wait", marker.display());
    let start = stage.start_spec(stage.command(&["bash", "-c", &script]));
    let mut start = Box::pin(start);
    let read = || std::fs::read_to_string(&marker).ok().and_then(|text| text.trim().parse::<u64>().ok());
    assert!(futures::poll!(&mut start).is_pending());
    until("it runs", || read().is_some()).await;
    drop(start);
    until("it is gone", || group(read().unwrap()).is_empty()).await;
}

#[tokio::test]
async fn limits_are_set_on_the_process() {
    let stage = Stage::new();
    let mut spec = stage.python(json!({}));
    spec.process.files = Some(77);
    spec.process.memory = Some(1 << 30);
    let tool = stage.start_spec(spec).await.unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", tool.process().unwrap().pid)).unwrap();
    let line = |name: &str| limits.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("Max open files").contains(" 77 "), "{limits}");
    assert!(line("Max data size").contains(" 1073741824 "), "{limits}");
    assert_eq!(value(&call(&tool, "echo", "{}").await.unwrap().0)["structuredContent"], json!({}));
}
