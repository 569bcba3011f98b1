//! What passes through is not touched. C15, C17.

use std::sync::{Arc, Mutex};

use serde_json::value::RawValue;

use crate::client::Client;
use crate::node::{Node, OPEN, result, same, serve};

#[tokio::test]
async fn arguments_and_results_arrive_byte_for_byte() {
    let served = serve(&Node::echo(&[same("echo", OPEN)])).await;
    let client = Client::new(&served);
    for number in [
        "9007199254740993",
        "-9007199254740993",
        "18446744073709551616",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "1.0",
        "1e2",
        "1E+2",
        "-0",
        "1e400",
        "4.35e-320",
    ] {
        let arguments = format!(r#"{{ "id" : {number} ,"z":1,"a":[ ],"t":"\u00e9\/é","n":null}}"#);
        let answer = client.call("team__echo", &arguments).await;
        assert!(answer.text.contains(&format!(r#""structuredContent":{arguments}"#)), "{}", answer.text);
    }
}

#[tokio::test]
async fn params_that_no_revision_has_are_the_tools_to_know_and_those_of_the_protocol_are_not() {
    let node = Node::new(&[same("f", OPEN)], |_, call, _| {
        let others = call.others.map(String::from).unwrap_or_default();
        async move { result(&format!(r#"{{"content":[]{others}}}"#)) }
    });
    let served = serve(&node).await;
    let session = Client::new(&served).handshake("2025-11-25").await;
    let sent = r#""x":{ "n":1e400},"n\u0061me":"team__f","\u200b" : [1 ],"task":{"ttl":1},"requestState":"s","_meta":{}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{sent}}}}}"#);
    let answer = session.post(body).await;
    assert!(answer.text.contains(r#""content":[],"x":{ "n":1e400},"\u200b":[1 ]}"#), "{}", answer.text);
}

#[tokio::test]
async fn content_that_nobody_knows_yet_and_members_named_twice_pass() {
    let sent: Arc<Mutex<String>> = Arc::default();
    let next = Arc::clone(&sent);
    let node = Node::new(&[same("raw", OPEN)], move |_, _, _| {
        let json = next.lock().unwrap().clone();
        async move { result(&json) }
    });
    let served = serve(&node).await;
    let client = Client::new(&served);
    let inside = r#""content":[{"type":"hologram","x":1,"x":2}],"isError":false,"later":{"z":0,"a":18446744073709551616}"#;
    *sent.lock().unwrap() = format!("{{{inside}}}");
    let answer = client.call("team__raw", "{}").await;
    assert!(answer.text.contains(inside), "{}", answer.text);
    *sent.lock().unwrap() = format!(
        r#"{{"resultType":"complete",{inside},"_meta":{{"a/b":1e400,"dev.pintle/plugin":"forged"}}}}"#
    );
    let answer = client.call("team__raw", "{}").await;
    assert!(answer.text.contains(inside) && answer.text.contains(r#""a/b":1e400"#), "{}", answer.text);
    assert!(
        !answer.text.contains("forged") && answer.text.matches("resultType").count() == 1,
        "{}",
        answer.text
    );
    for (odd, is_error) in [("{}", false), ("{ }", false), ("[]", true), ("null", true), ("7", true)] {
        *sent.lock().unwrap() = odd.to_owned();
        let answer = client.call("team__raw", "{}").await.json();
        assert_eq!(answer["result"]["isError"] == true, is_error, "{answer}");
        assert_eq!(answer["result"]["_meta"]["dev.pintle/plugin"]["name"], "team");
    }
}

#[tokio::test]
async fn a_handshake_client_gets_no_members_of_the_later_revision() {
    let served = serve(&Node::echo(&[same("echo", OPEN)])).await;
    let client = Client::new(&served).handshake("2025-06-18").await;
    let answer = client
        .post(r#"{"jsonrpc":"2.0","id":"é\u00e9","method":"tools/call","params":{"name":"team__echo","arguments":{"a":1}}}"#)
        .await;
    let hash = domain::digest::ListingHash::of_canonical(OPEN);
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":"é\u00e9","result":{{"_meta":{{"dev.pintle/plugin":{{"name":"team","version":"1.2.0"}},"dev.pintle/listing":"{hash}"}},"content":[],"structuredContent":{{"a":1}}}}}}"#
    );
    assert_eq!(answer.text, expected);
}

#[tokio::test]
async fn ids_keep_their_type_and_their_spelling() {
    let served = serve(&Node::echo(&[same("echo", OPEN)])).await;
    for id in ["1", r#""1""#, "9007199254740993", "-5", "1.0", "1e2", r#""\u00e9""#, r#""""#] {
        let (client, body) = Client::new(&served).modern(id, "tools/call", r#""name":"team__echo""#);
        let answer = client.post(body).await;
        assert!(
            answer.text.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#)),
            "{}",
            answer.text
        );
    }
}

#[tokio::test]
async fn the_trace_and_unknown_metadata_reach_the_tool() {
    let node = Node::new(&[same("meta", OPEN)], |_, call, _| async move {
        let meta: Box<RawValue> = call.meta.unwrap();
        result(&format!(r#"{{"content":[],"structuredContent":{}}}"#, meta.get()))
    });
    let served = serve(&node).await;
    let params = r#""name":"team__meta","_meta":{"traceparent":"00-a-b-01","x/big":18446744073709551616}"#;
    let answer = Client::new(&served).ask("tools/call", params).await;
    assert!(
        answer.text.contains(r#""traceparent":"00-a-b-01","x/big":18446744073709551616"#),
        "{}",
        answer.text
    );
}
