//! Whose agent a tool's words are for, and what goes back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Board, ELICITATION, Listener, LogLevel, Offers, ROOTS, Said, Unheard, only_agent};
use crate::envelope::Id;

struct Ear {
    agent: u64,
    heard: Mutex<Vec<Said>>,
}

impl Listener for Ear {
    fn agent(&self) -> u64 {
        self.agent
    }

    fn hear(&self, said: Said) {
        self.heard.lock().unwrap().push(said);
    }
}

fn ear(agent: u64) -> Arc<Ear> {
    Arc::new(Ear { agent, heard: Mutex::default() })
}

fn of(ear: &Arc<Ear>) -> Arc<dyn Listener> {
    Arc::<Ear>::clone(ear)
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// A board with what is said to its tool.
fn board() -> (Arc<Board>, Arc<Mutex<Vec<Value>>>) {
    (Arc::new(Board::new(Offers { roots: true, ..Offers::default() })), Arc::default())
}

fn ask(board: &Arc<Board>, said: &Arc<Mutex<Vec<Value>>>, id: &str, of_call: Option<u64>) {
    let said = Arc::clone(said);
    let id = Id::from_raw(&raw(id)).unwrap();
    board.ask(
        &id,
        ELICITATION,
        Some(&raw(r#"{"message":"?","elicitationId":"e"}"#)),
        of_call,
        move |message| {
            said.lock().unwrap().push(serde_json::from_str(&message).unwrap());
        },
    );
}

#[test]
fn nobody_is_meant_where_agents_differ_or_one_is_deaf() {
    let (x, y, x_again) = (of(&ear(1)), of(&ear(2)), of(&ear(1)));
    let why = |calls: &[Option<&Arc<dyn Listener>>]| only_agent(calls.iter().copied()).err();
    assert_eq!(why(&[]), Some(Unheard::NoCall));
    assert_eq!(why(&[None]), Some(Unheard::Deaf));
    assert_eq!(why(&[None, None]), Some(Unheard::Several));
    assert_eq!(why(&[Some(&x), None]), Some(Unheard::Several));
    assert_eq!(why(&[Some(&x), Some(&y)]), Some(Unheard::Several));
    assert_eq!(why(&[Some(&x), Some(&x_again)]), None);
    assert_eq!(why(&[Some(&x), Some(&x_again), Some(&y)]), Some(Unheard::Several));
}

#[test]
fn what_a_tool_says_of_a_call_that_was_given_up_is_not_taken_for_another_agents() {
    let (board, said) = board();
    let (x, y) = (ear(1), ear(2));
    let now = Instant::now();
    let given_up = board.begin(1, Some(of(&x)));
    board.gave_up(1, now);
    drop(given_up);
    let other = board.begin(2, Some(of(&y)));
    ask(&board, &said, "1", None);
    board.log(&raw(r#"{"level":"error"}"#), None);
    assert!(y.heard.lock().unwrap().is_empty());
    assert_eq!(said.lock().unwrap().len(), 1, "the question was declined to the tool");

    // Another call of the same agent hears it.
    drop(other);
    let again = ear(1);
    let _again = board.begin(3, Some(of(&again)));
    board.log(&raw(r#"{"level":"error"}"#), None);
    assert_eq!(again.heard.lock().unwrap().len(), 1);
    assert!(x.heard.lock().unwrap().is_empty());
}

#[test]
fn a_call_that_was_given_up_is_forgotten_with_its_answer_and_after_a_while() {
    let (board, _said) = board();
    let long_ago = Instant::now().checked_sub(Duration::from_mins(1)).unwrap();
    for (id, when) in [(1, Instant::now()), (2, long_ago)] {
        let given_up = board.begin(id, Some(of(&ear(1))));
        board.gave_up(id, when);
        drop(given_up);
    }
    board.ended(1);
    let y = ear(2);
    let _other = board.begin(3, Some(of(&y)));
    board.log(&raw(r#"{"level":"error"}"#), None);
    assert_eq!(y.heard.lock().unwrap().len(), 1);
}

#[test]
fn a_question_without_a_call_or_with_calls_of_several_agents_is_refused_to_the_tool() {
    let (board, said) = board();
    ask(&board, &said, "1", None);
    let (x, y) = (ear(1), ear(2));
    let _one = board.begin(1, Some(of(&x)));
    let two = board.begin(2, Some(of(&y)));
    ask(&board, &said, r#""1""#, None);
    drop(two);
    ask(&board, &said, "3", Some(2));
    let said = said.lock().unwrap();
    assert!(said[0]["error"]["message"].as_str().unwrap().contains("ask during a call"));
    assert!(said[1]["error"]["message"].as_str().unwrap().contains("several agents"));
    assert_eq!((&said[1]["id"], &said[2]["id"]), (&json!("1"), &json!(3)));
    assert!(x.heard.lock().unwrap().is_empty() && y.heard.lock().unwrap().is_empty());
}

#[test]
fn a_method_that_is_not_offered_is_refused_also_during_a_call() {
    let board = Arc::new(Board::new(Offers::default()));
    let x = ear(1);
    let _call = board.begin(1, Some(of(&x)));
    for method in [ROOTS, "tasks/get", "sampling/create"] {
        let said = Arc::new(Mutex::new(String::new()));
        let to = Arc::clone(&said);
        board.ask(&7.into(), method, None, Some(1), move |message| *to.lock().unwrap() = message);
        assert!(said.lock().unwrap().contains("-32601"), "{method}");
    }
    assert!(x.heard.lock().unwrap().is_empty());
}

#[test]
fn an_answer_goes_back_under_the_tools_id_with_its_type_and_its_bytes() {
    let (board, _) = board();
    let x = ear(1);
    let _call = board.begin(1, Some(of(&x)));
    let said = Arc::new(Mutex::new(Vec::new()));
    for id in [r#""7""#, "7", "9007199254740993"] {
        let to = Arc::clone(&said);
        let id = Id::from_raw(&raw(id)).unwrap();
        board.ask(&id, ELICITATION, None, Some(1), move |message| to.lock().unwrap().push(message));
    }
    for said in x.heard.lock().unwrap().drain(..) {
        let Said::Asks(question) = said else { panic!("{said:?}") };
        question.answer(&raw(r#"{"action":"accept","content":{"n":1e400}}"#));
    }
    let result = r#""result":{"action":"accept","content":{"n":1e400}}"#;
    let expected =
        [r#""7""#, "7", "9007199254740993"].map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#));
    assert_eq!(*said.lock().unwrap(), expected);
}

#[test]
fn a_dropped_question_is_answered_and_a_withdrawn_one_is_not() {
    let (board, said) = board();
    let x = ear(1);
    let _call = board.begin(1, Some(of(&x)));
    ask(&board, &said, "1", None);
    ask(&board, &said, "1", None);
    assert_eq!(said.lock().unwrap().len(), 1, "an id that is open is not used again");
    board.withdraw(&raw(r#"{"requestId":"1"}"#));
    board.withdraw(&raw(r#"{"requestId":1}"#));
    let mut heard: Vec<Said> = x.heard.lock().unwrap().drain(..).collect();
    assert!(matches!(heard.pop(), Some(Said::Withdraws(id)) if id == 1.into()));
    let Some(Said::Asks(question)) = heard.pop() else { panic!("asked") };
    question.forget();
    ask(&board, &said, "1", None);
    x.heard.lock().unwrap().clear();
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 2);
    assert!(said[1]["error"]["message"].as_str().unwrap().contains("cannot be asked any more"));
}

#[test]
fn the_end_of_an_elicitation_by_url_is_told_to_who_was_asked_and_once() {
    let (board, said) = board();
    let (x, y) = (ear(1), ear(2));
    let call = board.begin(1, Some(of(&x)));
    ask(&board, &said, "1", None);
    drop(call);
    let _other = board.begin(2, Some(of(&y)));
    for _ in 0..2 {
        board.elicited(&raw(r#"{"elicitationId":"e"}"#));
    }
    board.elicited(&raw(r#"{"elicitationId":"unknown"}"#));
    assert!(y.heard.lock().unwrap().is_empty());
    let heard = x.heard.lock().unwrap();
    assert_eq!(heard.iter().filter(|said| matches!(said, Said::Elicited(_))).count(), 1);
}

#[test]
fn levels_have_the_protocols_names_and_order() {
    assert_eq!(LogLevel::parse("verbose"), None);
    assert!(LogLevel::parse("debug") < LogLevel::parse("emergency"));
    assert_eq!(LogLevel::Notice.name(), "notice");
    assert_eq!(LogLevel::of(&raw(r#"{"level":"error"}"#)), LogLevel::Error);
    assert_eq!(LogLevel::of(&raw("{}")), LogLevel::Debug);
}
