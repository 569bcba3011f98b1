//! Multi round-trip requests: what a tool asks in place of a result, and the next round with the answers.
//!
//! An agent of 2026-07-28 is asked with the tool's own requests and our state; one of the handshake
//! revisions on its stream.

use std::sync::Arc;
use std::time::Duration;

use domain::listing::RealText;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tools::envelope::{self, Id, quoted};
use tools::{ELICITATION, Listener as _, Question, Reply, Said};

use super::capability::{Capabilities, Unable};
use super::shown::shown;
use super::talk::Ear;

/// Before a round that nothing was asked for: a tool that sheds load wants time.
const PAUSE: Duration = Duration::from_millis(500);

/// What a tool asks in place of a result.
pub(super) struct Wanted<'a> {
    /// Key, method and params of each, as sent.
    pub(super) requests: Vec<Wish<'a>>,
    /// The tool's own state, as it spelled it.
    pub(super) state: Option<&'a RawValue>,
}

/// One of them.
pub(super) struct Wish<'a> {
    /// A JSON string.
    pub(super) key: &'a RawValue,
    pub(super) method: String,
    pub(super) params: Option<&'a RawValue>,
}

impl<'a> Wanted<'a> {
    /// Reads a result of type `input_required`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(result: &'a RawValue) -> Result<Self, &'static str> {
        let members = envelope::members(result).ok_or("it is no object")?;
        let state = members.get("requestState").filter(|state| state.get() != "null");
        if state.is_some_and(|state| !state.get().starts_with('"')) {
            return Err("its requestState is no string");
        }
        let requests = match members.get("inputRequests").filter(|requests| requests.get() != "null") {
            None => Vec::new(),
            Some(requests) => {
                let requests = envelope::members(requests).ok_or("its inputRequests are no object")?;
                requests
                    .iter()
                    .map(|(key, wish)| wish_of(key, wish))
                    .collect::<Option<_>>()
                    .ok_or("one of its inputRequests has no method")?
            }
        };
        if requests.is_empty() && state.is_none() {
            return Err("it has neither inputRequests nor a requestState");
        }
        Ok(Self { requests, state })
    }

    /// Whether an agent can be asked all of it.
    ///
    /// # Errors
    /// The first that it cannot.
    pub(super) fn judge(&self, able: &Capabilities) -> Result<(), Unable> {
        self.requests.iter().try_for_each(|wish| able.judge(&wish.method, wish.params))
    }
}

fn wish_of<'a>(key: &'a RawValue, wish: &'a RawValue) -> Option<Wish<'a>> {
    let wish = envelope::members(wish)?;
    let method = wish.get("method").and_then(envelope::text)?.into_owned();
    Some(Wish { key, method, params: wish.get("params") })
}

/// What goes into the next round.
pub(super) struct Round {
    pub(super) responses: Option<Box<RawValue>>,
    pub(super) state: Option<Box<RawValue>>,
}

/// Asks an agent of the handshake revisions on its stream, and waits for all answers.
///
/// # Errors
/// Why there is no next round, to fit behind "the tool asked for more first, and".
pub(super) async fn ask_on_stream(ear: Option<&Arc<Ear>>, result: &RawValue) -> Result<Round, String> {
    let wanted = Wanted::read(result).map_err(|reason| format!("what it asks cannot be read: {reason}"))?;
    let state = wanted.state.map(ToOwned::to_owned);
    if wanted.requests.is_empty() {
        tokio::time::sleep(PAUSE).await;
        return Ok(Round { responses: None, state });
    }
    let ear = ear.ok_or("this agent cannot be asked anything")?;
    let (sender, mut answers) = mpsc::unbounded_channel();
    for (index, wish) in wanted.requests.iter().enumerate() {
        let sender = sender.clone();
        let back = Box::new(move |reply| drop(sender.send((index, reply))));
        let id = Id::from(u64::try_from(index).unwrap_or(u64::MAX));
        ear.hear(Said::Asks(Question::new(id, &wish.method, wish.params.map(ToOwned::to_owned), back)));
    }
    drop(sender);
    let mut results = vec![None; wanted.requests.len()];
    while let Some((index, reply)) = answers.recv().await {
        let (Some(slot), Some(wish)) = (results.get_mut(index), wanted.requests.get(index)) else { continue };
        match reply {
            Reply::Result(result) => *slot = Some(result.get().to_owned()),
            // A form that could not be shown was not answered; the two others have no such answer.
            Reply::Error(_) if wish.method == ELICITATION => {
                *slot = Some(r#"{"action":"cancel"}"#.to_owned());
            }
            Reply::Error(error) | Reply::Unasked(error) => return Err(message(&error)),
            Reply::Progress(_) => {}
        }
        if results.iter().all(Option::is_some) {
            break;
        }
    }
    let answered = wanted.requests.iter().zip(results);
    let parts: Option<Vec<String>> =
        answered.map(|(wish, result)| Some(format!("{}:{}", wish.key.get(), result?))).collect();
    let parts = parts.ok_or("the agent did not answer")?;
    let responses =
        RawValue::from_string(format!("{{{}}}", parts.join(","))).map_err(|error| error.to_string())?;
    Ok(Round { responses: Some(responses), state })
}

fn message(error: &str) -> String {
    let error: envelope::Object<'_> = serde_json::from_str(error).unwrap_or_default();
    let message = error.get("message").and_then(envelope::text).unwrap_or_default();
    domain::visible::make_visible(&message).into_owned()
}

/// What an agent of 2026-07-28 is asked where a tool of 2025-11-25 answers with an error that names URLs to
/// be visited before the call is made again.
pub(super) fn of_urls(error: &RawValue) -> Option<Box<RawValue>> {
    let data = envelope::members(error)?.get("data").and_then(envelope::members)?;
    let urls: Vec<&RawValue> = serde_json::from_str(data.get("elicitations")?.get()).ok()?;
    let request = |(index, params): (usize, &&RawValue)| {
        let params = envelope::without_member(params.get(), "elicitationId");
        format!(r#""ask-{}":{{"method":"{ELICITATION}","params":{params}}}"#, index + 1)
    };
    let requests: Vec<String> = urls.iter().enumerate().map(request).collect();
    let requests = requests.join(",");
    let result = format!(r#"{{"resultType":"input_required","inputRequests":{{{requests}}}}}"#);
    (!urls.is_empty()).then(|| RawValue::from_string(result).ok()).flatten()
}

/// The result for an agent of 2026-07-28: the tool's, with hidden text written out and our state.
pub(super) fn for_modern(result: &RawValue, seal: impl FnOnce(Vec<RealText>) -> String) -> String {
    let members = envelope::members(result).unwrap_or_default();
    let requests = members.get("inputRequests").map(|requests| shown(requests.get()));
    let (requests, texts) = requests.map_or((None, Vec::new()), |(text, texts)| (Some(text), texts));
    let state = quoted(&seal(texts));
    let mut changes = vec![("requestState", Some(state.as_str()))];
    if let Some(requests) = &requests {
        changes.push(("inputRequests", Some(requests)));
    }
    envelope::with_members(result.get(), &changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn what_asks_for_nothing_or_cannot_be_read_is_no_round() {
        for (result, reason) in [
            ("{}", "neither"),
            (r#"{"inputRequests":{}}"#, "neither"),
            (r#"{"inputRequests":[]}"#, "no object"),
            (r#"{"inputRequests":{"a":{}}}"#, "no method"),
            (r#"{"inputRequests":{"a":7}}"#, "no method"),
            (r#"{"requestState":7}"#, "no string"),
        ] {
            let result = raw(result);
            let error = Wanted::read(&result).err().unwrap();
            assert!(error.contains(reason), "{}: {error}", result.get());
        }
    }

    #[test]
    fn urls_that_an_error_wants_visited_are_asked_for() {
        let error = raw(
            r#"{"code":-32042,"data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a.example/","message":"m"}]}}"#,
        );
        let expected = r#"{"resultType":"input_required","inputRequests":{"ask-1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/","message":"m"}}}}"#;
        assert_eq!(of_urls(&error).unwrap().get(), expected);
        for nothing in ["{}", r#"{"data":7}"#, r#"{"data":{"elicitations":[]}}"#] {
            assert!(of_urls(&raw(nothing)).is_none(), "{nothing}");
        }
    }

    #[test]
    fn our_state_takes_the_place_of_the_tools_and_all_else_stays() {
        let result = raw(
            r#"{"resultType":"input_required","x":1e400,"inputRequests":{"a":{"method":"roots/list"}},"requestState":"t"}"#,
        );
        let text = for_modern(&result, |texts| format!("ours{}", texts.len()));
        assert_eq!(
            text,
            r#"{"resultType":"input_required","x":1e400,"inputRequests":{"a":{"method":"roots/list"}},"requestState":"ours0"}"#
        );
    }
}
