//! Published reports of gateways that changed what passed through them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::listing::judge_entry;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tools::CallError;

use crate::client::Client;
use crate::node::{Node, OPEN, result, same, serve};

/// What the tool answers to each of the case's calls, in order.
fn answering(rows: Vec<Value>, listing: &str) -> Arc<Node> {
    let rows = std::sync::Mutex::new(rows.into_iter());
    Node::new(&[same("total", listing)], move |_, _, before| {
        let row = rows.lock().unwrap().next().unwrap();
        async move {
            before().map_err(CallError::Refused)?;
            if row["error"].is_object() {
                let error = RawValue::from_string(row["error"].to_string()).unwrap();
                return Err(CallError::Failed(tools::Error::Rpc(tools::RpcError::from_raw(&error))));
            }
            result(&row["result"].to_string())
        }
    })
}

// C14
#[tokio::test]
async fn results_and_errors_reach_the_agent_whatever_the_output_schema_says() {
    let case: Value =
        serde_json::from_str(include_str!("../cases/C14-output-schema-and-errors.json")).unwrap();
    let entry =
        json!({"name": "total", "inputSchema": {"type": "object"}, "outputSchema": case["outputSchema"]});
    let listing = judge_entry(&entry.to_string(), &[]).unwrap().canonical;
    let rows = case["results"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    let served = serve(&answering(rows.clone(), &listing)).await;
    let client = Client::new(&served);
    for row in rows {
        let answer = client.call("team__total", "{}").await.json();
        if row["error"].is_object() {
            assert_eq!(answer["error"], row["error"], "{row}");
            continue;
        }
        let mut got = answer["result"].as_object().unwrap().clone();
        // What a node adds says where it came from.
        assert_eq!(got.remove("_meta").unwrap()["dev.pintle/plugin"]["name"], "team");
        assert_eq!(got.remove("resultType"), Some("complete".into()));
        assert_eq!(Value::Object(got), row["result"]);
    }
}

// C18
#[tokio::test]
async fn arguments_nested_past_any_reader_are_refused_and_the_next_call_is_served() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let node = Node::new(&[same("hello", OPEN)], move |_, _, before| {
        let counted = Arc::clone(&counted);
        async move {
            before().map_err(CallError::Refused)?;
            counted.fetch_add(1, Ordering::SeqCst);
            result(r#"{"content":[]}"#)
        }
    });
    let served = serve(&node).await;
    let client = Client::new(&served);
    for depth in [1_200, 100_000] {
        let nested = format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let answer = client.call("team__hello", &nested).await;
        let said = answer.json()["result"].clone();
        assert_eq!(said["isError"], true, "{}", answer.text.get(..400).unwrap_or(&answer.text));
        assert!(answer.text.contains("nested at most") && answer.text.len() < 2_000, "{}", answer.text.len());
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0, "nothing was sent");
    assert!(client.call("team__hello", "{}").await.json()["result"].is_object());
}
