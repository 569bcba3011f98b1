//! The hook, progress, cancellation, deadlines; over stdio.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use tools::{Call, CallError, Error, ToolEvent};

use super::support::{PATIENCE, Stage, call, python, raw, reports, say, send, until};

#[tokio::test]
async fn a_refused_call_never_reaches_the_tool() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let refused = tool.call(Call::new("echo", Some(raw("{}"))), || Err("blocked")).await;
    assert!(matches!(refused, Err(CallError::Refused("blocked"))), "{refused:?}");
    call(&tool, "echo", "{}").await.unwrap();
    assert_eq!(stage.received().iter().filter(|m| m["method"] == "tools/call").count(), 1);
}

#[tokio::test]
async fn the_hook_is_asked_when_the_pipe_is_free_and_not_before() {
    let stage = Stage::new();
    // It reads nothing, so the pipe fills up; then it is the next line's turn to wait.
    let mut spec = stage.python(json!({}));
    spec.command = vec![python().to_owned(), "-uc".to_owned(), READS_ON_DEMAND.to_owned()];
    let tool = Arc::new(stage.start_spec(spec).await.unwrap());
    let big = raw(&json!({"fill": "x".repeat(1 << 20)}).to_string());
    let filling = tokio::spawn({
        let tool = Arc::clone(&tool);
        async move { send(&tool, Call::new("fill", Some(big))).await }
    });
    let (asked, allowed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    until("the pipe is full", || stage.folder.path().join("reading").exists()).await;
    let waiting = tokio::spawn({
        let (tool, asked, allowed) = (Arc::clone(&tool), Arc::clone(&asked), Arc::clone(&allowed));
        async move {
            let hook = move || {
                asked.fetch_add(1, Ordering::SeqCst);
                if allowed.load(Ordering::SeqCst) { Ok(()) } else { Err(()) }
            };
            tool.call(Call::new("late", None), hook).await
        }
    });
    tokio::task::yield_now().await;
    allowed.store(false, Ordering::SeqCst);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    std::fs::write(stage.folder.path().join("go"), "").unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(CallError::Refused(()))));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    filling.await.unwrap().unwrap();
}

/// Opens as any server, then reads one byte of a call and nothing more until the file `go` is there.
const READS_ON_DEMAND: &str = r#"
import json, os, sys, time
def out(i, r): print(json.dumps({"jsonrpc": "2.0", "id": i, "result": r}), flush=True)
home = os.environ["HOME"]
raw = os.fdopen(0, "rb", 0)
def line():
    text = b""
    while not text.endswith(b"\n"):
        text += raw.read(1)
        if text == b'{' and opened:
            open(home + "/reading", "w")
            while not os.path.exists(home + "/go"): time.sleep(0.01)
            text += raw.readline()
    return json.loads(text)
opened = False
while True:
    m = line()
    if m["method"] == "initialize":
        out(m["id"], {"protocolVersion": "2025-11-25", "capabilities": {}})
    elif m["method"] == "notifications/initialized":
        opened = True
    elif "id" in m and m["method"] == "server/discover":
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": ""}}), flush=True)
    elif "id" in m:
        out(m["id"], {"content": []})
"#;

#[tokio::test]
async fn an_announcement_is_handled_before_what_was_read_after_it() {
    for era in ["handshake", "modern"] {
        let mut stage = Stage::new();
        let tool = stage.start(json!({ "era": era })).await;
        if era == "modern" {
            assert!(matches!(stage.event().await, ToolEvent::ListChanged), "comes with the subscription");
        }
        call(&tool, "change", "{}").await.unwrap();
        assert!(matches!(stage.event_now(), Some(ToolEvent::ListChanged)), "{era}");
    }
}

/// Case C31.
#[tokio::test]
async fn progress_goes_to_its_own_call_and_to_nobody_after_the_answer() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let params = r#"{"progressToken":<TOKEN>,"progress":0.50,"total":9007199254740993,"x":"y"}"#;
    let note =
        |params: &str| format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
    let answer = r#"{"jsonrpc":"2.0","id":<ID>,"result":{"content":[]}}"#;
    let unknown = note(r#"{"progressToken":77777,"progress":1}"#);
    let theirs = note(r#"{"progressToken":"1","progress":1}"#);
    let lines = json!({"lines": [note(params), unknown, theirs, answer, note(params), answer]});
    let mut call_ = Call::new("say", Some(raw(&lines.to_string())));
    call_.meta = Some(raw(r#"{"progressToken":"agent","traceparent":"00-1"}"#));
    let mut receiver = reports(&mut call_);
    send(&tool, call_).await.unwrap();
    let progress = receiver.recv().await.unwrap();
    assert_eq!(
        progress.with_token(&raw("\"agent\"")),
        r#"{"progressToken":"agent","progress":0.50,"total":9007199254740993,"x":"y"}"#
    );
    call(&tool, "echo", "{}").await.unwrap();
    assert!(receiver.recv().await.is_none(), "one, and the channel is closed");
    let sent = stage.received().into_iter().find(|m| m["params"]["name"] == "say").unwrap();
    assert_eq!(sent["params"]["_meta"]["progressToken"], sent["id"]);
    assert_eq!(sent["params"]["_meta"]["traceparent"], "00-1");
}

#[tokio::test]
async fn without_a_wish_for_it_no_progress_is_asked_for() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let mut call_ = Call::new("echo", Some(raw("{}")));
    call_.meta = Some(raw(r#"{"progressToken":"agent"}"#));
    send(&tool, call_).await.unwrap();
    let sent = stage.received().pop().unwrap();
    assert_eq!(sent["params"]["_meta"], json!({}));
}

/// Case C31.
#[tokio::test]
async fn a_cancelled_call_ends_at_once_and_its_late_answer_goes_nowhere() {
    let stage = Stage::new();
    let tool = Arc::new(stage.start(json!({})).await);
    let mut stuck = Call::new("stuck", None);
    stuck.reason = Some(Arc::new(OnceLock::from(raw(r#""the \u0061gent had enough""#))));
    let cancel = stuck.cancel.clone();
    let waiting = tokio::spawn({
        let tool = Arc::clone(&tool);
        async move { send(&tool, stuck).await }
    });
    until("the call arrived", || stage.received().iter().any(|m| m["params"]["name"] == "stuck")).await;
    cancel.cancel();
    assert!(matches!(waiting.await.unwrap(), Err(Error::Cancelled)));
    // Dropping the future says the same.
    let mut dropped = Box::pin(call(&tool, "stuck", "{}"));
    assert!(futures::poll!(&mut dropped).is_pending());
    drop(dropped);
    let (first, second) = {
        let calls: Vec<_> = stage.received().into_iter().filter(|m| m["params"]["name"] == "stuck").collect();
        (calls[0]["id"].as_u64().unwrap(), calls[0]["id"].as_u64().unwrap() + 1)
    };
    let late = format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{{"content":["late"]}}}}"#);
    let answer = r#"{"jsonrpc":"2.0","id":<ID>,"result":{"content":["own"]}}"#;
    let result = say(&tool, &[&late, answer]).await.unwrap();
    assert_eq!(result.0.get(), r#"{"content":["own"]}"#);
    let cancelled = || -> Vec<u64> {
        let all = stage.received().into_iter().filter(|m| m["method"] == "notifications/cancelled");
        all.map(|m| m["params"]["requestId"].as_u64().unwrap()).collect()
    };
    until("the tool was told of both", || cancelled() == [first, second]).await;
    let told = stage.received().into_iter().find(|m| m["params"]["requestId"] == first).unwrap();
    assert_eq!(told["params"]["reason"], "the agent had enough");
}

#[tokio::test]
async fn a_deadline_says_whether_the_call_may_have_run() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let mut stuck = Call::new("stuck", None);
    stuck.deadline = Duration::from_millis(50);
    let error = send(&tool, stuck).await.expect_err("nobody answers");
    assert!(matches!(error, Error::TimedOut { sent: true, .. }), "{error}");
    assert!(error.may_have_run() && error.to_string().contains("50 ms"), "{error}");
    let told = || stage.received().iter().any(|m| m["method"] == "notifications/cancelled");
    until("the tool was told", told).await;
    call(&tool, "echo", "{}").await.unwrap();
}

#[tokio::test]
async fn a_tool_cannot_cancel_our_calls() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":<ID>}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":<ID>,"result":{"content":[]}}"#;
    tokio::time::timeout(PATIENCE, say(&tool, &[cancel, answer])).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_subscription_that_the_tool_ends_is_opened_again() {
    let mut stage = Stage::new();
    let tool = stage.start(json!({"era": "modern"})).await;
    assert!(matches!(stage.event().await, ToolEvent::ListChanged));
    let listen = stage.received().into_iter().find(|m| m["method"] == "subscriptions/listen").unwrap();
    assert_eq!(listen["params"]["notifications"], json!({"toolsListChanged": true}));
    let params = json!({"requestId": listen["id"]});
    let end = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string();
    say(&tool, &[&end, r#"{"jsonrpc":"2.0","id":<ID>,"result":{"content":[]}}"#]).await.unwrap();
    assert!(matches!(stage.event().await, ToolEvent::Reconnected));
    assert!(matches!(stage.event().await, ToolEvent::ListChanged));
}
