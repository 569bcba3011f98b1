//! Revision 2026-07-28.

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, Events, modern_body};
use crate::node::{Function, Node, OPEN, same, serve, serve_with, version};
use domain::guard::view::SetState;

const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn body(method: &str, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{"name":"team__hello","_meta":{meta}}}}}"#
    )
}

#[tokio::test]
async fn headers_that_differ_from_the_body_are_a_mismatch() {
    let served = serve(&Node::echo(&[same("hello", OPEN)])).await;
    let (good, sent) = Client::new(&served).modern("7", "tools/call", r#""name":"team__hello""#);
    let rows = [
        ("mcp-protocol-version", None),
        ("mcp-protocol-version", Some("2025-11-25")),
        ("mcp-method", None),
        ("mcp-method", Some("tools/list")),
        ("mcp-method", Some("TOOLS/CALL")),
        ("mcp-name", None),
        ("mcp-name", Some("team__other")),
        ("mcp-name", Some("=?base64?%%%?=")),
    ];
    for (name, value) in rows {
        let answer = good.with(name, value).post(sent.clone()).await;
        assert_eq!((answer.status, answer.code()), (400, -32020), "{name}: {value:?}");
        assert_eq!(answer.json()["id"], 7);
    }
    let encoded = good.with("mcp-name", Some("=?base64?dGVhbV9faGVsbG8=?="));
    assert_eq!(encoded.post(sent.clone()).await.status, 200);
    assert_eq!(good.with("mcp-name", Some("  team__hello  ")).post(sent).await.status, 200);
}

#[tokio::test]
async fn missing_metadata_is_invalid_params() {
    let served = serve(&Node::echo(&[])).await;
    let (client, _) = Client::new(&served).modern("1", "server/discover", "");
    for meta in [
        "{}",
        "null",
        "7",
        r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#,
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#,
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":7}"#,
    ] {
        let answer = client.post(body("server/discover", meta)).await;
        assert_eq!((answer.status, answer.code()), (400, -32602), "{meta}");
        assert_eq!(answer.json()["id"], "a");
    }
}

#[tokio::test]
async fn an_unknown_version_is_told_the_supported_ones() {
    let served = serve(&Node::echo(&[])).await;
    let (client, _) = Client::new(&served).modern("1", "server/discover", "");
    let supported = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]);
    for version in ["1900-01-01", "v999", "2024-11-05"] {
        let client = client.with("mcp-protocol-version", Some(version));
        for meta in [META.replace("2026-07-28", version), "{}".to_owned()] {
            let answer = client.post(body("server/discover", &meta)).await;
            assert_eq!((answer.status, answer.code()), (400, -32022), "{version} {meta}");
            assert_eq!(answer.json()["error"]["data"], json!({"supported": supported, "requested": version}));
        }
    }
    let discovered = Client::new(&served).ask("server/discover", "").await.json();
    assert_eq!(discovered["result"]["supportedVersions"], supported);
}

#[tokio::test]
async fn methods_that_it_does_not_have_are_not_found() {
    let served = serve(&Node::echo(&[])).await;
    for method in
        ["initialize", "ping", "logging/setLevel", "resources/list", "prompts/list", "unknown/method"]
    {
        let answer = Client::new(&served).ask(method, "").await;
        assert_eq!((answer.status, answer.code()), (404, -32601), "{method}");
        assert_eq!(answer.json()["id"], 1);
    }
}

#[tokio::test]
async fn notifications_are_accepted_and_answers_are_not() {
    let served = serve(&Node::echo(&[])).await;
    let (client, _) = Client::new(&served).modern("1", "x", "");
    let notification =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"_meta":{META}}}}}"#);
    let answer = client.post(notification).await;
    assert_eq!((answer.status, &*answer.text), (202, ""));
    assert_eq!(client.post(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await.status, 400);
}

#[tokio::test]
async fn it_says_who_it_is_and_only_what_it_carries() {
    let served = serve(&Node::echo(&[])).await;
    let answer = Client::new(&served).ask("server/discover", "").await.json();
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["capabilities"], json!({"logging": {}, "tools": {"listChanged": true}}));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "pintle");
    assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "public");
    assert!(result.get("instructions").is_none());
}

#[tokio::test]
async fn the_list_is_the_snapshot_under_model_names_in_their_order() {
    let listing = r#"{"_meta":{"x/y":1},"description":"Says \\u{200B}hello","inputSchema":{"type":"object"},"title":null}"#;
    let drifted = Function { listed: Some(OPEN.into()), ..same("b.drifted", listing) };
    let gone = Function { listed: None, ..same("a_gone", listing) };
    let new = Function { approved: None, ..same("new", OPEN) };
    let hidden = Function { not_shown: true, ..same("hidden", OPEN) };
    let node = Node::echo(&[same("c", listing), drifted, gone, new, hidden]);
    let served = serve(&node).await;
    let answer = Client::new(&served).ask("tools/list", "").await.json();
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["team__a_gone", "team__b__drifted", "team__c"]);
    let hash = domain::digest::ListingHash::of_canonical(listing).to_string();
    let meta = json!({"x/y": 1, "dev.pintle/plugin": {"name": "team", "version": "1.2.0"}, "dev.pintle/listing": hash});
    for tool in tools {
        assert_eq!(tool["description"], "Says \\u{200B}hello");
        assert_eq!(tool["_meta"], meta);
        assert!(tool.get("title").is_none(), "a null title costs agents the whole list");
    }
    let result = &answer["result"];
    assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("private")));
    assert_eq!(result["ttlMs"], 10_000);
    assert!(result.get("nextCursor").is_none());
    assert_eq!(version().to_string(), "team@1.2.0");
}

async fn pages(client: &Client) -> (Vec<usize>, Vec<String>) {
    let (mut sizes, mut names, mut cursor) = (Vec::new(), Vec::new(), None::<String>);
    loop {
        let params = cursor.map_or(String::new(), |cursor| format!(r#""cursor":{}"#, json!(cursor)));
        let answer = client.ask("tools/list", &params).await.json();
        let tools = answer["result"]["tools"].as_array().unwrap();
        sizes.push(tools.len());
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match answer["result"].get("nextCursor") {
            None => return (sizes, names),
            Some(next) => cursor = Some(next.as_str().filter(|next| !next.is_empty()).unwrap().to_owned()),
        }
    }
}

#[tokio::test]
async fn a_long_list_comes_in_bounded_pages() {
    let names: Vec<&'static str> =
        (0..25).map(|n| &*Box::leak(format!("f{n:02}").into_boxed_str())).collect();
    let functions: Vec<Function> = names.iter().map(|name| same(name, OPEN)).collect();
    let node = Node::echo(&functions);
    let served = serve_with(&node, |config| config.page_entries = 10).await;
    let client = Client::new(&served);
    let (sizes, listed) = pages(&client).await;
    assert_eq!(sizes, [10, 10, 5]);
    assert!(listed.is_sorted() && listed.len() == 25);
    for bad in [r#""cursor":"""#, r#""cursor":"elsewhere""#, r#""cursor":7"#] {
        assert_eq!(client.ask("tools/list", bad).await.code(), -32602, "{bad}");
    }
    // A cursor of a name that is gone goes on behind it.
    let answer = client.ask("tools/list", r#""cursor":"after:team__f19x""#).await.json();
    assert_eq!(answer["result"]["tools"][0]["name"], "team__f20");
    let end = client.ask("tools/list", r#""cursor":"after:zzz""#).await.json();
    assert_eq!((&end["result"]["tools"], end["result"].get("nextCursor")), (&json!([]), None));
    let by_bytes = serve_with(&node, |config| config.page_bytes = 1).await;
    assert_eq!(pages(&Client::new(&by_bytes)).await.0, vec![1; 25]);
}

#[tokio::test]
async fn the_list_waits_for_the_set_of_a_node_that_starts() {
    let node = Node::echo(&[same("hello", OPEN)]);
    node.change(|view| {
        view.set = SetState::Waiting { server: "cp.example".into(), since: crate::node::now() }
    });
    let served = serve(&node).await;
    let client = Client::new(&served);
    let asked = tokio::spawn(async move { client.ask("tools/list", "").await.json() });
    tokio::task::yield_now().await;
    node.change(|view| view.set = SetState::Held);
    let answer = asked.await.unwrap();
    assert_eq!(answer["result"]["tools"][0]["name"], "team__hello");
}

#[tokio::test]
async fn without_a_set_the_list_is_empty_and_not_to_be_kept_and_later_it_stays_what_it_was() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let wait = |view: &mut domain::guard::view::View| {
        view.set = SetState::Waiting { server: "cp.example".into(), since: crate::node::now() };
    };
    node.change(wait);
    let served = serve_with(&node, |config| config.set_wait = std::time::Duration::from_millis(50)).await;
    let client = Client::new(&served);
    let empty = client.ask("tools/list", "").await.json();
    assert_eq!((&empty["result"]["tools"], &empty["result"]["ttlMs"]), (&json!([]), &json!(0)));
    node.change(|view| view.set = SetState::Held);
    assert_eq!(client.ask("tools/list", "").await.json()["result"]["tools"][0]["name"], "team__hello");
    node.change(wait);
    assert_eq!(client.ask("tools/list", "").await.json()["result"]["tools"][0]["name"], "team__hello");
}

#[tokio::test]
async fn annotated_arguments_have_to_be_in_headers_too() {
    let listing = r#"{"inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}},"type":"object"}}"#;
    let served = serve(&Node::echo(&[same("hello", listing)])).await;
    let (client, body) =
        Client::new(&served).modern("1", "tools/call", r#""name":"team__hello","arguments":{"region":"eu"}"#);
    assert_eq!(client.post(body.clone()).await.code(), -32020);
    let other = client.with("mcp-param-region", Some("us")).post(body.clone()).await;
    assert_eq!((other.status, other.code()), (400, -32020));
    assert_eq!(client.with("mcp-param-region", Some("eu")).post(body.clone()).await.status, 200);
    assert_eq!(
        client.with("pintle-bridge", Some("1")).post(body).await.status,
        200,
        "a stdio client has no headers"
    );
}

#[tokio::test]
async fn a_subscription_is_acknowledged_first_and_ends_with_its_answer() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let served = serve(&node).await;
    let (client, body) = Client::new(&served).modern(
        r#""sub""#,
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x:y"]}"#,
    );
    let mut events = Events::new(client.open(Method::POST, body).await);
    let meta = json!({"io.modelcontextprotocol/subscriptionId": "sub"});
    let first = events.json().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"], json!({"_meta": meta, "notifications": {"toolsListChanged": true}}));
    node.set(&[same("hello", OPEN), same("other", OPEN)]);
    let changed = events.json().await;
    assert_eq!(
        changed,
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}})
    );
    served.gateway.stop().await;
    let last: Value = events.json().await;
    assert_eq!(
        last,
        json!({"jsonrpc": "2.0", "id": "sub", "result": {"resultType": "complete", "_meta": meta}})
    );
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_session_header_means_nothing() {
    let served = serve(&Node::echo(&[])).await;
    let (client, _) = Client::new(&served).modern("1", "server/discover", "");
    let client = client.with("mcp-session-id", Some("unknown"));
    let answer = client.post(modern_body("1", "server/discover", "")).await;
    assert_eq!(answer.status, 200);
    assert!(!answer.headers.contains_key("mcp-session-id"));
}
