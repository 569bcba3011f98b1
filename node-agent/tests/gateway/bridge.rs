//! The bridge between lines and the endpoint, in both eras.

use std::sync::Arc;

use node_agent::bridge;
use node_agent::gateway::{Config, Gateway, Token, Upstream};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::{SOON, modern_body};
use crate::node::{Dropped, Function, Node, OPEN, Served, report, result, same, serve};

struct Bridge {
    stdin: WriteHalf<DuplexStream>,
    stdout: Lines<BufReader<ReadHalf<DuplexStream>>>,
    run: JoinHandle<Result<(), bridge::Error>>,
}

impl Bridge {
    fn start(url: &str, token: &Token) -> Self {
        let (url, token) = (url.to_owned(), token.reveal().to_owned());
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (their_stdin, their_stdout) = split(theirs);
        let (stdout, stdin) = split(ours);
        let run = tokio::spawn(async move {
            bridge::run(&url, &token, Box::new(their_stdin), Box::new(their_stdout)).await
        });
        Self { stdin, stdout: BufReader::new(stdout).lines(), run }
    }

    fn of(served: &Served) -> Self {
        Self::start(&served.url, &served.token)
    }

    async fn say(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        timeout(SOON, self.stdout.next_line()).await.expect("a line in time").unwrap().expect("a line")
    }

    async fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    async fn handshake(&mut self) {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        self.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string())
            .await;
        // Not waited for: what follows is held back until it is answered.
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        self.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
        assert_eq!(self.json().await["result"]["protocolVersion"], "2025-06-18");
        assert_eq!(self.json().await["result"]["tools"][0]["name"], "team__hello");
    }

    async fn end(mut self) {
        self.stdin.shutdown().await.unwrap();
        assert!(timeout(SOON, self.run).await.expect("an end in time").unwrap().is_ok());
    }
}

fn call(id: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{params}}}}}"#)
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_nothing_ends() {
    let served = serve(&Node::echo(&[same("hello", OPEN)])).await;
    let mut bridge = Bridge::of(&served);
    for (line, code) in [("{", -32700), ("7", -32600), (r#"{"jsonrpc":"2.0","id":1}"#, -32600)] {
        bridge.say(line).await;
        assert_eq!(bridge.json().await["error"]["code"], code, "{line}");
    }
    bridge.say("").await;
    bridge.say(r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#).await;
    let early = bridge.json().await;
    assert_eq!((&early["id"], &early["error"]["code"]), (&json!(5), &json!(-32600)));
    bridge.say(&"x".repeat((16 << 20) + 1)).await;
    assert!(bridge.line().await.contains("over the limit"));
    bridge.handshake().await;
    bridge.end().await;
}

#[tokio::test]
async fn a_modern_client_lists_calls_and_keeps_its_bytes() {
    let listing = r#"{"inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}},"type":"object"}}"#;
    let served = serve(&Node::echo(&[same("hello", listing)])).await;
    let mut bridge = Bridge::of(&served);
    bridge.say(&modern_body(r#""d""#, "server/discover", "")).await;
    assert_eq!(bridge.json().await["result"]["supportedVersions"][0], "2026-07-28");
    let arguments = r#"{"region":"eu","big":18446744073709551616,"x":1e400}"#;
    bridge
        .say(&modern_body(
            "9007199254740993",
            "tools/call",
            &format!(r#""name":"team__hello","arguments":{arguments}"#),
        ))
        .await;
    let line = bridge.line().await;
    assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":9007199254740993,"#), "{line}");
    assert!(line.contains(&format!(r#""structuredContent":{arguments}"#)), "{line}");
    bridge.say(&modern_body("1", "tools/call", r#""name":"tëam""#)).await;
    assert_eq!(bridge.json().await["result"]["_meta"]["dev.pintle/refusal"], "unknown_function");
    bridge.say(&modern_body("2", "ping", "")).await;
    let unknown = bridge.json().await;
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!(2), &json!(-32601)));
    bridge.end().await;
}

fn slow() -> (Arc<Node>, mpsc::UnboundedReceiver<String>, mpsc::UnboundedReceiver<String>) {
    let (started, began) = mpsc::unbounded_channel();
    let (dropped, ended) = mpsc::unbounded_channel();
    let node = Node::new(&[same("hello", OPEN)], move |_, call, _| {
        let arguments =
            call.arguments.as_ref().map(|arguments| arguments.get().to_owned()).unwrap_or_default();
        started.send(arguments.clone()).unwrap();
        let gone = Dropped(dropped.clone(), arguments);
        async move {
            if call.progress {
                report(&call, r#"{"progressToken":3,"progress":1}"#.to_owned());
                return result(r#"{"content":[]}"#);
            }
            std::future::pending::<()>().await;
            drop(gone);
            result("{}")
        }
    });
    (node, began, ended)
}

async fn next(channel: &mut mpsc::UnboundedReceiver<String>) -> String {
    timeout(SOON, channel.recv()).await.expect("in time").unwrap()
}

#[tokio::test]
async fn cancellations_overtake_in_both_eras() {
    let (node, mut began, mut ended) = slow();
    let served = serve(&node).await;
    let mut modern = Bridge::of(&served);
    modern.say(&modern_body("1", "tools/call", r#""name":"team__hello","arguments":{"a":1}"#)).await;
    modern.say(&modern_body(r#""1""#, "tools/call", r#""name":"team__hello","arguments":{"a":2}"#)).await;
    next(&mut began).await;
    next(&mut began).await;
    modern.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    assert_eq!(next(&mut ended).await, r#"{"a":1}"#);
    let mut session = Bridge::of(&served);
    session.handshake().await;
    session.say(&call("1", r#""name":"team__hello","arguments":{"a":3}"#)).await;
    next(&mut began).await;
    session.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    assert_eq!(next(&mut ended).await, r#"{"a":3}"#);
    // And the end of stdin ends what is left.
    modern.end().await;
    assert_eq!(next(&mut ended).await, r#"{"a":2}"#);
    session.say(&call("2", r#""name":"team__hello","arguments":{"a":4}"#)).await;
    next(&mut began).await;
    session.end().await;
    assert_eq!(next(&mut ended).await, r#"{"a":4}"#);
}

#[tokio::test]
async fn progress_comes_as_lines_before_the_answer() {
    let (node, _began, _ended) = slow();
    let served = serve(&node).await;
    let mut bridge = Bridge::of(&served);
    bridge.handshake().await;
    bridge.say(&call(r#""c""#, r#""name":"team__hello","_meta":{"progressToken":"p"}"#)).await;
    assert_eq!(bridge.json().await["params"], json!({"progressToken": "p", "progress": 1}));
    assert_eq!(bridge.json().await["id"], "c");
    bridge.end().await;
}

#[tokio::test]
async fn questions_come_as_lines_and_answers_go_back() {
    let (node, _ended) = crate::talking::asking();
    let served = serve(&node).await;
    let mut bridge = Bridge::of(&served);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}});
    bridge
        .say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string())
        .await;
    bridge.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!(bridge.json().await["result"]["protocolVersion"], "2025-11-25");
    bridge.say(&crate::talking::call(1, &crate::talking::form("Which?"))).await;
    let asked = bridge.json().await;
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("Which?"))
    );
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept","content":{{"n":1e2}}}}}}"#,
        asked["id"]
    );
    bridge.say(&answer).await;
    let line = bridge.line().await;
    assert!(line.contains(r#""structuredContent":{"action":"accept","content":{"n":1e2}}"#), "{line}");
    bridge.end().await;
}

async fn restarted(served: Served, node: &Arc<Node>) -> Gateway {
    let (listen, token) = (served.gateway.address(), served.token.clone());
    served.gateway.stop().await;
    let upstream: Arc<dyn Upstream> = Arc::<Node>::clone(node);
    Gateway::start(Config { listen, ..Config::default() }, token, upstream).await.unwrap()
}

#[tokio::test]
async fn a_session_outlives_the_node() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let served = serve(&node).await;
    let mut bridge = Bridge::of(&served);
    bridge.handshake().await;
    node.set(&[same("hello", OPEN), same("other", OPEN)]);
    assert_eq!(bridge.json().await["method"], "notifications/tools/list_changed");
    let _again = restarted(served, &node).await;
    bridge.say(&call("7", r#""name":"team__hello""#)).await;
    let mut seen = [bridge.json().await, bridge.json().await];
    seen.sort_by_key(|message| message.get("id").is_some());
    assert_eq!(seen[0]["method"], "notifications/tools/list_changed", "it may have missed some");
    assert_eq!((&seen[1]["id"], seen[1].get("error")), (&json!(7), None));
    bridge.say(r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#).await;
    assert_eq!(bridge.json().await["id"], 8);
    node.set(&[same("hello", OPEN)]);
    assert_eq!(bridge.json().await["method"], "notifications/tools/list_changed", "its stream is open again");
    bridge.end().await;
}

#[tokio::test]
async fn a_subscription_outlives_the_node() {
    let node = Node::echo(&[same("hello", OPEN)]);
    let served = serve(&node).await;
    let mut bridge = Bridge::of(&served);
    bridge
        .say(&modern_body("4", "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#))
        .await;
    assert_eq!(bridge.json().await["method"], "notifications/subscriptions/acknowledged");
    node.set(&[Function { not_shown: true, ..same("hello", OPEN) }]);
    let changed = bridge.json().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 4);
    bridge.end().await;
}

#[tokio::test]
async fn the_end_of_stdin_waits_for_answers_that_are_near() {
    let served = serve(&Node::echo(&[same("hello", OPEN)])).await;
    let mut bridge = Bridge::of(&served);
    bridge.say(&modern_body("1", "tools/call", r#""name":"team__hello""#)).await;
    bridge.stdin.shutdown().await.unwrap();
    assert_eq!(bridge.json().await["id"], 1);
    assert!(timeout(SOON, bridge.run).await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn a_wrong_token_and_a_wrong_url_say_so() {
    let served = serve(&Node::echo(&[same("hello", OPEN)])).await;
    let mut bridge = Bridge::start(&served.url, &Token::random());
    bridge.say(&modern_body("1", "server/discover", "")).await;
    let answer = bridge.json().await;
    assert_eq!(answer["id"], 1);
    assert!(answer["error"]["message"].as_str().unwrap().contains("mcp.token"), "{answer}");
    let token = served.token.reveal();
    assert!(matches!(bridge::list("no url", token).await, Err(bridge::Error::Settings { .. })));
    let error = bridge::list(&served.url.replace("/mcp", "/x"), token).await.unwrap_err();
    assert!(matches!(error, bridge::Error::Status { status: 404, .. }), "{error}");
}

#[tokio::test]
async fn one_call_gives_its_result_progress_and_refusal() {
    let (node, _began, _ended) = slow();
    let served = serve(&node).await;
    let (url, token) = (&*served.url, served.token.reveal());
    let mut said = Vec::new();
    let mut progress = |text: &str| said.push(text.to_owned());
    let outcome = bridge::call(url, token, "team.hello", r#"{"a":1e400}"#, &mut progress).await.unwrap();
    assert!(!outcome.is_error && outcome.refusal.is_none());
    assert!(outcome.get().contains(r#""content":[]"#));
    assert_eq!(said, ["1"]);
    let refused = bridge::call(url, token, "team.hallo", "{}", &mut |_| {}).await.unwrap();
    assert!(refused.is_error);
    assert_eq!(refused.refusal.as_deref(), Some("unknown_function"));
    let error = bridge::call(url, token, "team.hello", "{", &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, bridge::Error::Arguments(_)), "{error}");
}

#[tokio::test]
async fn one_list_gives_every_page() {
    let names: Vec<&'static str> = (0..7).map(|n| &*Box::leak(format!("f{n}").into_boxed_str())).collect();
    let functions: Vec<Function> = names.iter().map(|name| same(name, OPEN)).collect();
    let served = crate::node::serve_with(&Node::echo(&functions), |config| config.page_entries = 3).await;
    let list = bridge::list(&served.url, served.token.reveal()).await.unwrap();
    assert_eq!(list.len(), 7);
    assert!(list[6].get().contains(r#""name":"team__f6""#));
}
