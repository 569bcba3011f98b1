//! Whole lists: pages, cursors, what breaks off, ten thousand functions.

use std::time::Duration;

use serde_json::{Value, json};
use tools::Error;

use super::support::{Stage, chain};

fn pages(pages: &Value) -> Value {
    let raw =
        pages.as_object().unwrap().iter().map(|(cursor, page)| (cursor.clone(), page.to_string().into()));
    json!({"pages": Value::Object(raw.collect())})
}

/// Case C09.
#[tokio::test]
async fn an_empty_cursor_is_a_cursor_and_never_a_loop() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/C09-empty-cursor.json");
    let case: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for row in case["servers"].as_array().unwrap() {
        let stage = Stage::new();
        let tool = stage.start(pages(&row["pages"])).await;
        let list = tool.list().await.unwrap();
        assert!(list.list.complete, "{row}");
        let requests: Vec<_> = stage.received().into_iter().filter(|m| m["method"] == "tools/list").collect();
        let expect = &row["expect"];
        if let Some(functions) = expect["functions"].as_array() {
            assert_eq!(list.list.entries.len(), functions.len(), "{row}");
            assert!(requests.len() as u64 <= expect["requests_at_most"].as_u64().unwrap(), "{row}");
        } else {
            assert_eq!(requests[1]["params"]["cursor"], expect["second_request_params"]["cursor"]);
        }
    }
}

/// Case C10.
#[tokio::test]
async fn a_list_that_breaks_off_keeps_what_came_and_says_why() {
    let stage = Stage::new();
    let config = json!({"pages": {"<none>": r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#, "2": "<never>"}});
    let mut spec = stage.python(config);
    spec.limits.list = Duration::from_millis(300);
    let tool = stage.start_spec(spec).await.unwrap();
    let list = tool.list().await.unwrap();
    assert_eq!((list.list.entries.len(), list.list.complete), (1, false));
    let error = list.broken.unwrap();
    assert!(error.to_string().contains("300 ms"), "{error}");

    let stage = Stage::new();
    let mut spec = stage.python(json!({"pages": {"<none>": r#"{"tools":[{"name":"a"},{"name":"b"}]}"#}}));
    spec.limits.pages.entries = 1;
    let tool = stage.start_spec(spec).await.unwrap();
    let list = tool.list().await.unwrap();
    assert!(!list.list.complete);
    assert!(matches!(list.broken, Some(Error::List(_))));
}

#[tokio::test]
async fn a_list_without_a_first_page_is_an_error() {
    for (page, wanted) in [
        (json!("<never>"), "300 ms"),
        (json!(r#"{"tools":{}}"#), "no array"),
        (json!("[]"), "page 1"),
        (Value::Null, "Invalid cursor"),
    ] {
        let stage = Stage::new();
        let mut spec = stage.python(json!({"pages": {"<none>": page}}));
        spec.limits.list = Duration::from_millis(300);
        let tool = stage.start_spec(spec).await.unwrap();
        let error = chain(&tool.list().await.expect_err("there is no list"));
        assert!(error.contains(wanted), "{error}");
    }
}

#[tokio::test]
async fn a_forgotten_cursor_starts_the_list_over_once() {
    let stage = Stage::new();
    let tool = stage.start(pages(&json!({"<none>": {"tools": [{"name": "a"}], "nextCursor": "gone"}}))).await;
    let error = tool.list().await.expect_err("the cursor is never known");
    assert!(matches!(error, Error::Rpc(ref rpc) if rpc.code == -32602), "{error}");
    let asked = stage.received().iter().filter(|m| m["method"] == "tools/list").count();
    assert_eq!(asked, 4);
}

#[tokio::test]
async fn the_shortest_time_to_live_of_all_pages_counts() {
    let stage = Stage::new();
    let all =
        json!({"<none>": {"tools": [], "nextCursor": "2", "ttlMs": 9000}, "2": {"tools": [], "ttlMs": 5000}});
    let tool = stage.start(pages(&all)).await;
    assert_eq!(tool.list().await.unwrap().ttl, Some(Duration::from_secs(5)));
}

/// Case C10.
#[tokio::test]
async fn ten_thousand_functions_are_listed_on_one_page_or_on_a_hundred() {
    let entry = |at: usize| json!({"name": format!("f{at:05}"), "description": "x".repeat(450)});
    let one: Vec<Value> = (1..=10_000).map(entry).collect();
    let hundred = one.chunks(100).enumerate().map(|(at, tools)| {
        let key = if at == 0 { "<none>".to_owned() } else { at.to_string() };
        let mut page = json!({ "tools": tools });
        if at < 99 {
            page["nextCursor"] = (at + 1).to_string().into();
        }
        (key, page)
    });
    let hundred = Value::Object(hundred.collect());
    for all in [json!({"<none>": {"tools": one}}), hundred] {
        let stage = Stage::new();
        // Too long for an argument of a process.
        let file = stage.folder.path().join("pages.json");
        std::fs::write(&file, pages(&all)["pages"].to_string()).unwrap();
        let tool = stage.start(json!({"pages_file": file.to_str().unwrap()})).await;
        let list = tool.list().await.unwrap();
        assert!(list.list.complete && list.list.warnings.is_empty());
        assert_eq!(list.list.entries.len(), 10_000);
        assert!(list.list.entries[9_999].contains("f10000"));
    }
}
