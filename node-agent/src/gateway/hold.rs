//! Calls of agents of 2026-07-28 that wait for input: no request is open while a person thinks.
//!
//! A tool of that revision waits nowhere: its state goes to the agent, sealed in ours. One of the
//! handshake revisions waits within its call, which is held here, for as long and as often as the limits
//! allow; our state names it. The guard is asked again before anything goes on.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use domain::listing::RealText;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;
use tools::envelope::{self, quoted};
use tools::{ELICITATION, Question, Said};

use super::attempt::{Done, From, Stop, attempt, stop, too_many_rounds};
use super::call::{Answered, Asked, Ended, completed};
use super::input::input;
use super::protocol::Era;
use super::rounds::Round;
use super::seal::Fault;
use super::shown::shown;
use super::state::{Rest, called, invalid, opened, sealed};
use super::talk::Ear;
use super::{Shared, admit, ask, mark};

/// Calls that wait for their agents, by the number in our state.
#[derive(Default)]
pub(super) struct Holding(Mutex<HashMap<u64, (Held, AbortHandle)>>);

/// A call under way that several requests of its agent carry.
struct Held {
    call: Pin<Box<dyn Future<Output = Result<Done, Stop>> + Send>>,
    ear: Arc<Ear>,
    heard: mpsc::Receiver<Said>,
    open: Vec<Open>,
    asked_so_far: u64,
}

/// A question that the agent has not answered.
struct Open {
    key: String,
    question: Question,
    texts: Vec<RealText>,
    _room: OwnedSemaphorePermit,
}

/// Begins a call whose agent can be asked.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    asked: &Arc<Asked>,
    (ear, heard): (Arc<Ear>, mpsc::Receiver<Said>),
    round: Round,
    rounds: u32,
) -> Result<Ended, Stop> {
    let from = From { ear: Some(Arc::clone(&ear)), round };
    let call = {
        let (shared, asked) = (Arc::clone(shared), Arc::clone(asked));
        Box::pin(async move { attempt(&shared, &asked, from).await })
    };
    let held = Held { call, ear, heard, open: Vec::new(), asked_so_far: 0 };
    carry(shared, asked, held, rounds).await
}

/// Goes on with a call that asked its agent for input.
pub(super) async fn resume(shared: &Arc<Shared>, asked: &Arc<Asked>) -> Result<Ended, Stop> {
    let state = opened(shared, asked)?;
    // Out of what is held before anything is awaited: a call that may not go on ends with this.
    let held = match state.held {
        Some(number) => Some(shared.holding.take(number).ok_or_else(|| invalid(Fault::Used))?),
        None => None,
    };
    let permit =
        admit::admit(shared, &asked.name).await.map_err(|denial| stop(shared, &asked.name, &denial))?;
    if called(&(Arc::clone(permit.slot()), permit.hash())) != state.called {
        return Err(invalid(Fault::OtherVersion));
    }
    let responses = asked.retry.as_ref().and_then(|retry| retry.responses.as_deref());
    if let Some(mut held) = held {
        held.answer(responses);
        return carry(shared, asked, held, state.rounds).await;
    }
    let texts: Vec<RealText> = state
        .texts
        .into_iter()
        .map(|(written, real, is_member_name)| RealText {
            written: written.into(),
            real: real.into(),
            is_member_name,
        })
        .collect();
    let responses = responses.map(|responses| {
        let real = (!texts.is_empty()).then(|| crate::arguments::put_back(responses, &texts));
        real.and_then(|real| RawValue::from_string(real).ok()).unwrap_or_else(|| responses.to_owned())
    });
    let round = Round { responses, state: state.tool };
    begin(shared, asked, Ear::new(&asked.agent), round, state.rounds).await
}

/// Carries a call on until it ends, or until its agent has to be asked.
async fn carry(shared: &Arc<Shared>, asked: &Asked, mut held: Held, rounds: u32) -> Result<Ended, Stop> {
    loop {
        tokio::select! {
            biased;
            Some(said) = held.heard.recv() => held.hear(shared, asked, said),
            outcome = &mut held.call => {
                // What was said before the end, and not heard yet.
                while let Ok(said) = held.heard.try_recv() {
                    held.hear(shared, asked, said);
                }
                return match outcome {
                    Err(Stop::Input(done)) => input(shared, asked, &done, rounds),
                    outcome => completed(asked, &outcome?),
                };
            }
            () = std::future::ready(()), if !held.open.is_empty() => {
                return pause(shared, asked, held, rounds);
            }
        }
    }
}

/// Asks the agent what a held call's tool asks.
fn pause(shared: &Arc<Shared>, asked: &Asked, held: Held, rounds: u32) -> Result<Ended, Stop> {
    let Some((slot, hash)) = held.ear.called() else { return Err(invalid(Fault::OtherVersion)) };
    if rounds >= shared.config.rounds {
        return Err(too_many_rounds(shared, &slot));
    }
    let requests: Vec<String> = held.open.iter().map(Open::request).collect();
    let number = Holding::keep(shared, held);
    let state = quoted(&sealed(shared, asked, &(Arc::clone(&slot), hash), rounds + 1, Rest::Held(number)));
    let result = format!(
        r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{state}}}"#,
        requests.join(",")
    );
    let marked = RawValue::from_string(result)
        .ok()
        .and_then(|result| mark::result(&asked.id, &result, &slot, hash, Era::Modern));
    let text = marked.ok_or_else(|| super::attempt::failed(&slot, "ask the agent", true))?;
    Ok((Answered::good(text), "input_required"))
}

impl Holding {
    /// Holds a call for as long as an answer is waited for; then it is cancelled. Its number is not to
    /// be guessed, though nobody can name it without our seal.
    fn keep(shared: &Arc<Shared>, held: Held) -> u64 {
        let number: u64 = rand::random();
        let timer = {
            let shared = Arc::clone(shared);
            tokio::spawn(async move {
                tokio::select! {
                    () = shared.shutdown.cancelled() => {}
                    () = tokio::time::sleep(shared.config.answer_wait) => {}
                }
                if let Some(held) = shared.holding.take_out(number) {
                    held.decline("the agent did not answer in time (setting `gateway.answer_wait`)");
                }
            })
        };
        shared.holding.lock().insert(number, (held, timer.abort_handle()));
        number
    }

    /// A call that is held, which it is no longer then.
    fn take(&self, number: u64) -> Option<Held> {
        let (held, timer) = self.lock().remove(&number)?;
        timer.abort();
        Some(held)
    }

    fn take_out(&self, number: u64) -> Option<Held> {
        self.lock().remove(&number).map(|(held, _)| held)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, (Held, AbortHandle)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Takes what the tool says.
    fn hear(&mut self, shared: &Shared, asked: &Asked, said: Said) {
        match said {
            Said::Asks(question) => self.ask(shared, asked, question),
            Said::Withdraws(id) => {
                if let Some(at) = self.open.iter().position(|open| *open.question.id() == id) {
                    self.open.swap_remove(at).question.forget();
                }
            }
            Said::Progress(progress) => asked.agent.progress(&progress),
            Said::Log(params) => asked.agent.log(&params),
            // This revision has no such notification.
            Said::Elicited(_) => {}
        }
    }

    fn ask(&mut self, shared: &Shared, asked: &Asked, question: Question) {
        if let Err(unable) = asked.agent.capabilities.judge(question.method(), question.params()) {
            return question.decline(unable.sentence);
        }
        match ask::room(shared, &question, self.open.len()) {
            Err(sentence) => question.decline(&sentence),
            Ok(room) => {
                self.asked_so_far += 1;
                let texts = shown(question.params().map_or("{}", RawValue::get)).1;
                let key = format!("ask-{}", self.asked_so_far);
                self.open.push(Open { key, question, texts, _room: room });
            }
        }
    }

    /// Answers what the agent answered; the rest stays open, and is asked again.
    fn answer(&mut self, responses: Option<&RawValue>) {
        let responses = responses.and_then(envelope::members).unwrap_or_default();
        for open in std::mem::take(&mut self.open) {
            match responses.get(&open.key).filter(|response| response.get().starts_with('{')) {
                Some(response) => ask::answer(open.question, response, &open.texts),
                None => self.open.push(open),
            }
        }
    }

    fn decline(mut self, sentence: &str) {
        for open in std::mem::take(&mut self.open) {
            open.question.decline(sentence);
        }
    }
}

impl Open {
    /// A member of `inputRequests`, with hidden text written out. This revision has neither progress on
    /// it nor ids of URLs.
    fn request(&self) -> String {
        let (method, params) = (self.question.method(), self.question.params());
        let mut out = format!("{}:{{\"method\":{}", quoted(&self.key), quoted(method));
        if let Some(params) = params {
            let mut params = shown(params.get()).0.into_owned();
            if self.question.progress_token().is_some() {
                params = envelope::with_meta(&params, &[("progressToken", None)]);
            }
            if method == ELICITATION {
                params = envelope::without_member(&params, "elicitationId");
            }
            out.push_str(",\"params\":");
            out.push_str(&params);
        }
        out.push('}');
        out
    }
}
