//! What a tool and an agent say to each other during a call, besides the arguments and the result.
//!
//! Lives here: whose agent a tool's own words are for ([`Board`]), and the way back of an answer
//! ([`Question`]). Not here: whether an agent can be asked, what it is shown, how long it may take; the
//! node's gateway decides that. Called by both transports.

mod board;

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::call::RawProgress;
use crate::envelope::{self, Id};

pub(crate) use board::Board;

/// Requests of a tool that an agent answers: of the handshake revisions on their own, from 2026-07-28 on
/// inside of a result.
pub const ELICITATION: &str = "elicitation/create";
/// See [`ELICITATION`].
pub const SAMPLING: &str = "sampling/createMessage";
/// See [`ELICITATION`].
pub const ROOTS: &str = "roots/list";

/// `Internal error`: the tool did nothing wrong, it just cannot be answered.
const INTERNAL: i64 = -32603;

/// What tools of the handshake revisions are told at their start that agents can be asked for. They are
/// started before agents are known; an agent that cannot is told to them when they ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers {
    /// `elicitation/create`, forms and URLs.
    pub elicitation: bool,
    /// `sampling/createMessage`.
    pub sampling: bool,
    /// `roots/list`. Off by default: tools keep roots for the whole connection, which agents share.
    pub roots: bool,
}

impl Default for Offers {
    fn default() -> Self {
        Self { elicitation: true, sampling: true, roots: false }
    }
}

impl Offers {
    /// The capabilities of `initialize`.
    pub(crate) fn capabilities(self) -> String {
        let parts = [
            (self.elicitation, r#""elicitation":{"form":{},"url":{}}"#),
            (self.sampling, r#""sampling":{"tools":{}}"#),
            (self.roots, r#""roots":{}"#),
        ];
        let offered: Vec<&str> = parts.into_iter().filter(|(is, _)| *is).map(|(_, part)| part).collect();
        format!("{{{}}}", offered.join(","))
    }

    fn includes(self, method: &str) -> bool {
        match method {
            ELICITATION => self.elicitation,
            SAMPLING => self.sampling,
            ROOTS => self.roots,
            _ => false,
        }
    }
}

/// How much an agent wants to be told by `notifications/message`, least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// See RFC 5424, as the rest.
    Info,
    /// Normal but significant.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something failed.
    Error,
    /// A part failed.
    Critical,
    /// Someone has to act.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Debug, "debug"),
        (Self::Info, "info"),
        (Self::Notice, "notice"),
        (Self::Warning, "warning"),
        (Self::Error, "error"),
        (Self::Critical, "critical"),
        (Self::Alert, "alert"),
        (Self::Emergency, "emergency"),
    ];

    /// Reads the protocol's name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(level, _)| level)
    }

    /// The protocol's name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(level, _)| *level == self).map_or("debug", |(_, name)| name)
    }

    /// The level of a number that `as u8` gave.
    pub fn from_rank(rank: u8) -> Option<Self> {
        Self::ALL.get(usize::from(rank)).map(|(level, _)| *level)
    }

    /// The level of the raw params of `notifications/message`; one that nobody knows counts as the least.
    pub fn of(params: &RawValue) -> Self {
        let level = envelope::members(params).and_then(|params| params.get("level"));
        level.and_then(envelope::text).and_then(|level| Self::parse(&level)).unwrap_or(Self::Debug)
    }
}

/// Who hears what a tool says during a call.
pub trait Listener: Send + Sync {
    /// Calls with one number are of one agent: what is for one of them is for all.
    fn agent(&self) -> u64;

    /// Takes what the tool says, at once: called by who reads the tool's messages. A question that is
    /// dropped is answered with an error.
    fn hear(&self, said: Said);
}

/// What a tool says during a call.
#[derive(Debug)]
pub enum Said {
    /// It asks something.
    Asks(Question),
    /// It does not wait for the answer to that question of its own any more.
    Withdraws(Id),
    /// How far it is; only where the call wants to know.
    Progress(RawProgress),
    /// The raw params of `notifications/message`.
    Log(Box<RawValue>),
    /// The raw params of `notifications/elicitation/complete`; may come when the call has ended.
    Elicited(Box<RawValue>),
}

/// What goes back to a tool that asked.
#[derive(Debug)]
pub enum Reply {
    /// The raw result.
    Result(Box<RawValue>),
    /// The agent's raw error object.
    Error(Box<str>),
    /// Our own: the agent was not asked, or did not answer.
    Unasked(Box<str>),
    /// Raw params of `notifications/progress`, under the tool's own token.
    Progress(Box<str>),
}

/// Where replies go.
pub type Back = Box<dyn Fn(Reply) + Send + Sync>;

/// A request of a tool. Dropped without an answer, it is answered with an error.
pub struct Question {
    id: Id,
    method: Box<str>,
    params: Option<Box<RawValue>>,
    back: Back,
    is_open: bool,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("id", &self.id).field("method", &self.method).finish_non_exhaustive()
    }
}

impl Question {
    /// A request with the way back for what is said to it.
    pub fn new(id: Id, method: &str, params: Option<Box<RawValue>>, back: Back) -> Self {
        Self { id, method: method.into(), params, back, is_open: true }
    }

    /// The tool's own id.
    pub const fn id(&self) -> &Id {
        &self.id
    }

    /// For example [`ELICITATION`].
    pub const fn method(&self) -> &str {
        &self.method
    }

    /// As sent.
    pub fn params(&self) -> Option<&RawValue> {
        self.params.as_deref()
    }

    /// The tool's token for progress on its request.
    pub fn progress_token(&self) -> Option<&RawValue> {
        let meta = self.params().and_then(envelope::members)?.get("_meta")?;
        envelope::members(meta)?.get("progressToken").filter(|token| Id::from_raw(token).is_some())
    }

    /// Passes on the agent's progress: raw params, under whatever token it was asked with.
    pub fn progress(&self, params: &RawValue) {
        if let Some(token) = self.progress_token() {
            let params = envelope::with_member(params.get(), "progressToken", token.get());
            (self.back)(Reply::Progress(params.into()));
        }
    }

    /// Answers with a raw result.
    pub fn answer(mut self, result: &RawValue) {
        self.is_open = false;
        (self.back)(Reply::Result(result.to_owned()));
    }

    /// Answers with the agent's raw error object.
    pub fn fail(mut self, error: &str) {
        self.is_open = false;
        (self.back)(Reply::Error(error.into()));
    }

    /// Answers with why the agent was not asked, or did not answer, as a sentence.
    pub fn decline(mut self, sentence: &str) {
        self.is_open = false;
        (self.back)(Reply::Unasked(envelope::error_object(INTERNAL, sentence).into()));
    }

    /// Lets go of a question that the tool has withdrawn: it wants no answer.
    pub fn forget(mut self) {
        self.is_open = false;
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if self.is_open {
            let sentence =
                "the agent cannot be asked any more: its call ended, or too much was asked at once";
            (self.back)(Reply::Unasked(envelope::error_object(INTERNAL, sentence).into()));
        }
    }
}

/// A reply as the message that goes to the tool.
pub(crate) fn message(id: &Id, reply: &Reply) -> String {
    match reply {
        Reply::Result(result) => envelope::answer(id, result.get()),
        Reply::Error(error) | Reply::Unasked(error) => envelope::failure(Some(id), error),
        Reply::Progress(params) => envelope::notification("notifications/progress", Some(params)),
    }
}

/// Why nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// It asks outside of calls.
    NoCall,
    /// Nothing says whose agent is meant.
    Several,
    /// Its one caller said that it cannot be asked anything.
    Deaf,
}

impl Unheard {
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::NoCall => "no agent can be asked: no call of this tool is under way; ask during a call",
            Self::Several => {
                "no agent can be asked: calls of several agents are under way, and nothing says which of them \
                 is meant; call again alone, or serve over HTTP or revision 2026-07-28, which say it"
            }
            Self::Deaf => "the agent that called cannot be asked anything",
        }
    }
}

/// Whose agent a tool means that does not say it: the only one that has calls under way.
pub(crate) fn only_agent<'a>(
    calls: impl Iterator<Item = Option<&'a Arc<dyn Listener>>>,
) -> Result<Arc<dyn Listener>, Unheard> {
    let mut only: Option<Option<&Arc<dyn Listener>>> = None;
    for call in calls {
        only = match (only, call) {
            (None, call) => Some(call),
            (Some(Some(one)), Some(other)) if one.agent() == other.agent() => Some(Some(other)),
            (Some(_), _) => return Err(Unheard::Several),
        };
    }
    only.ok_or(Unheard::NoCall)?.cloned().ok_or(Unheard::Deaf)
}

#[cfg(test)]
mod tests;
