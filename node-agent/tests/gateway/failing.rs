//! A tool that fails is left alone for a while, and one that answers is not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tools::{CallError, Error, RpcError};

use crate::client::{Answer, Client};
use crate::node::{Node, OPEN, Served, result, same, serve_with};

/// Makes the outcome of a call; `None` is a good one.
type Fault = Arc<Mutex<Option<fn() -> Error>>>;

/// A tool with two functions that fails as it is told, and counts what reaches it.
fn failing() -> (Arc<Node>, Fault, Arc<AtomicUsize>) {
    let (fault, calls) = (Fault::default(), Arc::new(AtomicUsize::new(0)));
    let (told, counted) = (Arc::clone(&fault), Arc::clone(&calls));
    let node = Node::new(&[same("f", OPEN), same("g", OPEN)], move |_, _, before| {
        let (told, counted) = (Arc::clone(&told), Arc::clone(&counted));
        async move {
            before().map_err(CallError::Refused)?;
            counted.fetch_add(1, Ordering::SeqCst);
            let fault = *told.lock().unwrap();
            match fault {
                Some(fault) => Err(CallError::Failed(fault())),
                None => result(r#"{"content":[]}"#),
            }
        }
    });
    (node, fault, calls)
}

async fn serve(node: &Arc<Node>, failures: u32) -> Served {
    serve_with(node, |config| {
        config.breaker_failures = failures;
        config.breaker_wait = Duration::from_secs(5);
    })
    .await
}

fn late() -> Error {
    Error::TimedOut { after: Duration::from_secs(9), sent: true }
}

fn gone() -> Error {
    Error::Gone { status: "ended with exit code 3".into(), stderr: "".into(), sent: true }
}

fn is_good(answer: &Answer) -> bool {
    answer.json()["result"].get("isError").is_none()
}

fn pass(node: &Node, ms: u64) {
    node.now_ms.fetch_add(ms, Ordering::SeqCst);
}

#[tokio::test]
async fn after_failures_in_a_row_calls_are_refused_at_once_until_one_that_is_let_through_is_answered() {
    let (node, fault, calls) = failing();
    let served = serve(&node, 3).await;
    let client = Client::new(&served);
    for error in [late as fn() -> Error, gone, late] {
        *fault.lock().unwrap() = Some(error);
        let answer = client.call("team__f", "{}").await;
        assert!(!answer.text.contains("busy"), "{}", answer.text);
    }
    for name in ["team__f", "team__g"] {
        let answer = client.call(name, "{}").await;
        assert_eq!(answer.refusal(), "busy");
        let told = answer.sentence();
        for part in [
            "`team` is not called since 2",
            "3 calls in a row got no answer (setting `gateway.breaker_failures`)",
            "the last failed to get an answer within 9000 ms",
            "The next call is let through in 5 s (setting `gateway.breaker_wait`)",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), 3, "nothing of those reached the tool");
    // One that is let through fails: the next is let through after twice the time.
    pass(&node, 5_000);
    assert_eq!(client.call("team__f", "{}").await.refusal(), "timed_out");
    assert!(client.call("team__f", "{}").await.sentence().contains("in 10 s"));
    pass(&node, 10_000);
    *fault.lock().unwrap() = None;
    for _ in 0..3 {
        assert!(is_good(&client.call("team__f", "{}").await));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 7);
}

#[tokio::test]
async fn a_tool_that_answers_with_errors_is_called_on_and_so_is_any_where_it_is_off() {
    let (node, fault, calls) = failing();
    let served = serve(&node, 1).await;
    let client = Client::new(&served);
    let error = || {
        let raw = RawValue::from_string(r#"{"code":-32000,"message":"no"}"#.to_owned()).unwrap();
        Error::Rpc(RpcError::from_raw(&raw))
    };
    *fault.lock().unwrap() = Some(error);
    for _ in 0..10 {
        assert_eq!(client.call("team__f", "{}").await.code(), -32_000);
    }
    let bad = client.call("team__f", "[]").await;
    assert!(!bad.text.contains("busy"), "{}", bad.text);
    assert_eq!(calls.load(Ordering::SeqCst), 10);
    let (node, fault, calls) = failing();
    let served = serve(&node, 0).await;
    *fault.lock().unwrap() = Some(late);
    for _ in 0..10 {
        assert_eq!(Client::new(&served).call("team__f", "{}").await.refusal(), "timed_out");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 10);
}

/// A tool whose calls all wait, and then end as they are told.
fn together(error: fn() -> Error) -> (Arc<Node>, Arc<Semaphore>, Arc<Semaphore>) {
    let (began, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (started, gate) = (Arc::clone(&began), Arc::clone(&go));
    let node = Node::new(&[same("f", OPEN)], move |_, _, before| {
        let (started, gate) = (Arc::clone(&started), Arc::clone(&gate));
        async move {
            before().map_err(CallError::Refused)?;
            started.add_permits(1);
            gate.acquire().await.unwrap().forget();
            Err(CallError::Failed(error()))
        }
    });
    (node, began, go)
}

fn call(client: &Client) -> tokio::task::JoinHandle<Answer> {
    let client = client.clone();
    tokio::spawn(async move { client.call("team__f", "{}").await })
}

#[tokio::test]
async fn calls_that_are_lost_together_count_once_and_calls_that_each_waited_their_time_count_all() {
    for (error, is_held_back) in [(gone as fn() -> Error, false), (late, true)] {
        let (node, began, go) = together(error);
        let served = serve(&node, 3).await;
        let client = Client::new(&served);
        let asked: Vec<_> = (0..8).map(|_| call(&client)).collect();
        began.acquire_many(8).await.unwrap().forget();
        go.add_permits(9);
        for asked in asked {
            asked.await.unwrap();
        }
        let answer = client.call("team__f", "{}").await;
        assert_eq!(answer.text.contains("busy"), is_held_back, "{}", answer.text);
    }
}

#[tokio::test]
async fn one_call_at_a_time_is_let_through_and_one_that_is_cancelled_makes_room_for_the_next() {
    let (node, began, go) = together(late);
    let served = serve(&node, 1).await;
    let client = Client::new(&served);
    go.add_permits(1);
    assert_eq!(client.call("team__f", "{}").await.refusal(), "timed_out");
    began.acquire().await.unwrap().forget();
    pass(&node, 5_000);
    let probe = call(&client);
    began.acquire().await.unwrap().forget();
    for _ in 0..3 {
        let told = client.call("team__f", "{}").await.sentence();
        assert!(told.contains("One call is under way to see whether it answers"), "{told}");
    }
    probe.abort();
    // The connection's end is heard soon; then another may try.
    let next = loop {
        let mut next = call(&client);
        tokio::select! {
            permit = began.acquire() => {
                permit.unwrap().forget();
                break next;
            }
            answer = &mut next => assert_eq!(answer.unwrap().refusal(), "busy"),
        }
    };
    go.add_permits(1);
    assert_eq!(next.await.unwrap().refusal(), "timed_out");
}
