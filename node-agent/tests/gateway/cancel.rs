//! Cancellation and progress, in both eras. C31.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tools::{Call, Said};

use crate::client::{Client, Events, SOON};
use crate::node::{Dropped, Node, OPEN, report, result, same, serve, serve_with};

/// A tool that never answers; what it got, and when it was given up.
fn slow() -> (Arc<Node>, mpsc::UnboundedReceiver<String>, mpsc::UnboundedReceiver<String>) {
    let (started, began) = mpsc::unbounded_channel();
    let (dropped, ended) = mpsc::unbounded_channel();
    let node = Node::new(&[same("slow", OPEN)], move |_, call, _| {
        let arguments = call.arguments.map(|arguments| arguments.get().to_owned()).unwrap_or_default();
        started.send(arguments.clone()).unwrap();
        let gone = Dropped(dropped.clone(), arguments);
        async move {
            std::future::pending::<()>().await;
            drop(gone);
            result("{}")
        }
    });
    (node, began, ended)
}

async fn next(channel: &mut mpsc::UnboundedReceiver<String>) -> String {
    timeout(SOON, channel.recv()).await.expect("in time").unwrap()
}

fn call(id: &str, who: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"team__slow","arguments":{{"who":"{who}"}}}}}}"#
    )
}

fn cancelled(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

#[tokio::test]
async fn a_modern_client_cancels_by_going_away() {
    let (node, mut began, mut ended) = slow();
    let served = serve(&node).await;
    for (token, accept) in
        [("", "application/json"), (r#","_meta":{"progressToken":1}"#, "application/json, text/event-stream")]
    {
        let (client, body) =
            Client::new(&served).modern("1", "tools/call", &format!(r#""name":"team__slow"{token}"#));
        let client = client.with("accept", Some(accept));
        let asked = tokio::spawn(async move { client.post(body).await.status });
        next(&mut began).await;
        asked.abort();
        next(&mut ended).await;
    }
}

#[tokio::test]
async fn a_session_cancels_its_own_call_of_that_very_id() {
    let (node, mut began, mut ended) = slow();
    let served = serve(&node).await;
    let (x, y) = (
        Client::new(&served).handshake("2025-11-25").await,
        Client::new(&served).handshake("2025-06-18").await,
    );
    let mut asked = Vec::new();
    for (client, id, who) in
        [(&x, "1", "x1"), (&y, "1", "y1"), (&y, r#""1""#, "y-text"), (&y, "9007199254740993", "y-big")]
    {
        let (client, body) = (client.clone(), call(id, who));
        asked.push(tokio::spawn(async move { client.post(body).await }));
        next(&mut began).await;
    }
    for id in ["99", r#""init""#, "9007199254740992", "null", "{}"] {
        assert_eq!(y.post(cancelled(id)).await.status, 202);
    }
    assert_eq!(y.post(cancelled("1")).await.status, 202);
    assert_eq!(next(&mut ended).await, r#"{"who":"y1"}"#);
    assert_eq!(y.post(cancelled("1")).await.status, 202, "a second time it means nothing");
    let answer = asked.remove(1).await.unwrap();
    assert_eq!((answer.status, &*answer.text), (202, ""), "a cancelled call is not answered");
    assert!(ended.try_recv().is_err());
    // The end of a session ends its calls, and nobody else's.
    assert_eq!(y.send(Method::DELETE, "").await.status, 204);
    let mut both = [next(&mut ended).await, next(&mut ended).await];
    both.sort();
    assert_eq!(both, [r#"{"who":"y-big"}"#, r#"{"who":"y-text"}"#]);
    assert!(ended.try_recv().is_err());
}

#[tokio::test]
async fn why_a_session_cancels_is_there_for_the_tool_before_its_call_ends() {
    let (send, mut calls) = mpsc::unbounded_channel::<Call>();
    let node = Node::new(&[same("slow", OPEN)], move |_, call, _| {
        send.send(call).unwrap();
        std::future::pending()
    });
    let served = serve(&node).await;
    let client = Client::new(&served).handshake("2025-11-25").await;
    let (asking, body) = (client.clone(), call("1", "x"));
    let asked = tokio::spawn(async move { asking.post(body).await.status });
    let under_way = timeout(SOON, calls.recv()).await.unwrap().unwrap();
    let reason = r#""en\u006fugh""#;
    let params = format!(r#"{{"requestId":1,"reason":{reason}}}"#);
    let cancelled = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
    client.post(cancelled).await;
    assert_eq!(asked.await.unwrap(), 202);
    assert_eq!(under_way.reason.unwrap().get().unwrap().get(), reason);
}

#[tokio::test]
async fn what_a_tool_says_during_a_call_comes_in_its_order() {
    let node = Node::new(&[same("slow", OPEN)], |_, call, _| async move {
        for step in 0..8 {
            let log = format!(r#"{{"level":"error","data":{step}}}"#);
            let listener = call.listener.as_ref().unwrap();
            listener.hear(Said::Log(RawValue::from_string(log).unwrap()));
            report(&call, format!(r#"{{"progressToken":7,"progress":{step}}}"#));
        }
        result(r#"{"content":[]}"#)
    });
    let served = serve(&node).await;
    let session = Client::new(&served).handshake("2025-11-25").await;
    let (modern, body) = Client::new(&served).modern(
        "1",
        "tools/call",
        r#""name":"team__slow","_meta":{"progressToken":1,"io.modelcontextprotocol/logLevel":"debug"}"#,
    );
    let of_session = call("1", "x").replace(r#""arguments""#, r#""_meta":{"progressToken":1},"arguments""#);
    for (client, body) in [(session, of_session), (modern, body)] {
        let mut events = Events::new(client.open(Method::POST, body).await);
        for step in 0..8 {
            assert_eq!(events.json().await["params"]["data"], step);
            assert_eq!(events.json().await["params"]["progress"], step);
        }
        assert!(events.json().await["result"].is_object());
    }
}

#[tokio::test]
async fn a_lost_connection_is_no_cancellation_in_a_session_unless_it_is_set_so() {
    for is_set in [false, true] {
        let (node, mut began, mut ended) = slow();
        let served = serve_with(&node, |config| config.cancel_on_disconnect = is_set).await;
        let client = Client::new(&served).handshake("2025-11-25").await;
        let (other, body) = (client.clone(), call("1", "x"));
        let asked = tokio::spawn(async move { other.post(body).await.status });
        next(&mut began).await;
        asked.abort();
        if is_set {
            next(&mut ended).await;
        } else {
            // The call is there to be cancelled.
            assert_eq!(client.post(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await.status, 200);
            assert!(ended.try_recv().is_err());
            client.post(cancelled("1")).await;
            next(&mut ended).await;
        }
    }
}

fn reporting() -> Arc<Node> {
    Node::new(&[same("slow", OPEN)], |_, call, _| async move {
        if !call.progress {
            return result(r#"{"content":[]}"#);
        }
        for step in ["0.5", "0.4", "1e400"] {
            let params =
                format!(r#"{{"progressToken":7,"progress":{step},"total":18446744073709551616,"x":{{}}}}"#);
            report(&call, params);
        }
        result("{\n  \"content\": []\r\n}")
    })
}

#[tokio::test]
async fn progress_comes_in_its_order_under_the_clients_own_token_and_before_the_answer() {
    let served = serve(&reporting()).await;
    let client = Client::new(&served);
    let tokens = ["1", r#""1""#, "9007199254740993", r#""täglich""#];
    // An agent that can be asked is called for in another way.
    for (token, able) in tokens.into_iter().zip(["{}", r#"{"elicitation":{}}"#].into_iter().cycle()) {
        let params = format!(r#""name":"team__slow","_meta":{{"progressToken":{token}}}"#);
        let (client, body) = client.modern(r#""id""#, "tools/call", &params);
        let body = body.replace(r#"clientCapabilities":{}"#, &format!(r#"clientCapabilities":{able}"#));
        let mut events = Events::new(client.open(Method::POST, body).await);
        for step in ["0.5", "0.4", "1e400"] {
            let expected = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{step},"total":18446744073709551616,"x":{{}}}}}}"#
            );
            assert_eq!(events.next().await.unwrap(), expected);
        }
        let answer = events.json().await;
        assert_eq!((&answer["id"], &answer["result"]["content"]), (&json!("id"), &json!([])));
        assert!(events.next().await.is_none());
    }
}

#[tokio::test]
async fn who_does_not_want_progress_or_cannot_read_it_gets_json() {
    let served = serve(&reporting()).await;
    let client = Client::new(&served);
    let answer = client.call("team__slow", "{}").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    let (json_only, body) =
        client.modern("1", "tools/call", r#""name":"team__slow","_meta":{"progressToken":1}"#);
    let answer = json_only.with("accept", Some("application/json")).post(body.clone()).await;
    assert_eq!((answer.status, &answer.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    let events_only = json_only.with("accept", Some("text/event-stream"));
    let mut events = Events::new(events_only.open(Method::POST, body).await);
    assert_eq!(events.json().await["method"], "notifications/progress");
}

#[tokio::test]
async fn a_session_gets_progress_and_two_agents_with_the_same_numbers_are_kept_apart() {
    let (send, streams) = mpsc::unbounded_channel::<(Value, Call)>();
    let streams = Arc::new(tokio::sync::Mutex::new(streams));
    let node = Node::new(&[same("slow", OPEN)], move |_, call, _| {
        let arguments: Value = serde_json::from_str(call.arguments.as_ref().unwrap().get()).unwrap();
        send.send((arguments.clone(), call)).unwrap();
        async move {
            if arguments["who"] == "x" {
                return result(r#"{"content":[]}"#);
            }
            std::future::pending().await
        }
    });
    let served = serve(&node).await;
    let (x, y) = (
        Client::new(&served).handshake("2025-11-25").await,
        Client::new(&served).handshake("2025-11-25").await,
    );
    let call = |who: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"team__slow","arguments":{{"who":"{who}"}},"_meta":{{"progressToken":1}}}}}}"#
        )
    };
    let mut of_y = Events::new(y.open(Method::POST, call("y")).await);
    let (_, call_of_y) = timeout(SOON, streams.lock().await.recv()).await.unwrap().unwrap();
    let mut of_x = Events::new(x.open(Method::POST, call("x")).await);
    assert_eq!(of_x.json().await["result"]["content"], json!([]));
    assert!(of_x.next().await.is_none());
    report(&call_of_y, r#"{"progressToken":3,"progress":1}"#.to_owned());
    assert_eq!(of_y.json().await["params"], json!({"progressToken": 1, "progress": 1}));
    y.post(cancelled("1")).await;
    assert!(of_y.next().await.is_none(), "a cancelled call's stream ends without an answer");
}

#[tokio::test]
async fn a_silent_stream_shows_signs_of_life() {
    let (node, mut began, _ended) = slow();
    let served = serve_with(&node, |config| config.keep_alive = Duration::from_millis(20)).await;
    let (client, body) =
        Client::new(&served).modern("1", "tools/call", r#""name":"team__slow","_meta":{"progressToken":1}"#);
    let mut response = client.open(Method::POST, body).await;
    next(&mut began).await;
    let chunk = timeout(SOON, response.chunk()).await.unwrap().unwrap().unwrap();
    assert_eq!(&chunk[..], b":\n\n");
}
