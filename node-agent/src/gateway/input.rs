//! What a tool of 2026-07-28 asks in place of a result, passed on to an agent of that revision.

use std::sync::Arc;

use http::StatusCode;
use serde_json::value::RawValue;
use tools::envelope::{self, quoted};

use super::attempt::{Done, Stop, failed, too_many_rounds};
use super::call::{Answered, Asked, Ended};
use super::protocol::{Era, MISSING_CAPABILITY};
use super::rounds::{self, Wanted};
use super::state::{Rest, sealed};
use super::{Shared, mark};

/// The answer that asks the agent.
///
/// # Errors
/// What it asks cannot be read, passes a limit, or asks too often.
pub(super) fn input(shared: &Shared, asked: &Asked, done: &Done, rounds: u32) -> Result<Ended, Stop> {
    if rounds >= shared.config.rounds {
        return Err(too_many_rounds(shared, &done.slot));
    }
    let unreadable = |reason: &str| failed(&done.slot, reason, true);
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
        let Some(required) = unable.required else {
            return Err(unreadable(&format!("pass on what it asks for first: {}", unable.sentence)));
        };
        let sentence = format!("`{}` cannot go on: {}", done.slot.id, unable.sentence);
        let error = format!(
            r#"{{"code":{MISSING_CAPABILITY},"message":{},"data":{{"requiredCapabilities":{required}}}}}"#,
            quoted(&sentence)
        );
        let text = envelope::failure(Some(&asked.id), &error);
        return Ok((Answered { text, status: StatusCode::BAD_REQUEST }, "failed"));
    }
    let tool = wanted.state.map(ToOwned::to_owned);
    let call = (Arc::clone(&done.slot), done.hash);
    let result = rounds::for_modern(&done.result, |texts| {
        sealed(shared, asked, &call, rounds + 1, Rest::Tool(tool, texts))
    });
    let marked = RawValue::from_string(result)
        .ok()
        .and_then(|result| mark::result(&asked.id, &result, &done.slot, done.hash, Era::Modern));
    let text = marked.ok_or_else(|| unreadable("read its answer: the result is no object"))?;
    Ok((Answered::good(text), "input_required"))
}
