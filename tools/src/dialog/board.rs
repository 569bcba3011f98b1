//! Calls of one tool under way, and what the tool has asked during them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::{Back, ELICITATION, Listener, Offers, Question, Said, Unheard, message, only_agent};
use crate::envelope::{self, Id};

/// `Method not found`.
const NO_METHOD: i64 = -32601;
/// `Invalid request`.
const INVALID: i64 = -32600;
/// `Internal error`.
const INTERNAL: i64 = -32603;

/// Questions of one tool that are open at once; more than a tool has calls.
const OPEN: usize = 64;
/// Elicitations by URL that are remembered, so that their agent hears of their end; people finish them
/// within minutes.
const URLS: usize = 64;
/// How long a call that was given up counts as one that its tool may speak of: tools end such a call at once,
/// or when they next look whether they should.
const AFTERWARDS: Duration = Duration::from_secs(10);
/// Such calls that are remembered; the oldest is forgotten first.
const GIVEN_UP: usize = 1_024;

/// What a tool says to whom.
pub(crate) struct Board {
    offers: Offers,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    /// `None` of an agent that cannot be asked.
    calls: HashMap<u64, Option<Arc<dyn Listener>>>,
    /// Calls that the tool has not answered and nobody waits for any more, oldest first.
    given_up: VecDeque<GivenUp>,
    /// By the tool's own id.
    open: HashMap<Id, Arc<dyn Listener>>,
    /// By the tool's `elicitationId`.
    urls: VecDeque<(Box<str>, Arc<dyn Listener>)>,
}

struct GivenUp {
    id: u64,
    listener: Option<Arc<dyn Listener>>,
    until: Instant,
}

/// A call under way, until it is dropped.
pub(crate) struct InFlight {
    board: Arc<Board>,
    id: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.board.places().calls.remove(&self.id);
    }
}

impl Board {
    pub(crate) fn new(offers: Offers) -> Self {
        Self { offers, places: Mutex::default() }
    }

    pub(crate) const fn offers(&self) -> Offers {
        self.offers
    }

    /// Notes a call under way.
    pub(crate) fn begin(self: &Arc<Self>, id: u64, listener: Option<Arc<dyn Listener>>) -> InFlight {
        self.places().calls.insert(id, listener);
        InFlight { board: Arc::clone(self), id }
    }

    /// A call has its answer.
    pub(crate) fn ended(&self, id: u64) {
        let mut places = self.places();
        places.calls.remove(&id);
        places.given_up.retain(|call| call.id != id);
    }

    /// A call that the tool may have begun with is not waited for any more. What the tool still says of it must
    /// not be taken for what it says of another agent's.
    pub(crate) fn gave_up(&self, id: u64, now: Instant) {
        let mut places = self.places();
        let Some(listener) = places.calls.remove(&id) else { return };
        places.forget_given_up(now);
        if places.given_up.len() >= GIVEN_UP {
            places.given_up.pop_front();
        }
        places.given_up.push_back(GivenUp { id, listener, until: now + AFTERWARDS });
    }

    /// A request of the tool: it goes to the agent whose call it came with, to the only agent that has
    /// calls under way where nothing says that, or is declined. `say` sends a message to the tool.
    pub(crate) fn ask(
        self: &Arc<Self>,
        id: &Id,
        method: &str,
        params: Option<&RawValue>,
        of_call: Option<u64>,
        say: impl Fn(String) + Send + Sync + 'static,
    ) {
        match self.place(id, method, params, of_call) {
            Err((code, sentence)) => {
                say(envelope::failure(Some(id), &envelope::error_object(code, sentence)));
            }
            Ok(listener) => {
                let (board, open) = (Arc::clone(self), id.clone());
                let back: Back = Box::new(move |reply| {
                    if !matches!(reply, super::Reply::Progress(_)) {
                        board.places().open.remove(&open);
                    }
                    say(message(&open, &reply));
                });
                listener.hear(Said::Asks(Question::new(
                    id.clone(),
                    method,
                    params.map(ToOwned::to_owned),
                    back,
                )));
            }
        }
    }

    fn place(
        &self,
        id: &Id,
        method: &str,
        params: Option<&RawValue>,
        of_call: Option<u64>,
    ) -> Result<Arc<dyn Listener>, (i64, &'static str)> {
        if !self.offers.includes(method) {
            return Err((NO_METHOD, "this client offers no such method"));
        }
        let mut places = self.places();
        let listener = places.listener(of_call).map_err(|why| (INTERNAL, why.sentence()))?;
        if places.open.contains_key(id) {
            return Err((INVALID, "a request with this id is not answered yet"));
        }
        if places.open.len() >= OPEN {
            return Err((INTERNAL, "no agent can be asked: too many questions of this tool are open"));
        }
        places.open.insert(id.clone(), Arc::clone(&listener));
        if method == ELICITATION
            && let Some(url) = params.and_then(elicitation_id)
        {
            if places.urls.len() >= URLS {
                places.urls.pop_front();
            }
            places.urls.push_back((url, Arc::clone(&listener)));
        }
        Ok(listener)
    }

    /// The tool does not wait for an answer any more.
    pub(crate) fn withdraw(&self, params: &RawValue) {
        let id = envelope::members(params).and_then(|members| members.get("requestId"));
        let Some(id) = id.and_then(Id::from_raw) else { return };
        let listener = self.places().open.remove(&id);
        if let Some(listener) = listener {
            listener.hear(Said::Withdraws(id));
        }
    }

    /// A log message goes where a question would; where that is not known, to nobody.
    pub(crate) fn log(&self, params: &RawValue, of_call: Option<u64>) {
        let listener = self.places().listener(of_call);
        if let Ok(listener) = listener {
            listener.hear(Said::Log(params.to_owned()));
        }
    }

    /// What was to be done at a URL is done.
    pub(crate) fn elicited(&self, params: &RawValue) {
        let Some(done) = elicitation_id(params) else { return };
        let listener = {
            let mut places = self.places();
            let at = places.urls.iter().position(|(id, _)| *id == done);
            at.and_then(|at| places.urls.remove(at))
        };
        if let Some((_, listener)) = listener {
            listener.hear(Said::Elicited(params.to_owned()));
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn listener(&mut self, of_call: Option<u64>) -> Result<Arc<dyn Listener>, Unheard> {
        if let Some(call) = of_call {
            return self.calls.get(&call).ok_or(Unheard::NoCall)?.clone().ok_or(Unheard::Deaf);
        }
        self.forget_given_up(Instant::now());
        let given_up = self.given_up.iter().map(|call| call.listener.as_ref());
        // Of one agent's, one that goes on hears it.
        only_agent(given_up.chain(self.calls.values().map(Option::as_ref)))
    }

    fn forget_given_up(&mut self, now: Instant) {
        while self.given_up.front().is_some_and(|call| call.until <= now) {
            self.given_up.pop_front();
        }
    }
}

fn elicitation_id(params: &RawValue) -> Option<Box<str>> {
    let id = envelope::members(params)?.get("elicitationId")?;
    envelope::text(id).map(Into::into)
}
