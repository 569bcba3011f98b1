//! Published reports of gateways that changed what passed through them.

use domain::listing::judge_entry;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tools::CallError;

use crate::client::Client;
use crate::node::{Node, result, same, serve};

/// What the tool answers to each of the case's calls, in order.
fn answering(rows: Vec<Value>, listing: &str) -> std::sync::Arc<Node> {
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
