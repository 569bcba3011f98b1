//! What tools ask agents of the handshake revisions during a call.

use reqwest::Method;
use serde_json::{Value, json};
use tools::{CallError, Error, Reply, Said};

use crate::client::{Client, Events};
use crate::node::{Served, result, serve, serve_with};
use crate::talking::{BRIEF, ask, asking, call, form, next, raw, scripted, wants};

async fn agent(served: &Served) -> Client {
    let able = json!({"elicitation": {}, "sampling": {}});
    Client::new(served).handshake_with("2025-11-25", able).await
}

fn answer(id: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

#[tokio::test]
async fn an_agent_that_did_not_say_so_is_not_asked() {
    let (node, _ended) = asking();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let rows = [
        (json!({"method": "roots/list"}), "has roots"),
        (json!({"method": "elicitation/create", "params": {"mode": "url"}}), "show a URL"),
        (json!({"method": "sampling/createMessage", "params": {"tools": []}}), "with tools"),
    ];
    for (arguments, why) in rows {
        let answer = client.post(call(1, &arguments)).await;
        assert_eq!(answer.headers["content-type"], "application/json", "nothing was said before the answer");
        let said = answer.json()["result"]["unasked"]["message"].as_str().unwrap().to_owned();
        assert!(said.contains(why), "{said}");
    }
    let nothing = Client::new(&served).handshake("2025-11-25").await;
    let said = nothing.post(call(1, &form("?"))).await.json();
    assert!(said["result"]["unasked"]["message"].as_str().unwrap().contains("show a form"), "{said}");
}

#[tokio::test]
async fn a_question_comes_on_the_calls_stream_and_its_answer_reaches_the_tool_byte_for_byte() {
    let (node, _ended) = asking();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let mut events = Events::new(client.open(Method::POST, call(7, &form("Which?"))).await);
    let asked = events.json().await;
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(asked["params"], json!({"message": "Which?"}));
    assert!(asked["id"].is_u64(), "an id of our own: {asked}");
    // Neither another id, nor another type, nor another agent answers it.
    let stranger = agent(&served).await;
    let (text, other) = (json!(asked["id"].to_string()), json!(999));
    for (client, id) in [(&client, &text), (&client, &other), (&stranger, &asked["id"])] {
        assert_eq!(client.post(answer(id, r#"{"action":"cancel"}"#)).await.status, 202);
    }
    let result = r#"{ "action":"accept","content":{"n":18446744073709551616.0,"x":1e400}}"#;
    assert_eq!(client.post(answer(&asked["id"], result)).await.status, 202);
    let last = events.next().await.unwrap();
    assert!(last.contains(&format!(r#""structuredContent":{result}"#)), "{last}");
    assert!(last.starts_with(r#"{"jsonrpc":"2.0","id":7,"#));
    assert!(events.next().await.is_none());
    assert_eq!(client.post(answer(&asked["id"], result)).await.status, 202, "a second time it means nothing");
}

#[tokio::test]
async fn an_agents_error_reaches_the_tool_whole() {
    let (node, _ended) = asking();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let sample = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}});
    let mut events = Events::new(client.open(Method::POST, call(1, &sample)).await);
    let id = events.json().await["id"].clone();
    let error = r#"{"code":-1,"message":"User rejected","data":{"n":1e400}}"#;
    client.post(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)).await;
    let last = events.next().await.unwrap();
    assert!(last.contains(&format!(r#""error":{error}"#)), "{last}");
}

#[tokio::test]
async fn people_see_hidden_text_and_the_tool_gets_its_own_spelling_back() {
    let (node, _ended) = asking();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let question = json!({"method": "elicitation/create", "params": {"message": "Say\u{202e}sey",
        "requestedSchema": {"type": "object", "properties": {"a\u{200b}": {"enum": ["b\u{200b}", "c"]}}}}});
    let mut events = Events::new(client.open(Method::POST, call(1, &question)).await);
    let asked = events.json().await;
    assert_eq!(asked["params"]["message"], "Say\\u{202E}sey");
    let properties = asked["params"]["requestedSchema"]["properties"].clone();
    assert_eq!(properties, json!({"a\\u{200B}": {"enum": ["b\\u{200B}", "c"]}}));
    let entered = json!({"action": "accept", "content": {"a\\u{200B}": "b\\u{200B}"}}).to_string();
    client.post(answer(&asked["id"], &entered)).await;
    let got = events.json().await["result"]["structuredContent"]["content"].clone();
    assert_eq!(got, json!({"a\u{200b}": "b\u{200b}"}));
}

#[tokio::test]
async fn a_cancelled_call_ends_its_questions_on_both_sides() {
    let (node, mut ended) = asking();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let mut events = Events::new(client.open(Method::POST, call(5, &form("?"))).await);
    let asked = events.json().await;
    client.post(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#).await;
    next(&mut ended).await;
    let withdrawn = events.json().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    assert!(events.next().await.is_none(), "a cancelled call is not answered");
}

#[tokio::test]
async fn the_end_of_a_session_ends_the_calls_that_ask_it() {
    let (node, mut ended) = asking();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let mut events = Events::new(client.open(Method::POST, call(1, &form("?"))).await);
    assert_eq!(events.json().await["method"], "elicitation/create");
    assert_eq!(client.send(Method::DELETE, "").await.status, 204);
    assert_eq!(next(&mut ended).await, "given up");
}

#[tokio::test]
async fn a_tool_that_ends_or_withdraws_takes_its_question_back() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let mut events = Events::new({
        let client = client.clone();
        let asked = tokio::spawn(async move { client.open(Method::POST, call(1, &json!({}))).await });
        let listener = next(&mut calls).await.listener.unwrap();
        let _first = ask(&listener, "1", "elicitation/create", Some("{}"));
        let _second = ask(&listener, r#""1""#, "elicitation/create", Some("{}"));
        listener.hear(Said::Withdraws(1.into()));
        asked.await.unwrap()
    });
    let (first, second) = (events.json().await, events.json().await);
    let withdrawn = events.json().await;
    assert_eq!(withdrawn["params"]["requestId"], first["id"]);
    let gone = Error::Gone { status: "was ended by signal 9".into(), stderr: "".into(), sent: true };
    outcomes.send(Err(CallError::Failed(gone))).unwrap();
    let withdrawn = events.json().await;
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &second["id"])
    );
    let last = events.json().await;
    let sentence = last["result"]["content"][0]["text"].as_str().unwrap();
    assert!(sentence.contains("was ended by signal 9"), "{sentence}");
}

#[tokio::test]
async fn a_question_that_is_not_answered_in_time_is_taken_back_and_the_tool_told_why() {
    let (node, _ended) = asking();
    let served = serve_with(&node, |config| config.answer_wait = BRIEF).await;
    let client = agent(&served).await;
    let mut events = Events::new(client.open(Method::POST, call(1, &form("?"))).await);
    let asked = events.json().await;
    let withdrawn = events.json().await;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    let said = events.json().await["result"]["unasked"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("gateway.answer_wait"), "{said}");
}

#[tokio::test]
async fn more_and_larger_questions_than_allowed_are_declined_with_the_setting() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve_with(&node, |config| {
        (config.questions, config.questions_per_call, config.question_bytes) = (2, 1, 100);
    })
    .await;
    let client = agent(&served).await;
    let mut open = Vec::new();
    for (count, setting) in
        ["gateway.questions_per_call", "gateway.questions_per_call", "`gateway.questions`"]
            .into_iter()
            .enumerate()
    {
        let other = client.clone();
        let body = call(count as u64, &json!({}));
        let asked = tokio::spawn(async move { other.open(Method::POST, body).await });
        let listener = next(&mut calls).await.listener.unwrap();
        let large = format!(r#"{{"message":"{}"}}"#, "x".repeat(100));
        let mut large = ask(&listener, "1", "elicitation/create", Some(&large));
        let Reply::Unasked(error) = next(&mut large).await else { panic!("declined") };
        assert!(error.contains("gateway.question_bytes"), "{error}");
        let first = ask(&listener, "2", "elicitation/create", None);
        let mut second = if count < 2 { ask(&listener, "3", "elicitation/create", None) } else { first };
        let Reply::Unasked(error) = next(&mut second).await else { panic!("declined") };
        assert!(error.contains(setting), "{error}");
        open.push(asked);
    }
    for _ in &open {
        outcomes.send(result(r#"{"content":[]}"#)).unwrap();
    }
}

#[tokio::test]
async fn who_reads_no_stream_is_asked_on_the_sessions_own_or_not_at_all() {
    let (node, _ended) = asking();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let json_only = client.with("accept", Some("application/json"));
    let said = json_only.post(call(1, &form("?"))).await.json();
    assert!(said["result"]["unasked"]["message"].as_str().unwrap().contains("cannot be reached"), "{said}");
    let mut own = Events::new(client.open(Method::GET, "").await);
    let called = tokio::spawn(async move { json_only.post(call(2, &form("?"))).await.json() });
    let asked = own.json().await;
    assert_eq!(asked["method"], "elicitation/create");
    client.post(answer(&asked["id"], r#"{"action":"decline"}"#)).await;
    assert_eq!(called.await.unwrap()["result"]["structuredContent"]["action"], "decline");
}

#[tokio::test]
async fn log_messages_reach_the_agent_as_severe_as_it_wants_them() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    let client = Client::new(&served).handshake("2025-06-18").await;
    let set = |level: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{{"level":"{level}"}}}}"#)
    };
    assert_eq!(client.post(set("loud")).await.code(), -32602);
    assert_eq!(client.post(set("warning")).await.json()["result"], json!({}));
    let other = client.clone();
    let asked = tokio::spawn(async move { other.open(Method::POST, call(1, &json!({}))).await });
    let call = next(&mut calls).await;
    assert_eq!(call.log_level.map(tools::LogLevel::name), Some("warning"));
    let listener = call.listener.unwrap();
    for params in [r#"{"level":"info","data":1}"#, r#"{"level":"error","data":1e400,"logger":"x"}"#] {
        listener.hear(Said::Log(raw(params)));
    }
    outcomes.send(result(r#"{"content":[]}"#)).unwrap();
    let mut events = Events::new(asked.await.unwrap());
    let expected = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1e400,"logger":"x"}}"#;
    assert_eq!(events.next().await.unwrap(), expected);
    assert_eq!(events.json().await["id"], 1);
}

#[tokio::test]
async fn an_agents_progress_on_a_question_comes_under_the_tools_own_token() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let other = client.clone();
    let asked = tokio::spawn(async move { other.open(Method::POST, call(1, &json!({}))).await });
    let listener = next(&mut calls).await.listener.unwrap();
    let params = r#"{"messages":[],"_meta":{"progressToken":"theirs","traceparent":"00-1"}}"#;
    let mut replies = ask(&listener, "4", "sampling/createMessage", Some(params));
    let mut events = Events::new(asked.await.unwrap());
    let question = events.json().await;
    assert_eq!(question["params"]["_meta"], json!({"progressToken": question["id"], "traceparent": "00-1"}));
    let progress = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":0.50}}}}"#,
        question["id"]
    );
    client.post(progress).await;
    let Reply::Progress(params) = next(&mut replies).await else { panic!("progress") };
    assert_eq!(&*params, r#"{"progressToken":"theirs","progress":0.50}"#);
    outcomes.send(result(r#"{"content":[]}"#)).unwrap();
}

#[tokio::test]
async fn the_end_of_what_was_done_at_a_url_is_told_when_the_call_has_ended_too() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let mut own = Events::new(client.open(Method::GET, "").await);
    let called = tokio::spawn(async move { client.post(call(1, &json!({}))).await });
    let listener = next(&mut calls).await.listener.unwrap();
    outcomes.send(result(r#"{"content":[]}"#)).unwrap();
    assert_eq!(called.await.unwrap().status, 200);
    listener.hear(Said::Elicited(raw(r#"{"elicitationId":"e-1"}"#)));
    let told = own.json().await;
    assert_eq!(
        told,
        json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "e-1"}})
    );
}

#[tokio::test]
async fn a_tool_of_2026_07_28_is_answered_in_its_next_round() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    let client = agent(&served).await;
    let wanted = r#"{"resultType":"input_required","inputRequests":{"a\u0062":{"method":"elicitation/create","params":{"mode":"form","message":"?"}},"c":{"method":"sampling/createMessage","params":{"messages":[]}}},"requestState":"s\u0074"}"#;
    outcomes.send(wants(wanted)).unwrap();
    let mut events = Events::new(client.open(Method::POST, call(1, &json!({"x": 1e2}))).await);
    let first = next(&mut calls).await;
    assert_eq!(first.capabilities.as_deref(), Some(r#"{"elicitation":{},"sampling":{}}"#));
    let (form, sample) = (events.json().await, events.json().await);
    assert_eq!(sample["method"], "sampling/createMessage");
    client.post(answer(&sample["id"], r#"{"model":"m","n":1e400}"#)).await;
    client
        .post(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32603,"message":"no window"}}}}"#,
            form["id"]
        ))
        .await;
    outcomes.send(result(r#"{"resultType":"complete","content":[]}"#)).unwrap();
    let second = next(&mut calls).await;
    assert_eq!(
        second.responses.unwrap().get(),
        r#"{"a\u0062":{"action":"cancel"},"c":{"model":"m","n":1e400}}"#
    );
    assert_eq!(second.state.unwrap().get(), r#""s\u0074""#);
    assert_eq!(second.arguments.unwrap().get(), first.arguments.unwrap().get());
    assert_eq!(events.json().await["result"]["content"], json!([]));
}

#[tokio::test]
async fn the_guard_is_asked_again_before_the_next_round_and_rounds_have_an_end() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve_with(&node, |config| config.rounds = 1).await;
    let client = agent(&served).await;
    let wanted = r#"{"inputRequests":{"a":{"method":"elicitation/create","params":{}}}}"#;
    for is_changed in [true, false] {
        outcomes.send(wants(wanted)).unwrap();
        let mut events = Events::new(client.open(Method::POST, call(1, &json!({}))).await);
        next(&mut calls).await;
        let asked = events.json().await;
        if is_changed {
            node.set(&[]);
        } else {
            outcomes.send(wants(wanted)).unwrap();
        }
        client.post(answer(&asked["id"], r#"{"action":"decline"}"#)).await;
        let last = events.json().await;
        if is_changed {
            assert_eq!(last["result"]["_meta"]["dev.pintle/refusal"], "unknown_function", "{last}");
            node.set(&[crate::node::same("ask", crate::node::OPEN)]);
        } else {
            let sentence = last["result"]["content"][0]["text"].as_str().unwrap();
            assert!(sentence.contains("gateway.rounds"), "{sentence}");
        }
    }
}

#[tokio::test]
async fn a_round_that_its_agent_cannot_answer_fails_with_a_sentence() {
    let (node, _calls, outcomes) = scripted();
    let served = serve(&node).await;
    let client = agent(&served).await;
    for (wanted, reason) in [
        (r#"{"inputRequests":{"a":{"method":"roots/list"}}}"#, "has roots"),
        (r#"{"inputRequests":7}"#, "no object"),
        ("{}", "neither"),
    ] {
        outcomes.send(wants(wanted)).unwrap();
        let sentence = client.post(call(1, &json!({}))).await.sentence();
        assert!(sentence.contains(reason), "{sentence}");
    }
}
