//! Questions of tools that are put to an agent of the handshake revisions: as requests on its stream,
//! answered by messages of its session.

use std::sync::Arc;

use domain::listing::RealText;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until};
use tools::envelope::{self, Id, quoted};
use tools::{ELICITATION, Question, Said};

use super::Shared;
use super::protocol::{CANCELLED, ELICITED};
use super::session::FromAgent;
use super::shown::shown;
use super::talk::Agent;
use crate::arguments::put_back;

/// Messages of the agent about one call's questions that wait to be passed on.
const REPLIES: usize = 32;

/// The questions of one call that its agent has not answered.
pub(super) struct Asking<'s> {
    shared: &'s Shared,
    agent: &'s Agent,
    open: Vec<Open>,
    replies: mpsc::Receiver<FromAgent>,
    reply: mpsc::Sender<FromAgent>,
}

struct Open {
    /// Our id.
    number: u64,
    question: Question,
    texts: Vec<RealText>,
    until: Instant,
    _room: OwnedSemaphorePermit,
}

impl<'s> Asking<'s> {
    pub(super) fn new(shared: &'s Shared, agent: &'s Agent) -> Self {
        let (reply, replies) = mpsc::channel(REPLIES);
        Self { shared, agent, open: Vec::new(), replies, reply }
    }

    /// Takes what the tool says.
    pub(super) fn hear(&mut self, said: Said) {
        match said {
            Said::Asks(question) => self.ask(question),
            Said::Withdraws(id) => {
                if let Some(at) = self.open.iter().position(|open| *open.question.id() == id) {
                    let open = self.open.swap_remove(at);
                    self.withdraw(open.number, "the tool does not ask any more");
                    open.question.forget();
                }
            }
            Said::Progress(progress) => self.agent.progress(&progress),
            Said::Log(params) => self.agent.log(&params),
            Said::Elicited(params) => {
                self.agent.say(envelope::notification(ELICITED, Some(params.get())));
            }
        }
    }

    fn ask(&mut self, question: Question) {
        let Some(session) = &self.agent.session else { return };
        if let Err(unable) = self.agent.capabilities.judge(question.method(), question.params()) {
            return question.decline(unable.sentence);
        }
        let room = match room(self.shared, &question, self.open.len()) {
            Ok(room) => room,
            Err(sentence) => return question.decline(&sentence),
        };
        let number = session.ask(self.reply.clone());
        let id = Id::from(number);
        let shown = question.params().map(|params| shown(params.get()));
        let (params, texts) = shown.map_or((None, Vec::new()), |(params, texts)| (Some(params), texts));
        let has_token = question.progress_token().is_some();
        let params = params.map(|params| for_handshake(question.method(), &params, &id, has_token));
        if !self.agent.say(envelope::request(&id, question.method(), params.as_deref())) {
            session.asks_no_more(number);
            return question.decline(
                "the agent cannot be reached: its connection is gone, or it does not read what it is sent",
            );
        }
        let until = Instant::now() + self.shared.config.answer_wait;
        self.open.push(Open { number, question, texts, until, _room: room });
    }

    /// The next thing that the agent says, or that time says.
    pub(super) async fn next(&mut self) {
        let soonest = self.open.iter().map(|open| open.until).min();
        tokio::select! {
            Some(said) = self.replies.recv() => self.replied(&said),
            () = until(soonest) => self.late(),
        }
    }

    fn replied(&mut self, said: &FromAgent) {
        let (FromAgent::Answer(number, _) | FromAgent::Progress(number, _)) = said;
        let Some(at) = self.open.iter().position(|open| open.number == *number) else { return };
        match said {
            FromAgent::Progress(_, params) => {
                if let Some(open) = self.open.get(at) {
                    open.question.progress(params);
                }
            }
            FromAgent::Answer(_, outcome) => {
                let open = self.open.swap_remove(at);
                match outcome {
                    Ok(result) => answer(open.question, result, &open.texts),
                    Err(error) => open.question.fail(error.get()),
                }
            }
        }
    }

    fn late(&mut self) {
        let now = Instant::now();
        let (late, open): (Vec<Open>, Vec<Open>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| open.until <= now);
        self.open = open;
        let wait_s = self.shared.config.answer_wait.as_secs();
        for open in late {
            self.withdraw(open.number, "it was not answered in time");
            let sentence =
                format!("the agent did not answer within {wait_s} s (setting `gateway.answer_wait`)");
            open.question.decline(&sentence);
        }
    }

    /// Tells the agent that an answer is not waited for any more.
    fn withdraw(&self, number: u64, reason: &str) {
        if let Some(session) = &self.agent.session {
            session.asks_no_more(number);
        }
        let params = format!(r#"{{"requestId":{number},"reason":{}}}"#, quoted(reason));
        self.agent.say(envelope::notification(CANCELLED, Some(&params)));
    }
}

impl Drop for Asking<'_> {
    /// The call has ended, whichever way; the tool is told by the questions themselves.
    fn drop(&mut self) {
        for open in std::mem::take(&mut self.open) {
            self.withdraw(open.number, "the call that asked has ended");
        }
    }
}

/// Room for one more question of a call that has `open` ones.
///
/// # Errors
/// The limit that it passes, as a sentence for the tool.
pub(super) fn room(
    shared: &Shared,
    question: &Question,
    open: usize,
) -> Result<OwnedSemaphorePermit, String> {
    let config = &shared.config;
    let bytes = question.params().map_or(0, |params| params.get().len());
    if bytes > config.question_bytes {
        let limit = config.question_bytes;
        return Err(format!(
            "the question is {bytes} bytes, over the limit of {limit} (setting `gateway.question_bytes`)"
        ));
    }
    if open >= config.questions_per_call {
        return Err(format!(
            "{open} questions of this call are open, which is the limit (setting `gateway.questions_per_call`)"
        ));
    }
    shared.limits.question().ok_or_else(|| {
        format!(
            "{} questions are open on this node, which is its limit (setting `gateway.questions`)",
            config.questions
        )
    })
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Answers with what the agent's person entered, in the tool's own spelling.
pub(super) fn answer(question: Question, result: &RawValue, texts: &[RealText]) {
    if texts.is_empty() {
        return question.answer(result);
    }
    match RawValue::from_string(put_back(result, texts)) {
        Ok(result) => question.answer(&result),
        Err(_) => question.answer(result),
    }
}

/// The params under our own progress token; a URL gets the id that those revisions want
/// (2025-11-25), which later ones do not have.
fn for_handshake(method: &str, params: &str, id: &Id, has_token: bool) -> String {
    let mut params = params.to_owned();
    if has_token {
        params = envelope::with_meta(&params, &[("progressToken", Some(id.as_json()))]);
    }
    if method == ELICITATION && is_url_without_id(&params) {
        let id = quoted(&hex::encode(rand::random::<[u8; 16]>()));
        params = envelope::with_member(&params, "elicitationId", &id);
    }
    params
}

fn is_url_without_id(params: &str) -> bool {
    let members: envelope::Object<'_> = serde_json::from_str(params).unwrap_or_default();
    let is_url = members.get("mode").and_then(envelope::text).is_some_and(|mode| mode == "url");
    is_url && members.get("elicitationId").is_none()
}

/// Carries a call whose agent has a session: until it ends, what the tool says goes to the agent, and
/// what the agent answers to the tool.
pub(super) async fn carry<T>(
    shared: &Arc<Shared>,
    agent: &Agent,
    mut heard: mpsc::Receiver<Said>,
    mut call: std::pin::Pin<Box<dyn Future<Output = T> + Send + '_>>,
) -> T {
    let mut asking = Asking::new(shared, agent);
    loop {
        tokio::select! {
            biased;
            Some(said) = heard.recv() => asking.hear(said),
            outcome = &mut call => {
                // What was said before the end, and not heard yet.
                while let Ok(said) = heard.try_recv() {
                    asking.hear(said);
                }
                return outcome;
            }
            () = asking.next() => {}
        }
    }
}
