//! What tools ask agents of 2026-07-28: in place of a result, answered in the next round.

use serde_json::{Value, json};
use tools::{CallError, Error, Reply, RpcError, Said};

use crate::client::{Answer, Client};
use crate::node::{OPEN, Served, result, same, serve, serve_with};
use crate::talking::{BRIEF, ask, asking, form, next, raw, scripted, wants};

const ABLE: &str = r#"{"elicitation":{"form":{}},"sampling":{}}"#;

/// Sends one round of a call; `more` are further params.
async fn round(served: &Served, id: u64, name: &str, arguments: &Value, more: &str) -> Answer {
    round_with(served, id, name, &format!(r#""arguments":{arguments}{more}"#), &able(ABLE)).await
}

fn able(capabilities: &str) -> String {
    format!(r#""io.modelcontextprotocol/clientCapabilities":{capabilities}"#)
}

async fn round_with(served: &Served, id: u64, name: &str, params: &str, meta: &str) -> Answer {
    let (client, _) = Client::new(served).modern("0", "tools/call", &format!(r#""name":"team__{name}""#));
    let meta = format!(r#"{{"io.modelcontextprotocol/protocolVersion":"2026-07-28",{meta}}}"#);
    let params = format!(r#"{{"name":"team__{name}",{params},"_meta":{meta}}}"#);
    client.post(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)).await
}

fn retry(responses: &str, state: &str) -> String {
    format!(r#","inputResponses":{responses},"requestState":{}"#, json!(state))
}

fn state(answer: &Answer) -> String {
    let answer = answer.json();
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    answer["result"]["requestState"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_an_agent_did_not_declare_is_a_missing_capability_or_declined_to_the_tool() {
    let (node, _calls, outcomes) = scripted();
    let served = serve(&node).await;
    outcomes.send(wants(r#"{"inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}"#)).unwrap();
    let answer = round(&served, 1, "ask", &json!({}), "").await;
    assert_eq!((answer.status, answer.code()), (400, -32021));
    assert_eq!(answer.json()["error"]["data"]["requiredCapabilities"], json!({"roots": {}}));
    outcomes.send(wants(r#"{"inputRequests":{"a":{"method":"tasks/get"}}}"#)).unwrap();
    let sentence = round(&served, 1, "ask", &json!({}), "").await.sentence();
    assert!(sentence.contains("asks for first: agents are not asked by this method"), "{sentence}");
    let (node, _ended) = asking();
    let served = serve(&node).await;
    let answer = round(&served, 1, "ask", &json!({"method": "roots/list"}), "").await;
    let said = answer.json()["result"]["unasked"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("has roots"), "{said}");
    let answer = round_with(&served, 1, "ask", r#""arguments":{}"#, &able("{}")).await;
    assert_eq!(answer.json()["result"]["deaf"], true, "who can be asked nothing costs nothing");
}

#[tokio::test]
async fn a_state_that_is_changed_or_of_another_call_is_refused_and_reaches_no_tool() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    outcomes.send(wants(r#"{"requestState":"theirs"}"#)).unwrap();
    let good = state(&round(&served, 1, "ask", &json!({"a": 1}), "").await);
    next(&mut calls).await;
    let mut changed = good.clone().into_bytes();
    changed[30] ^= 1;
    let changed = String::from_utf8(changed).unwrap();
    let a = json!({"a": 1});
    for (name, arguments, more, why) in [
        ("ask", &a, retry("{}", &changed), "was changed"),
        ("ask", &a, retry("{}", "theirs"), "was changed"),
        ("ask", &json!({"a": 2}), retry("{}", &good), "of another call"),
        ("other", &a, retry("{}", &good), "of another call"),
        ("ask", &a, r#","requestState":7"#.to_owned(), "a string"),
        ("ask", &a, r#","inputResponses":{},"requestState":7"#.to_owned(), "a string"),
    ] {
        let answer = round(&served, 2, name, arguments, &more).await;
        assert_eq!(answer.code(), -32602, "{more}");
        let error = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(error.contains(why), "{error}");
    }
    let other = serve(&node).await;
    let foreign = round(&other, 3, "ask", &a, &retry("{}", &good)).await;
    assert_eq!(foreign.code(), -32602, "of another node");
    assert!(calls.try_recv().is_err());
    node.now_ms.fetch_add(10 * 60_000, std::sync::atomic::Ordering::SeqCst);
    node.change(|_| {});
    let late = round(&served, 4, "ask", &a, &retry("{}", &good)).await;
    assert!(late.json()["error"]["message"].as_str().unwrap().contains("expired"), "{}", late.text);
}

#[tokio::test]
async fn a_tool_of_the_same_revision_gets_its_own_state_back_byte_for_byte() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    let wanted = r#"{"resultType":"input_required","inputRequests":{"k\u0065y":{"method":"elicitation/create","params":{"message":"Say\u202ehi","n":1e2}}},"requestState":"s\u0074\/"}"#;
    outcomes.send(wants(wanted)).unwrap();
    let meta = format!(r#"{},"traceparent":"00-1","baggage":"b""#, able(ABLE));
    let first = round_with(&served, 1, "ask", r#""arguments":{}"#, &meta).await;
    let requests = r#""inputRequests":{"k\u0065y":{"method":"elicitation/create","params":{"message":"Say\\u{202E}hi","n":1e2}}}"#;
    assert!(first.text.contains(requests), "{}", first.text);
    assert!(!first.text.contains("s\\u0074"), "its state is sealed");
    let call = next(&mut calls).await;
    assert_eq!(call.capabilities.as_deref(), Some(ABLE));
    assert!(call.meta.unwrap().get().contains(r#""traceparent":"00-1","baggage":"b""#));
    outcomes.send(result(r#"{"resultType":"complete","content":[]}"#)).unwrap();
    let responses = r#"{"key":{"action":"accept","content":{"n":18446744073709551616.0}}}"#;
    let last = round(&served, 2, "ask", &json!({}), &retry(responses, &state(&first))).await;
    assert_eq!((last.json()["id"].clone(), last.json()["result"]["content"].clone()), (json!(2), json!([])));
    let call = next(&mut calls).await;
    assert_eq!(call.responses.unwrap().get(), responses);
    assert_eq!(call.state.unwrap().get(), r#""s\u0074\/""#);
}

#[tokio::test]
async fn answers_that_no_state_comes_with_reach_the_tool_as_they_are() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    let answers = r#"{"k":{"action":"accept","content":{"n":1e400}},"other":12345}"#;
    for capabilities in [ABLE, "{}"] {
        outcomes.send(wants(r#"{"inputRequests":{},"requestState":"theirs"}"#)).unwrap();
        let more = format!(r#""arguments":{{}},"inputResponses":{answers}"#);
        let again = round_with(&served, 1, "ask", &more, &able(capabilities)).await;
        assert!(state(&again) != "theirs", "{}", again.text);
        let call = next(&mut calls).await;
        assert_eq!((call.responses.unwrap().get(), call.state.is_none()), (answers, true));
    }
}

#[tokio::test]
async fn a_tools_own_word_of_a_missing_capability_has_the_status_that_the_protocol_gives_it() {
    let (node, _calls, outcomes) = scripted();
    let served = serve(&node).await;
    for (code, status) in [(-32021, 400), (-32602, 200)] {
        let error =
            format!(r#"{{"code":{code},"message":"m","data":{{"requiredCapabilities":{{"x":{{}}}}}}}}"#);
        outcomes.send(Err(CallError::Failed(Error::Rpc(RpcError::from_raw(&raw(&error)))))).unwrap();
        let answer = round(&served, 1, "ask", &json!({}), "").await;
        assert_eq!((answer.status, answer.code()), (status, code));
        assert!(answer.text.contains(&error), "{}", answer.text);
    }
}

#[tokio::test]
async fn rounds_have_an_end_and_the_guard_is_asked_in_each() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve_with(&node, |config| config.rounds = 1).await;
    outcomes.send(wants(r#"{"requestState":"1"}"#)).unwrap();
    let first = state(&round(&served, 1, "ask", &json!({}), "").await);
    next(&mut calls).await;
    let changed = OPEN.replace("Opens", "Closes");
    node.set(&[crate::node::Function { listed: Some(changed.clone()), ..same("ask", OPEN) }]);
    assert_eq!(round(&served, 2, "ask", &json!({}), &retry("{}", &first)).await.refusal(), "drifted");
    node.set(&[same("ask", &changed)]);
    let other = round(&served, 2, "ask", &json!({}), &retry("{}", &first)).await;
    assert!(other.json()["error"]["message"].as_str().unwrap().contains("another version"), "{}", other.text);
    node.set(&[same("ask", OPEN)]);
    assert!(calls.try_recv().is_err());
    outcomes.send(wants(r#"{"requestState":"2"}"#)).unwrap();
    let sentence = round(&served, 3, "ask", &json!({}), &retry("{}", &first)).await.sentence();
    assert!(sentence.contains("gateway.rounds"), "{sentence}");
}

#[tokio::test]
async fn a_tool_of_the_handshake_revisions_waits_in_its_call_until_the_agent_comes_back() {
    let (node, mut ended) = asking();
    let served = serve(&node).await;
    let question = json!({"method": "elicitation/create",
        "params": {"message": "W\u{200b}?", "_meta": {"progressToken": 1, "x": 2}, "elicitationId": "e"}});
    let first = round(&served, 1, "ask", &question, "").await;
    let requests = first.json()["result"]["inputRequests"].clone();
    let expected = json!({"ask-1": {"method": "elicitation/create", "params": {"message": "W\\u{200B}?", "_meta": {"x": 2}}}});
    assert_eq!(requests, expected);
    // What is not answered is asked again.
    let second = round(&served, 2, "ask", &question, &retry(r#"{"other":{}}"#, &state(&first))).await;
    assert_eq!(second.json()["result"]["inputRequests"], expected);
    let used = round(&served, 3, "ask", &question, &retry("{}", &state(&first))).await;
    assert!(used.json()["error"]["message"].as_str().unwrap().contains("used before"), "{}", used.text);
    assert!(ended.try_recv().is_err());
    let answer = r#"{"action":"accept","content":{"n":18446744073709551616.0}}"#;
    let last =
        round(&served, 4, "ask", &question, &retry(&format!(r#"{{"ask-1":{answer}}}"#), &state(&second)))
            .await;
    assert!(last.text.starts_with(r#"{"jsonrpc":"2.0","id":4,"#), "{}", last.text);
    assert!(last.text.contains(&format!(r#""structuredContent":{answer}"#)), "{}", last.text);
}

#[tokio::test]
async fn a_call_whose_agent_does_not_come_back_or_may_not_is_given_up() {
    let (node, mut ended) = asking();
    let served = serve_with(&node, |config| config.answer_wait = BRIEF).await;
    let first = round(&served, 1, "ask", &form("?"), "").await;
    let late = state(&first);
    assert_eq!(next(&mut ended).await, "given up");
    let used = round(&served, 2, "ask", &form("?"), &retry("{}", &late)).await;
    assert_eq!(used.code(), -32602);
    let served = serve(&node).await;
    let first = state(&round(&served, 1, "ask", &form("?"), "").await);
    node.set(&[]);
    assert_eq!(
        round(&served, 2, "ask", &form("?"), &retry("{}", &first)).await.refusal(),
        "unknown_function"
    );
    assert_eq!(next(&mut ended).await, "given up", "at once, and not when its time is over");
}

#[tokio::test]
async fn a_url_that_an_error_wants_visited_is_asked_for_before_the_call_is_made_again() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    let error = r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"https://a.example/","message":"m","elicitationId":"e"}]}}"#;
    let error = || Err(CallError::Failed(Error::Rpc(RpcError::from_raw(&raw(error)))));
    outcomes.send(error()).unwrap();
    assert_eq!(round(&served, 1, "ask", &json!({}), "").await.code(), -32021, "a form is no URL");
    outcomes.send(error()).unwrap();
    let meta = able(r#"{"elicitation":{"url":{}}}"#);
    let first = round_with(&served, 2, "ask", r#""arguments":{}"#, &meta).await;
    let params = &first.json()["result"]["inputRequests"]["ask-1"]["params"];
    assert_eq!(*params, json!({"mode": "url", "url": "https://a.example/", "message": "m"}));
    outcomes.send(result(r#"{"content":[]}"#)).unwrap();
    let again = retry(r#"{"ask-1":{"action":"accept"}}"#, &state(&first));
    let last = round(&served, 3, "ask", &json!({}), &again).await;
    assert_eq!(last.json()["result"]["content"], json!([]));
    assert!(next(&mut calls).await.state.is_none());
}

#[tokio::test]
async fn an_agent_that_goes_away_while_its_call_goes_on_cancels_it() {
    let (node, mut calls, _outcomes) = scripted();
    let served = serve(&node).await;
    let nothing = json!({});
    let (first, mut replies) = tokio::join!(round(&served, 1, "ask", &nothing, ""), async {
        let listener = next(&mut calls).await.listener.unwrap();
        ask(&listener, "1", "elicitation/create", None)
    });
    let again = retry(r#"{"ask-1":{"action":"decline"}}"#, &state(&first));
    let asked = tokio::spawn(async move { round(&served, 2, "ask", &json!({}), &again).await.status });
    assert!(matches!(next(&mut replies).await, Reply::Result(_)), "the call goes on");
    asked.abort();
    // The tool's end of the call is dropped with it.
    assert!(replies.recv().await.is_none());
}

#[tokio::test]
async fn several_questions_are_asked_at_once_and_one_that_is_withdrawn_no_more() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    let nothing = json!({});
    let (first, (mut kept, mut other, listener)) =
        tokio::join!(round(&served, 1, "ask", &nothing, ""), async {
            let listener = next(&mut calls).await.listener.unwrap();
            let kept = ask(&listener, "1", "elicitation/create", Some(r#"{"message":"a"}"#));
            let other = ask(&listener, "2", "sampling/createMessage", Some(r#"{"messages":[]}"#));
            (kept, other, listener)
        });
    let first_state = state(&first);
    listener.hear(Said::Withdraws(2.into()));
    outcomes.send(result(r#"{"content":[]}"#)).unwrap();
    let answers = r#"{"ask-1":{"action":"decline"},"ask-2":{"model":"m"}}"#;
    let last = round(&served, 2, "ask", &json!({}), &retry(answers, &first_state)).await;
    assert_eq!(last.json()["result"]["content"], json!([]));
    let Reply::Result(answer) = next(&mut kept).await else { panic!("answered") };
    assert_eq!(answer.get(), r#"{"action":"decline"}"#);
    drop(other.recv().await);
}

#[tokio::test]
async fn log_messages_come_only_to_who_asks_for_them() {
    let (node, mut calls, outcomes) = scripted();
    let served = serve(&node).await;
    for level in ["", r#","io.modelcontextprotocol/logLevel":"notice""#] {
        let meta = format!("{}{level}", able(ABLE));
        let (answer, ()) = tokio::join!(round_with(&served, 1, "ask", r#""arguments":{}"#, &meta), async {
            let listener = next(&mut calls).await.listener.unwrap();
            listener.hear(Said::Log(raw(r#"{"level":"warning","data":"x"}"#)));
            listener.hear(Said::Log(raw(r#"{"level":"debug","data":"y"}"#)));
            outcomes.send(result(r#"{"content":[]}"#)).unwrap();
        });
        let told = answer.text.matches("notifications/message").count();
        assert_eq!(told, usize::from(!level.is_empty()), "{}", answer.text);
    }
    let meta = format!(r#"{},"io.modelcontextprotocol/logLevel":"loud""#, able(ABLE));
    assert_eq!(round_with(&served, 1, "ask", r#""arguments":{}"#, &meta).await.code(), -32602);
}
