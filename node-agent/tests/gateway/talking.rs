//! Tools that ask their agents, and what tests of that share.

use std::sync::Arc;
use std::time::Duration;

use node_agent::gateway::BeforeWrite;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tools::envelope::{self, Id};
use tools::{Call, CallError, Listener, Question, Reply, Said};

use crate::client::SOON;
use crate::node::{Dropped, Node, OPEN, Outcome, result, same};

pub fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// Lets a listener hear a question; what is said to it comes out of the channel.
pub fn ask(
    listener: &Arc<dyn Listener>,
    id: &str,
    method: &str,
    params: Option<&str>,
) -> mpsc::UnboundedReceiver<Reply> {
    let (sender, replies) = mpsc::unbounded_channel();
    let back = Box::new(move |reply| drop(sender.send(reply)));
    let id = Id::from_raw(&raw(id)).unwrap();
    listener.hear(Said::Asks(Question::new(id, method, params.map(raw), back)));
    replies
}

/// What a tool makes of a reply: a result that shows it.
pub fn shown(reply: Option<Reply>) -> Outcome {
    match reply {
        Some(Reply::Result(answer)) => {
            result(&format!(r#"{{"content":[],"structuredContent":{}}}"#, answer.get()))
        }
        Some(Reply::Error(error)) => result(&format!(r#"{{"content":[],"error":{error}}}"#)),
        Some(Reply::Unasked(error)) => result(&format!(r#"{{"content":[],"unasked":{error}}}"#)),
        other => panic!("{other:?}"),
    }
}

/// A tool of the handshake revisions that asks what its arguments `method` and `params` say, shows
/// what it got, and tells when its call was given up.
pub fn asking() -> (Arc<Node>, mpsc::UnboundedReceiver<String>) {
    let (dropped, ended) = mpsc::unbounded_channel();
    let node = Node::new(&[same("ask", OPEN), same("other", OPEN)], move |_, call, before| {
        let gone = Dropped(dropped.clone(), "given up".into());
        async move {
            let outcome = one_question(call, before).await;
            drop(gone);
            outcome
        }
    });
    (node, ended)
}

async fn one_question(call: Call, before: BeforeWrite) -> Outcome {
    before().map_err(CallError::Refused)?;
    let Some(listener) = call.listener else { return result(r#"{"content":[],"deaf":true}"#) };
    let arguments = call.arguments.unwrap();
    let members = envelope::members(&arguments).unwrap();
    let method = envelope::text(members.get("method").unwrap()).unwrap().into_owned();
    let mut replies = ask(&listener, r#""q""#, &method, members.get("params").map(RawValue::get));
    shown(replies.recv().await)
}

/// A tool that does with each call what the test sends it: an end, or a question first.
pub fn scripted() -> (Arc<Node>, mpsc::UnboundedReceiver<Call>, mpsc::UnboundedSender<Outcome>) {
    let (calls, seen) = mpsc::unbounded_channel();
    let (outcomes, script) = mpsc::unbounded_channel::<Outcome>();
    let script = Arc::new(tokio::sync::Mutex::new(script));
    let node = Node::new(&[same("ask", OPEN), same("other", OPEN)], move |_, call, before| {
        let (calls, script) = (calls.clone(), Arc::clone(&script));
        async move {
            before().map_err(CallError::Refused)?;
            calls.send(call).unwrap();
            script.lock().await.recv().await.unwrap()
        }
    });
    (node, seen, outcomes)
}

/// What a tool of 2026-07-28 says in place of a result.
pub fn wants(result: &str) -> Outcome {
    let result = envelope::with_member(result, "resultType", r#""input_required""#);
    Err(CallError::Failed(tools::Error::InputRequired(raw(&result))))
}

pub async fn next<T>(channel: &mut mpsc::UnboundedReceiver<T>) -> T {
    timeout(SOON, channel.recv()).await.expect("in time").unwrap()
}

/// Params of a call of `team__ask`.
pub fn call(id: u64, arguments: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "team__ask", "arguments": arguments}})
    .to_string()
}

pub fn form(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message}})
}

/// Short, and still longer than what is done before it passes.
pub const BRIEF: Duration = Duration::from_millis(300);
