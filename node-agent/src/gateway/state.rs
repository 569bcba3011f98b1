//! Our own state of a call that asks its agent of 2026-07-28 first: made here, and judged when it comes back.

use domain::listing::RealText;
use serde_json::value::RawValue;
use tools::envelope;

use super::Shared;
use super::attempt::Stop;
use super::call::Asked;
use super::seal::{Fault, State, digest};
use super::talk::Called;

/// Seals what is needed to go on with a call.
pub(super) fn sealed(shared: &Shared, asked: &Asked, call: &Called, rounds: u32, rest: Rest) -> String {
    let (held, tool, texts) = match rest {
        Rest::Held(number) => (Some(number), None, Vec::new()),
        Rest::Tool(tool, texts) => (None, tool, texts),
    };
    let wait_ms = u64::try_from(shared.config.answer_wait.as_millis()).unwrap_or(u64::MAX);
    let written_out = |text: RealText| (text.written.to_string(), text.real.to_string(), text.is_member_name);
    let state = State {
        name: asked.name.to_string(),
        called: called(call),
        arguments: digest(asked.arguments.as_deref()),
        expires_ms: shared.upstream.now_ms().saturating_add(wait_ms),
        rounds,
        held,
        tool,
        texts: texts.into_iter().map(written_out).collect(),
    };
    shared.seal.seal(&state, &shared.token.principal())
}

/// What goes on.
pub(super) enum Rest {
    /// A call that is held, by its number.
    Held(u64),
    /// A tool by its own state, and what was written out of what it asks.
    Tool(Option<Box<RawValue>>, Vec<RealText>),
}

/// Our own state, and that it is of this very call.
pub(super) fn opened(shared: &Shared, asked: &Asked) -> Result<State, Stop> {
    let sent = asked.retry.as_ref().and_then(|retry| retry.state.as_deref());
    let Some(sent) = sent.and_then(envelope::text) else {
        return Err(Stop::Invalid("params.requestState is expected to be a string".to_owned()));
    };
    let state =
        shared.seal.open(&sent, &shared.token.principal(), shared.upstream.now_ms()).map_err(invalid)?;
    if *state.name != *asked.name || state.arguments != digest(asked.arguments.as_deref()) {
        return Err(invalid(Fault::OtherCall));
    }
    Ok(state)
}

/// Why what came back is of no use.
pub(super) fn invalid(fault: Fault) -> Stop {
    Stop::Invalid(fault.to_string())
}

/// What names the version and the listing that a call was made by.
pub(super) fn called((slot, hash): &Called) -> String {
    format!("{} {hash}", slot.version)
}
