//! Calls of agents of 2026-07-28 that wait for input: no request is open while a person thinks.
//!
//! A tool of that revision waits nowhere: its state goes to the agent, sealed in ours. One of the
//! handshake revisions waits within its call, which is held here, for as long and as often as the limits
//! allow; our state names it. The guard is asked again before anything goes on.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use domain::digest::ListingHash;
use domain::guard::Slot;
use domain::listing::RealText;
use http::StatusCode;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;
use tools::envelope::{self, quoted};
use tools::{ELICITATION, Question, RawProgress, Said};

use super::attempt::{Done, From, Stop, attempt, stop, too_many_rounds};
use super::call::{Answered, Asked, completed};
use super::protocol::{Era, MISSING_CAPABILITY};
use super::rounds::{self, Round, Wanted};
use super::seal::{Fault, State, digest};
use super::shown::shown;
use super::talk::Ear;
use super::{Shared, admit, ask, mark};

type Ended = (Answered, &'static str);

/// Progress that waits while nobody listens; the newest says it all.
const PROGRESS_KEPT: usize = 16;

/// Calls that wait for their agents, by the number in our state.
#[derive(Default)]
pub(super) struct Holding(Mutex<HashMap<u64, (Held, AbortHandle)>>);

/// A call under way that several requests of its agent carry.
struct Held {
    call: Pin<Box<dyn Future<Output = Result<Done, Stop>> + Send>>,
    ear: Arc<Ear>,
    heard: mpsc::Receiver<Said>,
    progress: mpsc::Receiver<RawProgress>,
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
    progress: Option<mpsc::Sender<RawProgress>>,
    round: Round,
    rounds: u32,
) -> Result<Ended, Stop> {
    let (sender, reports) = mpsc::channel(PROGRESS_KEPT);
    let from = From { progress: progress.is_some().then_some(sender), ear: Some(Arc::clone(&ear)), round };
    let call = {
        let (shared, asked) = (Arc::clone(shared), Arc::clone(asked));
        Box::pin(async move { attempt(&shared, &asked, from).await })
    };
    let held = Held { call, ear, heard, progress: reports, open: Vec::new(), asked_so_far: 0 };
    carry(shared, asked, held, progress, rounds).await
}

/// Goes on with a call that asked its agent for input.
pub(super) async fn resume(
    shared: &Arc<Shared>,
    asked: &Arc<Asked>,
    progress: Option<mpsc::Sender<RawProgress>>,
) -> Result<Ended, Stop> {
    let state = opened(shared, asked)?;
    // Out of what is held before anything is awaited: a call that may not go on ends with this.
    let held = match state.held {
        Some(number) => Some(shared.holding.take(number).ok_or_else(|| invalid(Fault::Used))?),
        None => None,
    };
    let permit =
        admit::admit(shared, &asked.name).await.map_err(|denial| stop(shared, &asked.name, &denial))?;
    if called(permit.slot(), permit.hash()) != state.called {
        return Err(invalid(Fault::OtherVersion));
    }
    let responses = asked.retry.as_ref().and_then(|retry| retry.responses.as_deref());
    if let Some(mut held) = held {
        held.answer(responses);
        return carry(shared, asked, held, progress, state.rounds).await;
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
    begin(shared, asked, Ear::new(&asked.agent), progress, round, state.rounds).await
}

/// Our own state, and that it is of this very call.
fn opened(shared: &Shared, asked: &Asked) -> Result<State, Stop> {
    let sent = asked.retry.as_ref().and_then(|retry| retry.state.as_deref());
    let Some(sent) = sent.and_then(envelope::text) else {
        let sentence =
            "inputResponses come with the requestState of the result that asked for them, a string";
        return Err(Stop::Invalid(sentence.to_owned()));
    };
    let state =
        shared.seal.open(&sent, &shared.token.principal(), shared.upstream.now_ms()).map_err(invalid)?;
    if *state.name != *asked.name || state.arguments != digest(asked.arguments.as_deref()) {
        return Err(invalid(Fault::OtherCall));
    }
    Ok(state)
}

fn invalid(fault: Fault) -> Stop {
    Stop::Invalid(fault.to_string())
}

/// Carries a call on until it ends, or until its agent has to be asked.
async fn carry(
    shared: &Arc<Shared>,
    asked: &Asked,
    mut held: Held,
    progress: Option<mpsc::Sender<RawProgress>>,
    rounds: u32,
) -> Result<Ended, Stop> {
    loop {
        tokio::select! {
            biased;
            Some(said) = held.heard.recv() => held.hear(shared, asked, said),
            outcome = &mut held.call => return match outcome {
                Err(Stop::Input(done)) => input(shared, asked, &done, rounds),
                outcome => completed(asked, &outcome?),
            },
            Some(report) = held.progress.recv() => {
                if let Some(progress) = &progress {
                    progress.try_send(report).ok();
                }
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
    let state = State {
        name: asked.name.to_string(),
        called: called(&slot, hash),
        arguments: digest(asked.arguments.as_deref()),
        expires_ms: expiry(shared),
        rounds: rounds + 1,
        held: Some(number),
        tool: None,
        texts: Vec::new(),
    };
    let state = quoted(&shared.seal.seal(&state, &shared.token.principal()));
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

/// Passes on what a tool of 2026-07-28 asks in place of a result.
pub(super) fn input(shared: &Shared, asked: &Asked, done: &Done, rounds: u32) -> Result<Ended, Stop> {
    if rounds >= shared.config.rounds {
        return Err(too_many_rounds(shared, &done.slot));
    }
    let unreadable = |reason: &str| super::attempt::failed(&done.slot, reason, true);
    let wanted = Wanted::read(&done.result)
        .map_err(|reason| unreadable(&format!("read what it asks for first: {reason}")))?;
    let bytes = done.result.get().len();
    if bytes > shared.config.question_bytes {
        let limit = shared.config.question_bytes;
        let reason = format!(
            "pass on what it asks for first: it is {bytes} bytes, over the limit of {limit} (setting `gateway.question_bytes`)"
        );
        return Err(unreadable(&reason));
    }
    if let Err(unable) = wanted.judge(&asked.agent.capabilities) {
        let Some(required) = unable.required else { return Err(unreadable(unable.sentence)) };
        let sentence = format!("`{}` cannot go on: {}", done.slot.id, unable.sentence);
        let error = format!(
            r#"{{"code":{MISSING_CAPABILITY},"message":{},"data":{{"requiredCapabilities":{required}}}}}"#,
            quoted(&sentence)
        );
        let text = envelope::failure(Some(&asked.id), &error);
        return Ok((Answered { text, status: StatusCode::BAD_REQUEST }, "failed"));
    }
    let tool = wanted.state.map(ToOwned::to_owned);
    let result = rounds::for_modern(&done.result, |texts| {
        let state = State {
            name: asked.name.to_string(),
            called: called(&done.slot, done.hash),
            arguments: digest(asked.arguments.as_deref()),
            expires_ms: expiry(shared),
            rounds: rounds + 1,
            held: None,
            tool,
            texts: texts
                .into_iter()
                .map(|text| (text.written.to_string(), text.real.to_string(), text.is_member_name))
                .collect(),
        };
        shared.seal.seal(&state, &shared.token.principal())
    });
    let marked = RawValue::from_string(result)
        .ok()
        .and_then(|result| mark::result(&asked.id, &result, &done.slot, done.hash, Era::Modern));
    let text = marked.ok_or_else(|| unreadable("read its answer: the result is no object"))?;
    Ok((Answered::good(text), "input_required"))
}

/// What names the version and the listing that a call was made by.
fn called(slot: &Slot, hash: ListingHash) -> String {
    format!("{} {hash}", slot.version)
}

fn expiry(shared: &Shared) -> u64 {
    let wait_ms = u64::try_from(shared.config.answer_wait.as_millis()).unwrap_or(u64::MAX);
    shared.upstream.now_ms().saturating_add(wait_ms)
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
