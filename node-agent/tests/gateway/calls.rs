//! Calls: refusals reach the model as results, and nothing is called without a permit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::guard::view::{PluginState, RunState, SetState, View};
use domain::listing::RealText;
use domain::refusal::{Code, Refusal};
use serde_json::json;
use tools::CallError;

use crate::client::Client;
use crate::node::{Function, Node, OPEN, now, result, same, serve, serve_with, tool, version};

/// What happens to a node.
type Change = Box<dyn Fn(&mut View)>;

fn counted(functions: &[Function]) -> (Arc<Node>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let node = Node::new(functions, move |_, _, before| {
        let count = Arc::clone(&count);
        async move {
            before().map_err(CallError::Refused)?;
            count.fetch_add(1, Ordering::SeqCst);
            result(r#"{"content":[]}"#)
        }
    });
    (node, calls)
}

fn functions() -> Vec<Function> {
    let other = r#"{"description":"Other","inputSchema":{"type":"object"}}"#.to_owned();
    vec![
        same("hello", OPEN),
        Function { listed: Some(other), ..same("drifted", OPEN) },
        Function { listed: None, ..same("gone", OPEN) },
        Function { approved: None, ..same("new", OPEN) },
    ]
}

// R3.10, R3.11
#[tokio::test]
async fn each_function_that_is_not_as_approved_is_refused_with_its_code() {
    let (node, calls) = counted(&functions());
    let served = serve(&node).await;
    let client = Client::new(&served);
    let rows = [
        ("team__drifted", "drifted", "pintle plugin approve-tools team"),
        ("team.drifted", "drifted", "pintle plugin approve-tools team"),
        ("team__gone", "unlisted", "does not list it"),
        ("team__new", "new_function", "was not there"),
        ("team__hell", "unknown_function", "team.hello"),
        ("other__f", "unknown_function", "pintle catalog"),
    ];
    for (name, code, words) in rows {
        let answer = client.call(name, "{}").await;
        assert_eq!((answer.status, &*answer.refusal()), (200, code), "{name}");
        assert!(answer.sentence().contains(words), "{}", answer.sentence());
        assert_eq!(answer.json()["result"]["resultType"], "complete");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    for name in ["team__hello", "team.hello"] {
        let answer = client.call(name, "{}").await.json();
        let meta = &answer["result"]["_meta"];
        assert_eq!(meta["dev.pintle/plugin"], json!({"name": "team", "version": "1.2.0"}));
        assert!(meta["dev.pintle/listing"].as_str().unwrap().starts_with("v1:sha256:"));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn each_reason_of_a_tool_or_of_the_node_reaches_the_model() {
    let (node, calls) = counted(&functions());
    let served = serve_with(&node, |config| {
        config.set_wait = std::time::Duration::from_millis(20);
        config.relist_wait = std::time::Duration::from_millis(20);
    })
    .await;
    let client = Client::new(&served);
    let edge = node.view.lock().unwrap().edge.clone();
    let rows: Vec<(&str, Change)> = vec![
        (
            "no_plugin_set",
            Box::new(|view| view.set = SetState::Waiting { server: "cp".into(), since: now() }),
        ),
        ("set_stale", Box::new(|view| view.set = SetState::Closed(Refusal::new(Code::SetStale, "stale")))),
        (
            "node_evicted",
            Box::new(|view| view.set = SetState::Closed(Refusal::new(Code::NodeEvicted, "gone"))),
        ),
        ("kind_off", Box::new(|view| view.policy.forbidden_kinds = vec![domain::plugin_set::Kind::Command])),
        (
            "not_running",
            Box::new(|view| {
                let reason = "it crashed".into();
                tool(view, |tool| tool.run = RunState::NotRunning { since: now(), reason });
            }),
        ),
        (
            "unreachable",
            Box::new(|view| {
                let reason = "refused".into();
                tool(view, |tool| tool.run = RunState::Unreachable { since: now(), reason });
            }),
        ),
        ("relisting", Box::new(|view| tool(view, |tool| tool.relisting = Some(now())))),
        ("incomplete", Box::new(|view| tool(view, |tool| tool.listing = None))),
        (
            "installing",
            Box::new(|view| {
                let installing = PluginState::Installing {
                    version: version(),
                    tools: vec![crate::node::tool_id()],
                    failed: None,
                    earlier: None,
                };
                view.plugins.insert(version().plugin, installing);
            }),
        ),
        (
            "unassigned",
            Box::new(|view| {
                let tools = vec![crate::node::tool_id()];
                view.plugins.insert(version().plugin, PluginState::Unassigned { tools });
            }),
        ),
    ];
    for (code, change) in rows {
        node.change(|view| {
            *view = crate::node::view(&functions());
            change(view);
        });
        let answer = client.call("team__hello", "{}").await;
        assert_eq!(answer.refusal(), code, "{}", answer.sentence());
    }
    assert_eq!(edge.to_string(), "eu-1");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_call_waits_for_the_set_and_for_a_new_list() {
    let (node, calls) = counted(&functions());
    let served = serve(&node).await;
    let closed: fn(&mut View) = |view| view.set = SetState::Waiting { server: "cp".into(), since: now() };
    let relisting: fn(&mut View) = |view| tool(view, |tool| tool.relisting = Some(now()));
    for wait in [closed, relisting] {
        node.change(wait);
        let client = Client::new(&served);
        let asked = tokio::spawn(async move { client.call("team__hello", "{}").await });
        // Whether the call comes before or after the change, it ends well.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        node.set(&functions());
        assert_eq!(asked.await.unwrap().json()["result"].get("isError"), None);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_old_listing_is_asked_for_again_once() {
    let (node, calls) = counted(&functions());
    let served = serve(&node).await;
    let client = Client::new(&served);
    node.now_ms.store(10_000_000, Ordering::SeqCst);
    let stale = client.call("team__hello", "{}").await;
    assert_eq!(stale.refusal(), "listing_stale");
    assert_eq!((node.relists.load(Ordering::SeqCst), calls.load(Ordering::SeqCst)), (1, 0));
    node.on_relist(|node| node.now_ms.store(1_000, Ordering::SeqCst));
    assert_eq!(client.call("team__hello", "{}").await.json()["result"].get("isError"), None);
    assert_eq!((node.relists.load(Ordering::SeqCst), calls.load(Ordering::SeqCst)), (2, 1));
}

#[tokio::test]
async fn the_permit_is_made_again_when_the_request_is_about_to_go() {
    let node: Arc<std::sync::OnceLock<Arc<Node>>> = Arc::default();
    let known = Arc::clone(&node);
    let made = Node::new(&[same("hello", OPEN)], move |_, _, before| {
        let node = Arc::clone(known.get().unwrap());
        async move {
            before().expect("still allowed");
            node.set(&[Function { listed: Some("{}".into()), ..same("hello", OPEN) }]);
            before().map_err(CallError::Refused)?;
            result(r#"{"content":[]}"#)
        }
    });
    node.set(Arc::clone(&made)).ok();
    let served = serve(&made).await;
    assert_eq!(Client::new(&served).call("team__hello", "{}").await.refusal(), "drifted");
}

#[tokio::test]
async fn a_permit_that_comes_back_meanwhile_is_used() {
    let node: Arc<std::sync::OnceLock<Arc<Node>>> = Arc::default();
    let known = Arc::clone(&node);
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let made = Node::new(&[same("hello", OPEN)], move |_, _, before| {
        let node = Arc::clone(known.get().unwrap());
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first {
                node.change(|view| tool(view, |tool| tool.relisting = Some(now())));
            }
            let outcome = before().map_err(CallError::Refused);
            node.set(&[same("hello", OPEN)]);
            outcome?;
            result(r#"{"content":[]}"#)
        }
    });
    node.set(Arc::clone(&made)).ok();
    let served = serve(&made).await;
    assert_eq!(Client::new(&served).call("team__hello", "{}").await.json()["result"].get("isError"), None);
    assert_eq!(tries.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn arguments_that_do_not_fit_name_the_field_and_what_was_expected() {
    let listing =
        r#"{"inputSchema":{"properties":{"count":{"type":"integer"}},"required":["count"],"type":"object"}}"#;
    let (node, calls) = counted(&[same("hello", listing)]);
    let served = serve(&node).await;
    let client = Client::new(&served);
    for (arguments, words) in [
        (r#"{"count":"a\u200bb"}"#, r#"at /count, `integer` is expected, not "a\u{200B}b""#),
        ("{}", r#"at the arguments, property "count" is required"#),
        ("[1]", "an object is expected"),
    ] {
        let answer = client.call("team__hello", arguments).await;
        assert_eq!(answer.refusal(), "bad_arguments");
        assert!(answer.sentence().contains(words), "{}", answer.sentence());
    }
    let answer = client.ask("tools/call", r#""name":"team__hello""#).await;
    assert_eq!(answer.refusal(), "bad_arguments");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    client.call("team__hello", r#"{"count":1}"#).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_real_text_of_a_hidden_name_reaches_the_tool() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let text = RealText { written: r"a\u{200B}".into(), real: r#""a\u200b""#.into(), is_member_name: true };
    *node.real_texts.lock().unwrap() = Arc::new([text]);
    let served = serve(&node).await;
    let answer = Client::new(&served).call("team__hello", r#"{"a\\u{200B}":1e400}"#).await;
    assert!(answer.text.contains(r#""structuredContent":{"a\u200b":1e400}"#), "{}", answer.text);
}

#[tokio::test]
async fn a_call_without_a_name_is_invalid_and_not_a_refusal() {
    let served = serve(&Node::echo(&[])).await;
    let client = Client::new(&served).handshake("2025-11-25").await;
    for params in ["{}", r#"{"name":7}"#, "[]"] {
        let answer = client
            .post(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#))
            .await;
        assert_eq!(answer.code(), -32602, "{params}");
    }
}

#[tokio::test]
async fn errors_of_the_tool_keep_their_code_message_and_data() {
    let node = Node::new(&[same("hello", OPEN)], |_, _, _| async {
        let raw = r#"{"code":-7,"message":"no","data":{"big":18446744073709551616,"half":"\ud83d"}}"#;
        let raw = serde_json::value::RawValue::from_string(raw.to_owned()).unwrap();
        Err(CallError::Failed(tools::Error::Rpc(tools::RpcError::from_raw(&raw))))
    });
    let served = serve(&node).await;
    let answer = Client::new(&served).call("team__hello", "{}").await;
    assert_eq!(answer.status, 200);
    let expected = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-7,"message":"no","data":{"big":18446744073709551616,"half":"\ufffd"}}}"#;
    assert_eq!(answer.text, expected);
}

#[tokio::test]
async fn what_goes_wrong_at_the_tool_is_told_with_what_is_known_of_the_call() {
    let failure: Arc<std::sync::Mutex<Option<tools::Error>>> = Arc::default();
    let next = Arc::clone(&failure);
    let node = Node::new(&[same("hello", OPEN)], move |_, _, _| {
        let error = next.lock().unwrap().clone().unwrap();
        async move { Err(CallError::Failed(error)) }
    });
    let served = serve(&node).await;
    let client = Client::new(&served);
    let refused = [
        (tools::Error::Stopped { sent: false }, "not_running"),
        (
            tools::Error::Unreachable {
                origin: "https://a.example".into(),
                reason: "refused".into(),
                sent: false,
            },
            "unreachable",
        ),
        (
            tools::Error::Unauthorized { url: "https://a.example".into(), status: 401, challenge: None },
            "secret_unavailable",
        ),
        (tools::Error::TimedOut { after: std::time::Duration::from_secs(1), sent: true }, "timed_out"),
    ];
    for (error, code) in refused {
        *failure.lock().unwrap() = Some(error);
        assert_eq!(client.call("team__hello", "{}").await.refusal(), code);
    }
    *failure.lock().unwrap() =
        Some(tools::Error::Gone { status: "ended with exit code 3".into(), stderr: "".into(), sent: true });
    let answer = client.call("team__hello", "{}").await;
    assert_eq!(answer.json()["result"]["isError"], true);
    assert_eq!(answer.json()["result"]["_meta"]["dev.pintle/failed"], json!({"mayHaveRun": true}));
    assert!(
        answer.sentence().contains("exit code 3") && answer.sentence().contains("not known"),
        "{}",
        answer.sentence()
    );
}

// C23
#[tokio::test]
async fn a_call_after_a_lost_session_is_repeated_once_and_only_after_a_new_list() {
    let tries = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&tries);
    let node = Node::new(&[same("hello", OPEN)], move |_, call, before| {
        seen.lock().unwrap().push(call.repeated);
        async move {
            before().map_err(CallError::Refused)?;
            if call.repeated {
                return result(r#"{"content":[]}"#);
            }
            Err(CallError::Failed(tools::Error::SessionLost { url: "https://a.example".into() }))
        }
    });
    let served = serve(&node).await;
    let client = Client::new(&served);
    assert_eq!(client.call("team__hello", "{}").await.json()["result"].get("isError"), None);
    assert_eq!(*tries.lock().unwrap(), [false, true]);
    assert_eq!(node.relists.load(Ordering::SeqCst), 1);
    node.on_relist(|node| node.set(&[Function { listed: Some("{}".into()), ..same("hello", OPEN) }]));
    assert_eq!(client.call("team__hello", "{}").await.refusal(), "drifted");
    assert_eq!(*tries.lock().unwrap(), [false, true, false]);
}

#[tokio::test]
async fn a_call_that_surely_was_not_sent_is_repeated_once_and_no_other_is() {
    use tools::Error;
    let unreachable =
        |sent| Error::Unreachable { origin: "https://a.example".into(), reason: "cut".into(), sent };
    let gone = |sent| Error::Gone { status: "ended".into(), stderr: "".into(), sent };
    let late = |sent| Error::TimedOut { after: std::time::Duration::from_secs(1), sent };
    let rows = [
        (unreachable(false), 2, Some("unreachable")),
        (gone(false), 2, Some("not_running")),
        (Error::Stopped { sent: false }, 2, Some("not_running")),
        (unreachable(true), 1, None),
        (gone(true), 1, None),
        (Error::Stopped { sent: true }, 1, None),
        (Error::StreamEnded { url: "https://a.example".into() }, 1, None),
        (late(true), 1, Some("timed_out")),
        (late(false), 1, Some("timed_out")),
        (
            Error::Unauthorized { url: "https://a.example".into(), status: 401, challenge: None },
            1,
            Some("secret_unavailable"),
        ),
    ];
    for (error, expected, code) in rows {
        let (failure, tries) = (error.clone(), Arc::new(std::sync::Mutex::new(0)));
        let seen = Arc::clone(&tries);
        let node = Node::new(&[same("hello", OPEN)], move |_, _, _| {
            *seen.lock().unwrap() += 1;
            let failure = failure.clone();
            async move { Err(CallError::Failed(failure)) }
        });
        let served = serve(&node).await;
        let answer = Client::new(&served).call("team__hello", "{}").await;
        assert_eq!(*tries.lock().unwrap(), expected, "{error}");
        if let Some(code) = code {
            assert_eq!(answer.refusal(), code, "{error}");
        } else {
            let failed = &answer.json()["result"]["_meta"]["dev.pintle/failed"];
            assert_eq!(failed, &json!({"mayHaveRun": true}), "{error}");
            assert!(answer.sentence().contains("not known"), "{}", answer.sentence());
        }
        assert_eq!(
            answer.sentence().contains("othing was done"),
            matches!(error, Error::TimedOut { sent: false, .. })
        );
    }
}

#[tokio::test]
async fn what_did_not_get_through_the_first_time_is_done_the_second() {
    let tries = Arc::new(std::sync::Mutex::new(0));
    let seen = Arc::clone(&tries);
    let node = Node::new(&[same("hello", OPEN)], move |_, _, _| {
        let mut tries = seen.lock().unwrap();
        *tries += 1;
        let is_first = *tries == 1;
        async move {
            if is_first {
                return Err(CallError::Failed(tools::Error::Stopped { sent: false }));
            }
            result(r#"{"content":[]}"#)
        }
    });
    let served = serve(&node).await;
    let answer = Client::new(&served).call("team__hello", "{}").await.json();
    assert_eq!(answer["result"].get("isError"), None, "{answer}");
}
