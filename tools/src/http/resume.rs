//! A request's stream that ends before its answer, and how it is taken up where it ended (handshake era).
//!
//! Source: MCP 2025-11-25, transports, "Resumability and Redelivery": servers may end a stream whose events have
//! ids, and answer on the stream of a GET that names the last of them. Revision 2026-07-28 has none of it.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use serde_json::value::RawValue;
use sse_stream::Sse;

use super::answer::{self, Events, Form};
use super::client::Outgoing;
use super::session::Session;
use super::{Core, headers};
use crate::error::Error;
use crate::wire::{Ask, Era};

/// Before a stream is taken up where its server names no time; what others wait too.
const PAUSE: Duration = Duration::from_secs(1);
/// The least and the most of what a server names: a stream that ends at once is not asked for all the time,
/// and a request is not forgotten.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_mins(1));
/// How often in a row the stream is not to be had, before that is believed.
const FAILURES: u32 = 5;

/// Where a stream is.
#[derive(Default)]
struct Place {
    last: Option<HeaderValue>,
    pause: Option<Duration>,
}

/// Reads the answer from a stream, and from those that go on after it. Ends with the request's deadline at last.
pub(super) async fn answer(
    core: &Arc<Core>,
    mut events: Events,
    ask: &Ask,
    session: Option<&Session>,
) -> Result<Box<RawValue>, Error> {
    let mut place = Place::default();
    loop {
        let ended = loop {
            match events.next(&core.client).await {
                Ok(Some(event)) => {
                    place.note(&event);
                    let message = event.data.as_deref().filter(|data| !data.trim().is_empty());
                    if let Some(outcome) = message.and_then(|data| core.handle(data, Some(ask))) {
                        return outcome;
                    }
                }
                Ok(None) => break Error::StreamEnded { url: core.client.url.as_str().into() },
                Err(error @ Error::Unreachable { .. }) => break error,
                Err(error) => return Err(error),
            }
        };
        let session = session.filter(|session| session.peer.era == Era::Handshake);
        events = match (session, &place.last) {
            (Some(session), Some(last)) => {
                take_up(core, session, last, place.pause.unwrap_or(PAUSE)).await.ok_or(ended)?
            }
            _ => return Err(ended),
        };
    }
}

/// The stream that goes on after that event; `None` if there is none.
async fn take_up(core: &Arc<Core>, session: &Session, last: &HeaderValue, pause: Duration) -> Option<Events> {
    for _ in 0..FAILURES {
        tokio::time::sleep(pause).await;
        let mut headers = headers::of_stream();
        headers::add_era(&mut headers, &session.peer, session.id.as_ref());
        headers.insert(headers::LAST_EVENT, last.clone());
        let Ok(response) = core.client.send(&Outgoing::get(headers)).await else { continue };
        match answer::form(response, core.client.url.as_str()).await {
            Ok((Form::Events, response)) => return Some(Events::new(response, core.limits.message_bytes)),
            Err(Error::Status { status: 500..=599, .. }) => {}
            Ok(_) | Err(_) => return None,
        }
    }
    None
}

impl Place {
    fn note(&mut self, event: &Sse) {
        if let Some(id) = &event.id {
            // An empty id says that there is no place to go on from; what is no header cannot be named.
            self.last = HeaderValue::from_str(id).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.pause = Some(Duration::from_millis(retry).clamp(PAUSES.0, PAUSES.1));
        }
    }
}
