//! What a tool and an agent say to each other during a call.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tools::{Call, Error, Listener, LogLevel, Offers, Question, RawResult, Said, Tool};

use super::support::{Endpoint, PATIENCE, Stage, raw, send, text, until, value};

struct Ear(u64, mpsc::UnboundedSender<Said>);

impl Listener for Ear {
    fn agent(&self) -> u64 {
        self.0
    }

    fn hear(&self, said: Said) {
        self.1.send(said).ok();
    }
}

/// A call under way of one agent, and what is said to it.
struct Talk {
    heard: mpsc::UnboundedReceiver<Said>,
    call: JoinHandle<Result<RawResult, Error>>,
}

impl Talk {
    fn start(tool: &Arc<Tool>, agent: u64, mut call: Call) -> Self {
        let (said, heard) = mpsc::unbounded_channel();
        call.listener = Some(Arc::new(Ear(agent, said)));
        let tool = Arc::clone(tool);
        Self { heard, call: tokio::spawn(async move { send(&tool, call).await }) }
    }

    fn say(tool: &Arc<Tool>, agent: u64, lines: &[&str]) -> Self {
        Self::start(tool, agent, Call::new("say", Some(raw(&json!({ "lines": lines }).to_string()))))
    }

    async fn next(&mut self) -> Said {
        tokio::time::timeout(PATIENCE, self.heard.recv()).await.expect("said in time").unwrap()
    }

    async fn question(&mut self) -> Question {
        match self.next().await {
            Said::Asks(question) => question,
            other => panic!("{other:?}"),
        }
    }
}

const ASK: &str =
    r#"{"jsonrpc":"2.0","id":"7","method":"elicitation/create","params":{ "message":"?","x":1e400}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":<ID>,"result":{"content":[]}}"#;

/// The tool has got a message with this text.
async fn got(stage: &Stage, wanted: &str) {
    until(wanted, || std::fs::read_to_string(stage.log()).unwrap_or_default().contains(wanted)).await;
}

#[tokio::test]
async fn calls_of_several_agents_leave_a_question_without_an_answer_and_nobody_hears_it() {
    let stage = Stage::new();
    let tool = Arc::new(stage.start(json!({})).await);
    let mut x = Talk::start(&tool, 1, Call::new("stuck", None));
    until("it is stuck", || stage.received().iter().any(|m| m["params"]["name"] == "stuck")).await;
    let mut y = Talk::say(&tool, 2, &[ASK]);
    got(&stage, "calls of several agents are under way").await;
    assert!(x.heard.try_recv().is_err() && y.heard.try_recv().is_err());
    x.call.abort();
    y.call.abort();
    let cancelled = || stage.received().iter().filter(|m| m["method"] == "notifications/cancelled").count();
    until("both are cancelled", || cancelled() == 2).await;
    // The tool may speak of those still: a third is not asked either.
    let mut z = Talk::say(&tool, 3, &[ASK]);
    let declined = || stage.received().iter().filter(|m| m["error"]["code"] == -32603).count();
    until("it is declined again", || declined() == 2).await;
    assert!(z.heard.try_recv().is_err());
    z.call.abort();
}

#[tokio::test]
async fn what_is_not_offered_is_declined_and_outside_of_calls_nobody_is_asked() {
    let stage = Stage::new();
    let tool = Arc::new(stage.start(json!({})).await);
    let roots = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    let mut talk = Talk::say(&tool, 1, &[roots, ANSWER, ASK]);
    got(&stage, "this client offers no such method").await;
    got(&stage, r#""id":"7","#).await;
    talk.call.await.unwrap().unwrap();
    if let Some(said) = talk.heard.recv().await {
        panic!("{said:?}");
    }
}

#[tokio::test]
async fn a_question_goes_to_its_agent_and_the_answer_back_byte_for_byte() {
    let stage = Stage::new();
    let tool = Arc::new(stage.start(json!({})).await);
    let mut other = Talk::start(&tool, 1, Call::new("stuck", None));
    let mut talk = Talk::say(&tool, 1, &[ASK]);
    // Two calls of one agent: it is that agent whichever it was.
    let question = tokio::select! {
        question = talk.question() => question,
        question = other.question() => question,
    };
    assert_eq!(question.method(), "elicitation/create");
    assert_eq!(question.params().unwrap().get(), r#"{ "message":"?","x":1e400}"#);
    let result = r#"{ "action":"accept","content":{"n":18446744073709551616.0}}"#;
    question.answer(&raw(result));
    got(&stage, &format!(r#"{{"jsonrpc":"2.0","id":"7","result":{result}}}"#)).await;
    talk.call.abort();
    other.call.abort();
}

#[tokio::test]
async fn a_withdrawn_question_and_log_messages_are_heard_in_their_order() {
    let stage = Stage::new();
    let tool = Arc::new(stage.start(json!({})).await);
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1e400}}"#;
    let withdrawn = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}"#;
    let mut talk = Talk::say(&tool, 1, &[log, ASK, withdrawn, ANSWER]);
    talk.call.await.unwrap().unwrap();
    let Some(Said::Log(params)) = talk.heard.recv().await else { panic!("a log message") };
    assert_eq!(params.get(), r#"{"level":"error","data":1e400}"#);
    let Some(Said::Asks(question)) = talk.heard.recv().await else { panic!("a question") };
    assert!(matches!(talk.heard.recv().await, Some(Said::Withdraws(id)) if id == *question.id()));
    question.forget();
}

#[tokio::test]
async fn tools_are_told_at_their_start_what_is_offered() {
    for (offers, expected) in [
        (Offers { elicitation: false, sampling: false, roots: false }, json!({})),
        (Offers::default(), json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}})),
        (Offers { elicitation: false, sampling: false, roots: true }, json!({"roots": {}})),
    ] {
        let stage = Stage::new();
        let mut spec = stage.python(json!({}));
        spec.offers = offers;
        let _tool = stage.start_spec(spec).await.unwrap();
        let received = stage.received();
        let initialize = received.iter().find(|m| m["method"] == "initialize").unwrap();
        assert_eq!(initialize["params"]["capabilities"], expected);
    }
}

#[tokio::test]
async fn a_tool_that_logs_is_told_the_lowest_level_once() {
    let stage = Stage::new();
    let tool = stage.start(json!({"logging": true})).await;
    for level in [LogLevel::Warning, LogLevel::Error, LogLevel::Warning, LogLevel::Debug] {
        let mut call = Call::new("echo", None);
        call.log_level = Some(level);
        send(&tool, call).await.unwrap();
    }
    let received = stage.received();
    let levels = received.iter().filter(|m| m["method"] == "logging/setLevel");
    let levels: Vec<&Value> = levels.map(|m| &m["params"]["level"]).collect();
    assert_eq!(levels, ["warning", "debug"]);
}

#[tokio::test]
async fn a_tool_of_the_modern_era_is_told_with_each_call_and_asks_in_place_of_a_result() {
    let stage = Stage::new();
    let tool = stage.start(json!({"era": "modern"})).await;
    let wants = r#"{"jsonrpc":"2.0","id":<ID>,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s\u0074"}}"#;
    let mut call = Call::new("say", Some(raw(&json!({"lines": [wants]}).to_string())));
    call.capabilities = Some(r#"{"roots":{}}"#.into());
    call.log_level = Some(LogLevel::Notice);
    let Err(Error::InputRequired(result)) = send(&tool, call).await else { panic!("input is required") };
    assert_eq!(value(&result)["inputRequests"]["a"]["method"], "roots/list");
    let mut again = Call::new("echo", None);
    again.responses = Some(raw(r#"{"a":{"roots":[1e2]}}"#));
    again.state = Some(raw(r#""s\u0074""#));
    send(&tool, again).await.unwrap();
    let log = std::fs::read_to_string(stage.log()).unwrap();
    assert!(log.contains(r#""inputResponses":{"a":{"roots":[1e2]}},"requestState":"s\u0074","#), "{log}");
    let received = stage.received();
    let meta =
        |name: &str| &received.iter().find(|m| m["params"]["name"] == name).unwrap()["params"]["_meta"];
    assert_eq!(meta("say")["io.modelcontextprotocol/clientCapabilities"], json!({"roots": {}}));
    assert_eq!(meta("say")["io.modelcontextprotocol/logLevel"], "notice");
    assert_eq!(meta("echo")["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert!(meta("echo").get("io.modelcontextprotocol/logLevel").is_none());
}

#[tokio::test]
async fn over_http_a_question_is_of_the_call_whose_stream_it_comes_on() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"sessions": true}));
    let tool = Arc::new(stage.open(endpoint.spec("/mcp")).await.unwrap());
    let ask = |who: &str| {
        let arguments = json!({"wait": true, "who": who}).to_string();
        Call::new("ask", Some(raw(&arguments)))
    };
    let mut x = Talk::start(&tool, 1, ask("x"));
    let asked = x.question().await;
    assert!(asked.params().unwrap().get().contains(r#""who": "x""#));
    asked.answer(&raw(r#"{"action":"decline"}"#));
    until("it is answered", || {
        endpoint.received().iter().any(|entry| {
            let body = entry["body"].as_str().unwrap_or_default();
            body == r#"{"jsonrpc":"2.0","id":"mine","result":{"action":"decline"}}"#
        })
    })
    .await;
    let mut y = Talk::start(&tool, 2, ask("y"));
    let asked = y.question().await;
    assert!(asked.params().unwrap().get().contains(r#""who": "y""#));
    assert!(x.heard.try_recv().is_err());
    drop(asked);
    x.call.abort();
    y.call.abort();
    let mut plain = Talk::start(&tool, 3, Call::new("ask", Some(raw("{}"))));
    plain.question().await.decline("no");
    assert_eq!(text(&plain.call.await.unwrap().unwrap()), "asked");
}

#[tokio::test]
async fn a_question_on_the_stream_of_no_call_goes_to_the_only_agent_that_calls() {
    let stage = Stage::new();
    let endpoint = Endpoint::start(&stage, json!({"get": 200, "announces": false}));
    let tool = Arc::new(stage.open(endpoint.spec("/mcp")).await.unwrap());
    until("the stream is open", || endpoint.received().iter().any(|entry| entry["method"] == "GET")).await;
    while endpoint.set(&json!({})).await == 0 {}
    let mut x = Talk::start(&tool, 1, Call::new("ask_aside", None));
    x.question().await.answer(&raw(r#"{"action":"decline"}"#));
    got(&stage, r#"\"action\":\"decline\""#).await;
    x.call.abort();
}
