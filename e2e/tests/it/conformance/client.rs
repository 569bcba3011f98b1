//! Scenarios for clients: the suite starts a server for each, and a node speaks with it as with any remote tool of
//! a plugin, while an agent behind the bridge calls what the scenario wants called.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Json, State};
use axum::routing::post;
use e2e::bridged::{Bridged, filled};
use e2e::conformance::{self, Outcomes};
use e2e::fleet::{EDGE, Fleet};
use e2e::process::{here, node_js, pintle_command};
use futures::StreamExt as _;
use serde_json::{Map, Value, json};

use super::check;

/// Scenarios at once: each is mostly waiting.
const AT_ONCE: usize = 4;

struct Stage {
    fleet: Fleet,
    count: AtomicU64,
}

/// Answers the suite's client command when the node has done what the scenario wants.
async fn speak(State(stage): State<Arc<Stage>>, Json(order): Json<Value>) -> String {
    let number = stage.count.fetch_add(1, Ordering::Relaxed);
    let (plugin, tool) = (format!("scenario-{number}"), format!("s{number}"));
    let fleet = &stage.fleet;
    fleet.install(&plugin, "1.0.0", &json!({&*tool: {"url": order["url"]}})).await.unwrap();
    let listed = async || {
        loop {
            let shown = fleet.get(&format!("/plugins/{plugin}")).await.unwrap();
            if !shown["versions"][0]["tools"][0]["snapshot"].is_null() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // A server that cannot be listed ends its scenario with what it saw until then.
    let said = match tokio::time::timeout(Duration::from_secs(20), listed()).await {
        Ok(()) => called(fleet, &format!("{tool}__"), &order).await,
        Err(_) => fleet.node_log(0),
    };
    // The suite waits until its server's connections are closed.
    fleet.cli(&["unassign", &plugin, "--edge", EDGE]).await.unwrap();
    said
}

/// Calls every function that is listed: with the scenario's own arguments if it has some, else with what their
/// schemas require.
async fn called(fleet: &Fleet, prefix: &str, order: &Value) -> String {
    let mut bridge = pintle_command().unwrap();
    bridge.args(["mcp", "--endpoint", &fleet.mcp(0).url, "--node-data"]).arg(fleet.folder().join("node-1"));
    let mut agent = Bridged::start(bridge).await.unwrap();
    let is_ours = |tool: &Value| tool["name"].as_str().is_some_and(|name| name.starts_with(prefix));
    let mut tools = Vec::new();
    // These have none.
    while tools.is_empty()
        && !["initialize", "request-metadata"].contains(&order["scenario"].as_str().unwrap())
    {
        tools = agent.tools().await.unwrap();
        tools.retain(is_ours);
    }
    let mut said = Vec::new();
    for call in calls(prefix, order, &tools) {
        let result = agent.call(call.0.as_str(), &call.1).await;
        said.push(format!("{} {}: {result:?}", call.0, call.1));
    }
    said.join("\n")
}

fn calls(prefix: &str, order: &Value, tools: &[Value]) -> Vec<(String, Value)> {
    if let Some(calls) = order["context"]["toolCalls"].as_array() {
        let call = |call: &Value| {
            // Whether an argument is null or not there is the same to the scenario, and not to its schema.
            let mut arguments = call["arguments"].as_object().cloned().unwrap();
            arguments.retain(|_, value| !value.is_null());
            (format!("{prefix}{}", call["name"].as_str().unwrap()), Value::Object(arguments))
        };
        return calls.iter().map(call).collect();
    }
    let schema_of = |wanted: &str| {
        let tool = tools.iter().find(|tool| tool["name"].as_str().is_some_and(|name| name.ends_with(wanted)));
        tool.map(|tool| tool["inputSchema"].clone())
    };
    let arguments = |tool: &Value| {
        let (properties, required) = (&tool["inputSchema"]["properties"], &tool["inputSchema"]["required"]);
        let required = required.as_array().into_iter().flatten().filter_map(Value::as_str);
        let required: Map<String, Value> =
            required.map(|name| (name.to_owned(), properties[name].clone())).collect();
        let mut arguments = filled(&Value::Object(required));
        // One scenario wants to be told the schema that arrived.
        if let (Some(Value::Object(_)), Some(schema)) =
            (arguments.get("schema"), schema_of("json_schema_2020_12_tool"))
        {
            arguments["schema"] = schema;
        }
        arguments
    };
    tools.iter().map(|tool| (tool["name"].as_str().unwrap().to_owned(), arguments(tool))).collect()
}

#[tokio::test]
async fn what_the_suite_checks_at_clients_holds_of_a_node() {
    let stage = Arc::new(Stage { fleet: Fleet::start(1).await.unwrap(), count: AtomicU64::new(0) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let script = here().join("peers/conformance_client.mjs");
    let (node, address) = (node_js(), listener.local_addr().unwrap());
    let command = format!("{} {} http://{address}/", node.display(), script.display());
    let router = axum::Router::new().route("/", post(speak)).with_state(Arc::clone(&stage));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let mut scenarios = Vec::new();
    for revision in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        for scenario in conformance::client_scenarios(revision).await.unwrap() {
            // Authorization is not built: no scenario of it runs.
            if !scenario.starts_with("auth/") {
                scenarios.push((revision, scenario));
            }
        }
    }
    let folder = stage.fleet.folder();
    let run = async |(revision, scenario): (&'static str, String)| {
        let folder = folder.join(format!("{scenario}-{revision}"));
        std::fs::create_dir(&folder).unwrap();
        (revision, conformance::client(&scenario, &command, revision, &folder).await.unwrap())
    };
    let mut runs: Vec<(String, Outcomes)> = Vec::new();
    let mut outcomes = futures::stream::iter(scenarios.into_iter().map(run)).buffer_unordered(AT_ONCE);
    while let Some((revision, outcome)) = outcomes.next().await {
        let name = format!("client {revision}");
        match runs.iter_mut().find(|(run, _)| *run == name) {
            Some((_, outcomes)) => outcomes.extend(outcome),
            None => runs.push((name, outcome)),
        }
    }
    drop(outcomes);
    serving.abort();
    check(&runs);
}
