//! A URL may hold a key: it stands in no error, no log line and no debug output.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tools::{Call, Error, Opening, StartError, Tool, ToolSpec, UrlSpec};

use super::support::{Endpoint, Stage, call, chain, raw, send, until};

const SECRET: &str = "k3y-of-nobody";

/// All that is logged on this thread, from now on.
struct Logs {
    file: tempfile::NamedTempFile,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Logs {
    fn take() -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        let subscriber = subscriber.with_writer(Mutex::new(file.reopen().unwrap())).finish();
        Self { file, _guard: tracing::subscriber::set_default(subscriber) }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file.path()).unwrap()
    }
}

fn spec(endpoint: &Endpoint, path: &str) -> UrlSpec {
    let mut spec = endpoint.spec(path);
    spec.url.set_query(Some(&format!("key={SECRET}")));
    spec.url.set_fragment(Some(SECRET));
    spec.headers =
        http::HeaderMap::from_iter([("x-key".parse::<http::HeaderName>().unwrap(), SECRET.parse().unwrap())])
            .into();
    spec.limits.start = Duration::from_secs(20);
    spec
}

/// The error's kind; none of its forms says the secret.
fn told(error: &(impl std::error::Error + 'static)) -> String {
    let all = format!("{}\n{error:?}\n{error:#?}", chain(error));
    assert!(!all.contains(SECRET), "{all}");
    chain(error)
}

async fn opened(stage: &Stage, spec: UrlSpec) -> Tool {
    let all = format!("{spec:?} {:?}", ToolSpec::Url(spec.clone()));
    assert!(!all.contains(SECRET) && all.contains("http://127.0.0.1:"), "{all}");
    let tool = stage.open(spec).await.unwrap();
    assert!(!format!("{tool:?}").contains(SECRET), "{tool:?}");
    tool
}

#[tokio::test]
async fn no_error_of_a_start_says_it() {
    let logs = Logs::take();
    let other = Stage::new();
    let elsewhere = Endpoint::start(&other, json!({}));
    let url = spec(&elsewhere, "/mcp").url;
    let echoed = format!("Cannot POST /mcp?key={SECRET}");
    for (config, path, wanted) in [
        (json!({"init": [401, ""]}), "/mcp", "/mcp: it answers 401"),
        (
            json!({"init": [404, echoed], "probe": [404, echoed]}),
            "/mcp",
            "it answers 404: Cannot POST /mcp?…",
        ),
        (json!({"init": [500, echoed]}), "/mcp", "it answers 500"),
        (json!({"probe": [200, "<html>", "text/html"]}), "/mcp", "this is not an MCP endpoint"),
        (json!({"init": [202, ""]}), "/mcp", "its stream ended before it"),
        (json!({"version": "2031-01-01"}), "/mcp", "it offers `2031-01-01`"),
        (json!({"other": url.as_str()}), "/cross", "which is another origin"),
        (json!({"other": "http://k3y-of-nobody@127.0.0.1/"}), "/cross", "no URL that a tool is called at"),
        (json!({}), "/found", "answered 302"),
        (json!({}), "/loop", "loop"),
        (json!({}), "/round", "use the last URL"),
        (json!({"endpoint": [url.as_str()]}), "/sse", "wants messages sent to a place at"),
        (
            json!({"endpoint": [format!("http://{SECRET}@127.0.0.1:PORT/m?{SECRET}")]}),
            "/sse",
            "a URL with a user name",
        ),
        (json!({"endpoint": [format!("javascript:a?{SECRET}")]}), "/sse", "no http or https URL"),
    ] {
        let stage = Stage::new();
        let endpoint = Endpoint::start(&stage, config);
        let error = stage.open(spec(&endpoint, path)).await.expect_err(wanted);
        let said = told(&error);
        assert!(said.contains(wanted), "{said}");
    }
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({}));
    let closed = spec(&endpoint, "/mcp");
    drop(endpoint);
    assert!(told(&stage.open(closed.clone()).await.expect_err("closed")).contains("refused"));
    let mut odd = closed.clone();
    odd.url = format!("ftp://{SECRET}:{SECRET}@127.0.0.1/x?{SECRET}").parse().unwrap();
    assert!(told(&stage.open(odd).await.expect_err("ftp")).contains("ftp://127.0.0.1/x"));
    let mut silent = closed;
    silent.addresses.policy.loopback = false;
    let error = stage.open(silent).await.expect_err("loopback");
    assert!(matches!(error, StartError::Opening(Error::Address { .. })));
    told(&error);
    assert!(!logs.text().contains(SECRET), "{}", logs.text());
}

#[tokio::test]
async fn no_error_of_a_call_says_it() {
    let logs = Logs::take();
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = opened(&stage, spec(&endpoint, "/mcp")).await;
    let status =
        |code: u16| ("status", json!({"code": code, "body": format!("what of {SECRET}?key={SECRET}")}));
    let cut_in_body =
        json!({"code": 200, "body": "{", "headers": [["Content-Length", "9"], ["Connection", "close"]]});
    for (name, arguments) in [
        status(401),
        ("status", json!({"code": 502, "body": format!("no /mcp?key={SECRET}")})),
        ("html", json!({})),
        ("cut", json!({})),
        ("status", cut_in_body),
        ("spoilt", json!({})),
        ("nothing of that name", json!({})),
    ] {
        let error = call(&tool, name, &arguments.to_string()).await.expect_err(name);
        told(&error);
    }
    let mut late = Call::new("ask", Some(raw(r#"{"wait":true}"#)));
    late.deadline = Duration::from_millis(100);
    let error = send(&tool, late).await.expect_err("late");
    assert!(matches!(error, Error::TimedOut { .. }), "{}", told(&error));
    told(&error);
    // What is under suspicion by now is tested, and found lost.
    endpoint.set(&json!({"forget": true})).await;
    let lost = |error: &Error| matches!(error, Error::SessionLost { .. });
    let error = loop {
        match call(&tool, "echo", "{}").await {
            Err(error) if lost(&error) => break error,
            Err(error) => told(&error),
            Ok(_) => continue,
        };
    };
    assert!(told(&error).contains("/mcp: the server forgot it"));
    tool.stop().await;
    told(&call(&tool, "echo", "{}").await.expect_err("stopped"));
    assert!(!logs.text().contains(SECRET), "{}", logs.text());
}

#[tokio::test]
async fn what_a_server_of_the_older_transport_does_is_logged_without_it() {
    let logs = Logs::take();
    let stage = Stage::new();
    let places = json!(["/messages?sid=%s", format!("/elsewhere?{SECRET}")]);
    let endpoint = Endpoint::start(&stage, json!({"endpoint": places}));
    let mut spec = spec(&endpoint, "/sse");
    spec.opening = Opening::Older;
    let tool = opened(&stage, spec).await;
    until("the second place is logged", || logs.text().contains("another place for messages")).await;
    endpoint.set(&json!({"drop": true})).await;
    let error = call(&tool, "echo", "{}").await.expect_err("its stream is gone");
    assert!(told(&error).contains("/sse"), "{error}");
    let asked = |entry: &Value| entry["path"].as_str().is_some_and(|path| path.contains(SECRET));
    assert!(endpoint.received().iter().any(asked), "the server itself is asked with its key");
    assert!(!logs.text().contains(SECRET), "{}", logs.text());
}

#[test]
fn what_a_process_is_started_with_is_shown_without_its_arguments_and_values() {
    let mut spec = Stage::new().command(&["/usr/bin/tool", "--key", SECRET]);
    spec.env = vec![("API_KEY".to_owned(), SECRET.to_owned())];
    let shown = format!("{:?}", ToolSpec::Command(spec));
    assert!(shown.contains("/usr/bin/tool") && shown.contains("API_KEY"), "{shown}");
    assert!(!shown.contains(SECRET), "{shown}");
}
