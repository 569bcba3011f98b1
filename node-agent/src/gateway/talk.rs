//! What a tool says to one call's agent, on its way from the tool's reader to whoever carries the call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use domain::digest::ListingHash;
use domain::guard::Slot;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tools::envelope;
use tools::{Listener, LogLevel, RawProgress, Said};

use super::capability::Capabilities;
use super::protocol::{ELICITED, LOG, PROGRESS};
use super::session::Session;
use super::shown::shown;

/// What a tool may say before it is heard; a call is looked after at once, so more is a flood, of which
/// log messages are dropped and questions refused.
const UNHEARD: usize = 64;

/// Of what is kept for an agent, or for who looks after its call: room that progress and log messages leave.
const FOR_QUESTIONS: usize = 16;

/// Who made a call, and how it is spoken to.
#[derive(Clone, Default)]
pub(super) struct Agent {
    pub(super) capabilities: Capabilities,
    /// How much it wants to be told.
    pub(super) log_level: Option<LogLevel>,
    /// Its session, in the handshake revisions.
    pub(super) session: Option<Arc<Session>>,
    /// Its own token, if it wants progress and can read a stream.
    pub(super) token: Option<Box<RawValue>>,
    /// Where messages of the call's own stream go, if its client can read one.
    pub(super) out: Option<mpsc::Sender<String>>,
}

impl Agent {
    /// Whether a tool could have anything to say to it.
    pub(super) fn listens(&self) -> bool {
        self.session.is_some()
            || self.token.is_some()
            || self.log_level.is_some()
            || self.capabilities.raw().is_some()
    }

    /// Sends a message on the call's stream, or on the session's own where that is gone; whether there
    /// is one with room. Never waits.
    pub(super) fn say(&self, message: String) -> bool {
        let message = match &self.out {
            None => message,
            Some(out) => match out.try_send(message) {
                Ok(()) => return true,
                Err(mpsc::error::TrySendError::Full(_)) => return false,
                Err(mpsc::error::TrySendError::Closed(message)) => message,
            },
        };
        self.session.as_ref().is_some_and(|session| session.say(message))
    }

    /// Passes on a log message that is severe enough. Agents of the handshake revisions that named no
    /// level leave it to the tool, those of 2026-07-28 want none.
    pub(super) fn log(&self, params: &RawValue) {
        let wants = match self.log_level {
            Some(level) => LogLevel::of(params) >= level,
            None => self.session.is_some(),
        };
        if wants && self.keeps_up() {
            self.say(envelope::notification(LOG, Some(&shown(params.get()).0)));
        }
    }

    /// Passes progress on, under the agent's own token.
    pub(super) fn progress(&self, progress: &RawProgress) {
        if let (Some(token), Some(out)) = (&self.token, &self.out)
            && self.keeps_up()
        {
            out.try_send(envelope::notification(PROGRESS, Some(&progress.with_token(token)))).ok();
        }
    }

    /// Whether there is room for more than questions, which must not be kept from it by what can be missed.
    fn keeps_up(&self) -> bool {
        self.out.as_ref().is_none_or(|out| out.capacity() > FOR_QUESTIONS)
    }
}

/// The tool's end: hears from any thread, in order.
pub(super) struct Ear {
    agent: u64,
    said: mpsc::Sender<Said>,
    session: Option<Weak<Session>>,
    called: Mutex<Option<Called>>,
    was_asked: AtomicBool,
}

/// By what a call was made.
pub(super) type Called = (Arc<Slot>, ListingHash);

impl Ear {
    /// For a call of that agent, with where to hear it.
    pub(super) fn new(agent: &Agent) -> (Arc<Self>, mpsc::Receiver<Said>) {
        let (said, heard) = mpsc::channel(UNHEARD);
        // Requests of 2026-07-28 stand alone: nothing shows that two are of one agent.
        let number = agent.session.as_ref().map_or_else(super::session::next_agent, |it| it.number);
        let session = agent.session.as_ref().map(Arc::downgrade);
        let (called, was_asked) = (Mutex::default(), AtomicBool::new(false));
        (Arc::new(Self { agent: number, said, session, called, was_asked }), heard)
    }

    /// Notes by what its call is made.
    pub(super) fn note(&self, called: Called) {
        *self.called.lock().unwrap_or_else(PoisonError::into_inner) = Some(called);
    }

    /// Whether the tool asked something so far.
    pub(super) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }

    /// By what its call was made last.
    pub(super) fn called(&self) -> Option<Called> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Listener for Ear {
    fn agent(&self) -> u64 {
        self.agent
    }

    fn hear(&self, said: Said) {
        if matches!(said, Said::Progress(_) | Said::Log(_)) && self.said.capacity() <= FOR_QUESTIONS {
            return;
        }
        if matches!(said, Said::Asks(_)) {
            self.was_asked.store(true, Ordering::Relaxed);
        }
        if let Err(mpsc::error::TrySendError::Closed(Said::Elicited(params))) = self.said.try_send(said)
            && let Some(session) = self.session.as_ref().and_then(Weak::upgrade)
        {
            session.say(envelope::notification(ELICITED, Some(params.get())));
        }
    }
}
