//! Redirects: within the origin only, five at most, the URL named.

use serde_json::json;
use tools::{CallError, Error, StartError};

use super::support::{Endpoint, Stage, call, value};

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_and_asked_about_again() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let tool = stage.open(endpoint.spec("/same")).await.unwrap();
    assert_eq!(
        value(&call(&tool, "echo", r#"{"a":1}"#).await.unwrap().0)["structuredContent"],
        json!({"a": 1})
    );
    // Two questions a leg: the third is the second leg's.
    let asked = std::sync::atomic::AtomicU32::new(0);
    let outcome = tool.call(tools::Call::new("echo", None), move || {
        if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2 { Ok(()) } else { Err("changed") }
    });
    assert!(matches!(outcome.await, Err(CallError::Refused("changed"))));
    let calls = endpoint.received().into_iter().filter(|entry| entry["rpc"] == "tools/call");
    let paths: Vec<_> = calls.map(|entry| entry["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(paths, ["/same", "/mcp", "/same"]);
}

#[tokio::test]
async fn no_redirect_leaves_the_origin_or_changes_the_method() {
    let stage = Stage::new();
    let elsewhere = Stage::new();
    let other = Endpoint::start(&elsewhere, json!({}));
    let url = other.spec("/mcp").url;
    let endpoint = Endpoint::start(&stage, json!({"other": url.as_str()}));
    for (path, wanted) in [
        ("/cross", format!("sent us to {url}, which is another origin")),
        ("/found", "answered 302, which is not followed here; the URL to use is".to_owned()),
        ("/loop", "the URL that was just asked".to_owned()),
    ] {
        let Err(StartError::Opening(error)) = stage.open(endpoint.spec(path)).await else { panic!("{path}") };
        assert!(matches!(error, Error::Redirected(_)) && !error.may_have_run());
        assert!(error.to_string().contains(&wanted), "{error}");
    }
    let Err(StartError::Opening(error)) = stage.open(endpoint.spec("/round")).await else { panic!() };
    assert!(error.to_string().contains("/roundnnnnnn; use the last URL"), "{error}");
    assert_eq!(
        endpoint.received().iter().filter(|e| e["path"].as_str().unwrap().starts_with("/round")).count(),
        6
    );
    assert!(other.received().is_empty());
}
