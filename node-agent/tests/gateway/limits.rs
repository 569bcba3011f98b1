//! Limits of calls under way, and what stopping does to them.

use std::sync::Arc;
use std::time::Duration;

use node_agent::gateway::CallLimits;
use reqwest::Method;
use tokio::sync::{Semaphore, mpsc};
use tools::CallError;

use crate::client::{Client, SOON};
use crate::node::{Node, OPEN, report, result, same, serve_with};

/// A tool that answers when it is let.
fn held() -> (Arc<Node>, Arc<Semaphore>, Arc<Semaphore>) {
    let (began, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (started, gate) = (Arc::clone(&began), Arc::clone(&go));
    let node = Node::new(&[same("f", OPEN)], move |_, _, before| {
        let (started, gate) = (Arc::clone(&started), Arc::clone(&gate));
        async move {
            before().map_err(CallError::Refused)?;
            started.add_permits(1);
            gate.acquire().await.unwrap().forget();
            result(r#"{"content":[]}"#)
        }
    });
    (node, began, go)
}

fn call(client: &Client) -> tokio::task::JoinHandle<crate::client::Answer> {
    let client = client.clone();
    tokio::spawn(async move { client.call("team__f", "{}").await })
}

#[tokio::test]
async fn a_tool_has_so_many_calls_under_way_and_some_more_wait_their_turn() {
    let (node, began, go) = held();
    let served = serve_with(&node, |config| {
        config.calls_per_tool = 2;
        config.queue_per_tool = 1;
    })
    .await;
    let client = Client::new(&served);
    let mut asked = vec![call(&client), call(&client)];
    began.acquire_many(2).await.unwrap().forget();
    // Of two more one waits, and the other is told.
    asked.push(call(&client));
    asked.push(call(&client));
    let (answer, _, rest) = futures::future::select_all(asked).await;
    let answer = answer.unwrap();
    assert_eq!(answer.refusal(), "busy");
    assert!(
        answer.sentence().contains("`team` has 2 calls")
            && answer.sentence().contains("gateway.calls_per_tool")
    );
    go.add_permits(3);
    for asked in rest {
        assert_eq!(asked.await.unwrap().json()["result"].get("isError"), None);
    }
}

#[tokio::test]
async fn who_waited_too_long_for_a_turn_is_told_busy() {
    let (node, began, go) = held();
    let served = serve_with(&node, |config| {
        config.calls_per_tool = 1;
        config.queue_wait = Duration::from_millis(20);
    })
    .await;
    let client = Client::new(&served);
    let first = call(&client);
    began.acquire().await.unwrap().forget();
    assert_eq!(client.call("team__f", "{}").await.refusal(), "busy");
    go.add_permits(2);
    first.await.unwrap();
    assert_eq!(
        client.call("team__f", "{}").await.json()["result"].get("isError"),
        None,
        "room is given back"
    );
}

#[tokio::test]
async fn the_node_has_so_many_calls_under_way_in_all() {
    let (node, began, go) = held();
    let served = serve_with(&node, |config| config.calls = 1).await;
    let client = Client::new(&served);
    let first = call(&client);
    began.acquire().await.unwrap().forget();
    let answer = client.call("team__f", "{}").await;
    assert_eq!(answer.refusal(), "busy");
    assert!(answer.sentence().contains("gateway.calls"), "{}", answer.sentence());
    go.add_permits(1);
    first.await.unwrap();
}

#[tokio::test]
async fn a_call_given_up_gives_its_room_back() {
    let (node, began, go) = held();
    let served = serve_with(&node, |config| {
        config.calls = 1;
        config.calls_per_tool = 1;
    })
    .await;
    let client = Client::new(&served);
    let first = call(&client);
    began.acquire().await.unwrap().forget();
    first.abort();
    go.add_permits(1_000);
    loop {
        let answer = client.call("team__f", "{}").await;
        if answer.json()["result"].get("isError").is_none() {
            break;
        }
        assert_eq!(answer.refusal(), "busy");
    }
}

#[tokio::test]
async fn the_deadline_of_a_call_is_handed_to_its_tool() {
    let node = Node::new(&[same("f", OPEN)], |_, call, _| async move {
        result(&format!(r#"{{"content":[],"ms":{}}}"#, call.deadline.as_millis()))
    });
    let served = serve_with(&node, |config| config.call_deadline = Duration::from_secs(7)).await;
    let answer = Client::new(&served).call("team__f", "{}").await.json();
    let ms = answer["result"]["ms"].as_u64().unwrap();
    assert!((5_000..=7_000).contains(&ms), "{ms}");
}

#[tokio::test]
async fn streams_are_bounded() {
    let (node, ..) = held();
    let served = serve_with(&node, |config| config.streams = 0).await;
    let (client, body) = Client::new(&served).modern("1", "subscriptions/listen", r#""notifications":{}"#);
    let answer = client.post(body).await;
    assert_eq!(answer.status, 503);
    assert!(answer.text.contains("gateway.streams"));
}

#[tokio::test]
async fn stopping_lets_calls_under_way_finish_in_both_eras() {
    let (node, began, go) = held();
    let served = serve_with(&node, |_| {}).await;
    let client = Client::new(&served);
    let session = client.handshake("2025-11-25").await;
    let modern = call(&client);
    let old = tokio::spawn(async move {
        session
            .post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"team__f","arguments":{}}}"#)
            .await
    });
    began.acquire_many(2).await.unwrap().forget();
    let stopping = tokio::spawn(served.gateway.stop());
    go.add_permits(2);
    for asked in [modern, old] {
        assert_eq!(asked.await.unwrap().json()["result"]["content"], serde_json::json!([]));
    }
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_manifest_asks_for_fewer_calls_and_less_time_and_never_for_more() {
    let (node, began, go) = held();
    let served = serve_with(&node, |config| {
        config.calls_per_tool = 2;
        config.queue_per_tool = 0;
        config.call_deadline = Duration::from_secs(7);
    })
    .await;
    let client = Client::new(&served);
    *node.limits.lock().unwrap() = CallLimits { calls: Some(1), deadline: Some(Duration::from_secs(3)) };
    let first = call(&client);
    began.acquire().await.unwrap().forget();
    let answer = client.call("team__f", "{}").await;
    assert_eq!(answer.refusal(), "busy");
    assert!(answer.sentence().contains("has 1 calls") && answer.sentence().contains("`limits.team.calls`"));
    *node.limits.lock().unwrap() = CallLimits { calls: Some(100), deadline: Some(Duration::from_secs(100)) };
    let second = [call(&client), call(&client)];
    began.acquire_many(2).await.unwrap().forget();
    let answer = client.call("team__f", "{}").await;
    assert!(answer.sentence().contains("has 2 calls"), "{}", answer.sentence());
    go.add_permits(3);
    first.await.unwrap();
    for asked in second {
        asked.await.unwrap();
    }
    let node = Node::new(&[same("f", OPEN)], |_, call, _| async move {
        result(&format!(r#"{{"content":[],"ms":{}}}"#, call.deadline.as_millis()))
    });
    let served = serve_with(&node, |config| config.call_deadline = Duration::from_secs(7)).await;
    for (own, most) in [(3, 3_000), (100, 7_000)] {
        node.limits.lock().unwrap().deadline = Some(Duration::from_secs(own));
        let ms = Client::new(&served).call("team__f", "{}").await.json()["result"]["ms"].as_u64().unwrap();
        assert!((most - 2_000..=most).contains(&ms), "{ms}");
    }
}

#[tokio::test]
async fn a_connection_too_many_is_told_so_and_the_others_go_on() {
    let (node, ..) = held();
    let served = serve_with(&node, |config| config.connections = 1).await;
    let (first, second) = (Client::new(&served), Client::new(&served));
    assert_eq!(first.ask("server/discover", "").await.status, 200);
    let answer = second.ask("server/discover", "").await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text.contains("1 connections") && answer.text.contains("gateway.connections"),
        "{}",
        answer.text
    );
    assert_eq!(first.ask("server/discover", "").await.status, 200);
}

/// An agent that reads nothing of what it is answered holds up neither its tool nor other agents.
#[tokio::test]
async fn an_agent_that_does_not_read_slows_nobody_else() {
    let (done, mut ended) = mpsc::unbounded_channel();
    let node = Node::new(&[same("f", OPEN)], move |_, call, _| {
        let done = done.clone();
        async move {
            let text = "x".repeat(4 << 20);
            if call.progress {
                for step in 0..1_000 {
                    let params = format!(
                        r#"{{"progressToken":1,"progress":{step},"message":"{}"}}"#,
                        "y".repeat(64 << 10)
                    );
                    report(&call, params);
                    tokio::task::yield_now().await;
                }
            }
            done.send(()).unwrap();
            result(&format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#))
        }
    });
    let served = serve_with(&node, |config| {
        config.calls_per_tool = 1;
        config.queue_per_tool = 64;
        config.queue_wait = SOON;
    })
    .await;
    let client = Client::new(&served);
    let params = r#""name":"team__f","_meta":{"progressToken":1}"#;
    let mut unread = Vec::new();
    for _ in 0..8 {
        let (client, body) = client.modern("1", "tools/call", params);
        // The head of the answer is there, its body is left where it is.
        unread.push(client.open(Method::POST, body).await);
        tokio::time::timeout(SOON, ended.recv()).await.expect("its tool went on").unwrap();
    }
    assert_eq!(client.call("team__f", "{}").await.status, 200);
    drop(unread);
}
