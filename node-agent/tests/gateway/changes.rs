//! `list_changed`: within a second of a real change, in both eras, and of nothing else.

use std::time::Duration;

use domain::guard::view::SetState;
use reqwest::Method;
use tokio::time::{Instant, timeout};

use crate::client::{Client, Events};
use crate::node::{Function, Node, OPEN, now, same, serve, tool};

const OTHER: &str = r#"{"description":"Other","inputSchema":{"type":"object"}}"#;

async fn both(client: &Client) -> [Events; 2] {
    let session = client.handshake("2025-11-25").await.with("accept", Some("text/event-stream"));
    let old = Events::new(session.open(Method::GET, "").await);
    let (client, body) =
        client.modern("5", "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#);
    let mut new = Events::new(client.open(Method::POST, body).await);
    assert_eq!(new.json().await["method"], "notifications/subscriptions/acknowledged");
    [old, new]
}

#[tokio::test]
async fn a_real_change_is_told_within_a_second_and_a_rebuilt_table_is_none() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let served = serve(&node).await;
    let mut streams = both(&Client::new(&served)).await;
    // Refused or callable, listed anew or not held: what models are listed stays the same.
    node.set(&[same("hello", OPEN)]);
    node.set(&[Function { listed: Some(OTHER.into()), ..same("hello", OPEN) }]);
    node.set(&[Function { listed: None, ..same("hello", OPEN) }]);
    node.set(&[same("hello", OPEN), Function { approved: None, ..same("new", OPEN) }]);
    node.change(|view| tool(view, |tool| tool.relisting = Some(now())));
    node.change(|view| view.set = SetState::Waiting { server: "cp".into(), since: now() });
    node.set(&[same("hello", OPEN)]);
    for events in &mut streams {
        assert!(timeout(Duration::from_millis(400), events.next()).await.is_err(), "nothing has changed");
    }
    let before = Instant::now();
    node.set(&[same("hello", OTHER)]);
    for events in &mut streams {
        assert_eq!(events.json().await["method"], "notifications/tools/list_changed");
    }
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
}

#[tokio::test]
async fn another_snapshot_another_name_and_another_version_are_changes() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let served = serve(&node).await;
    let mut streams = both(&Client::new(&served)).await;
    let hidden = Function { not_shown: true, ..same("hello", OTHER) };
    let changes: [Vec<Function>; 4] =
        [vec![same("hello", OTHER)], vec![hidden], vec![same("hello", OTHER)], vec![same("hallo", OTHER)]];
    for functions in changes {
        node.set(&functions);
        for events in &mut streams {
            assert_eq!(events.json().await["method"], "notifications/tools/list_changed");
        }
    }
}

// C21
#[tokio::test]
async fn a_storm_of_changes_is_told_a_few_times() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let served = serve(&node).await;
    let [mut old, _new] = both(&Client::new(&served)).await;
    for n in 0..1_000 {
        node.set(&[same("hello", if n % 2 == 0 { OTHER } else { OPEN })]);
    }
    node.set(&[same("last", OPEN)]);
    let mut told = 0;
    while timeout(Duration::from_millis(400), old.next()).await.is_ok() {
        told += 1;
    }
    assert!((1..=20).contains(&told), "{told}");
}

#[tokio::test]
async fn a_session_is_told_at_once_what_changed_while_it_had_no_stream() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let served = serve(&node).await;
    let session = Client::new(&served).handshake("2025-11-25").await;
    session.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    node.set(&[same("hello", OTHER)]);
    let mut events =
        Events::new(session.with("accept", Some("text/event-stream")).open(Method::GET, "").await);
    assert_eq!(events.json().await["method"], "notifications/tools/list_changed");
}
