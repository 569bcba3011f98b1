//! A call as its tool plays it: step by step, in either era, until it answers or is cancelled.

use std::sync::atomic::Ordering;

use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};

use super::{Call, Client, Incoming, Voice, lock};
use crate::differential::json::{Writer, member, members, string};
use crate::differential::script::{LEVELS, Question, Step};
use crate::differential::stage::{Play, Seen};
use crate::differential::{Era, PROTOCOL, Way};
use crate::random::Random;

const INPUT_REQUIRED: &str = r#"{"resultType":"input_required""#;

/// `result` or `error`, and its value.
type Answer = (&'static str, String);

/// A call under way.
pub(super) struct Part<'p> {
    pub(super) client: &'p Client,
    pub(super) play: &'p Play,
    pub(super) era: Era,
    pub(super) message: &'p Incoming,
    pub(super) voice: &'p Voice,
}

impl Part<'_> {
    /// Plays it to its end.
    pub(super) async fn perform(&self) {
        let Self { client, voice, .. } = self;
        let id = self.message.id.as_deref().map_or("null", RawValue::get).to_owned();
        let (cancelled, mut call) = watch::channel(Call::Goes);
        // Kept to the end: where requests stand alone, another may have the same id.
        lock(&client.calls).insert(id.clone(), cancelled.clone());
        let given_up = async {
            tokio::select! {
                () = voice.out.closed(), if voice.ends_with_its_stream => None,
                call = call.wait_for(|call| *call != Call::Goes) => match call.as_deref() {
                    Ok(Call::Cancelled(reason)) => reason.clone(),
                    _ => None,
                },
            }
        };
        tokio::select! {
            biased;
            reason = given_up => self.note(Seen::Cancelled(reason)),
            // Noted first: whoever has the answer looks at the notes.
            answer = self.steps() => {
                let (kind, value) = answer.unwrap_or_else(|odd| {
                    let error = format!(r#"{{"code":-32000,"message":{}}}"#, serde_json::Value::from(&*odd));
                    self.note(Seen::Odd(odd));
                    ("error", error)
                });
                let is_asked = value.starts_with(INPUT_REQUIRED);
                self.note(if is_asked { Seen::Paused } else { Seen::Done });
                voice.out.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"{kind}":{value}}}"#)).ok();
            }
        }
        lock(&client.calls).remove(&id);
        drop(cancelled);
    }

    fn note(&self, seen: Seen) {
        self.play.note(self.client.way, seen);
    }

    async fn steps(&self) -> Result<Answer, String> {
        let meta = member(self.message.params(), "_meta").unwrap_or_default();
        let token = member(&meta, "progressToken");
        let level = self.level(&meta);
        let script = &self.play.exchange.script;
        let begin = self.begin(&meta)?;
        for (at, step) in script.steps.iter().enumerate().skip(begin) {
            match step {
                Step::Progress(step) => {
                    let Some(token) = &token else { continue };
                    let mut members = vec![(r#""progressToken""#.to_owned(), token.clone())];
                    members.extend(step.iter().cloned());
                    let mut random = Random::new(script.framing);
                    let params = Writer { random: &mut random, lines: false }.object(&members);
                    self.voice.say("notifications/progress", &params);
                }
                Step::Log(of, params) if level.is_none_or(|level| *of >= level) => {
                    self.voice.say("notifications/message", params);
                }
                Step::Log(..) => {}
                Step::Noise(text) => drop(self.voice.out.send(text.clone())),
                Step::Yield => {
                    for _ in 0..8 {
                        tokio::task::yield_now().await;
                    }
                }
                Step::AwaitCancel => {
                    self.note(Seen::Waits);
                    std::future::pending::<()>().await;
                }
                Step::Ask(questions) if self.era == Era::Modern => {
                    return Ok(("result", asked(questions, &state_at(self.play.number, at + 1))));
                }
                Step::Ask(questions) => self.ask(questions).await?,
            }
        }
        Ok(script.ending.clone())
    }

    /// Notes the call, or what comes with its next round; at which step it goes on.
    fn begin(&self, meta: &str) -> Result<usize, String> {
        let params = self.message.params();
        let called = Seen::Called(called(params));
        let Some(state) = member(params, "requestState") else {
            self.note(called);
            if self.era == Era::Modern {
                self.note(Seen::Able(member(meta, &format!("{PROTOCOL}clientCapabilities"))));
            }
            return Ok(0);
        };
        let at = string(&state).and_then(|state| state.split(':').next()?.parse().ok()).unwrap_or(0);
        if state != state_at(self.play.number, at) {
            return Err(format!("the state came back as {state}"));
        }
        if !self.play.seen(self.client.way).contains(&called) {
            return Err(format!("in another round it was called with {called:?}"));
        }
        self.note(Seen::Answered(responses(params)));
        Ok(at)
    }

    /// From which level on the client is told; all, where it does not say so.
    fn level(&self, meta: &str) -> Option<usize> {
        match (self.client.way, self.era) {
            (_, Era::Modern) => {
                let level = member(meta, &format!("{PROTOCOL}logLevel")).and_then(|level| string(&level));
                level.map_or(Some(LEVELS.len()), |level| LEVELS.iter().position(|known| *known == level))
            }
            // One for all agents: they are told apart behind it.
            (Way::Node, Era::Handshake) => None,
            (Way::Direct, Era::Handshake) => *lock(&self.client.level),
        }
    }

    /// Asks by requests of its own, and waits for all answers.
    async fn ask(&self, questions: &[Question]) -> Result<(), String> {
        self.note(Seen::Paused);
        let mut waiting = Vec::new();
        for Question { method, params, .. } in questions {
            let id = self.client.next.fetch_add(1, Ordering::Relaxed);
            let (sender, receiver) = oneshot::channel();
            lock(&self.client.asked).insert(id, sender);
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
            self.voice.out.send(text).ok();
            waiting.push(receiver);
        }
        let mut answers = Vec::new();
        for answer in waiting {
            answers.push(answer.await.map_err(|_| "a question was not answered".to_owned())?);
        }
        self.note(Seen::Answered(answers));
        Ok(())
    }
}

/// Asks in place of a result.
fn asked(questions: &[Question], state: &str) -> String {
    let request = |(key, it): (usize, &Question)| {
        format!(r#""q{key}":{{"method":"{}","params":{}}}"#, it.method, it.params)
    };
    let requests: Vec<String> = questions.iter().enumerate().map(request).collect();
    format!(r#"{INPUT_REQUIRED},"inputRequests":{{{}}},"requestState":{state}}}"#, requests.join(","))
}

/// The state before a step, as JSON: it comes back as it is spelled.
fn state_at(number: u64, step: usize) -> String {
    let mut random = Random::new(number ^ step as u64);
    let junk = Writer { random: &mut random, lines: false }.string();
    format!("\"{step}:{}", junk.get(1..).unwrap_or_default())
}

/// The answers of a round, in the order of the questions.
fn responses(params: &str) -> Vec<(String, String)> {
    let mut all = member(params, "inputResponses").and_then(|all| members(&all)).unwrap_or_default();
    all.sort();
    all.into_iter().map(|(_, value)| ("result".to_owned(), value)).collect()
}

/// Params of a call without what the protocol has there for itself.
fn called(params: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (name, value) in members(params).unwrap_or_default() {
        match &*name {
            "name" => all.push(format!("name {:?}", string(&value))),
            "inputResponses" | "requestState" => {}
            "_meta" => {
                let meta = members(&value).unwrap_or_default();
                let wants_progress = meta.iter().any(|(name, _)| name == "progressToken");
                all.push(format!("progress {wants_progress}"));
                let own = meta
                    .into_iter()
                    .filter(|(name, _)| name != "progressToken" && !name.starts_with(PROTOCOL));
                all.extend(own.map(|(name, value)| format!("_meta {name} {value}")));
            }
            _ => all.push(format!("{name} {value}")),
        }
    }
    // Rounds of one call may have them in another order.
    all.sort();
    all
}
