//! Reading a request's stream to its answer, also over several connections.
//!
//! In the handshake revisions a server may end the stream of a call and let the client come back with
//! `Last-Event-ID` (transports, "Resumability"; SEP-1699). From 2026-07-28 on a stream that ends is over.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use reqwest::Response;
use serde_json::value::RawValue;
use sse_stream::Sse;

use super::answer::{self, Events, Form};
use super::client::Outgoing;
use super::session::Session;
use super::{Core, headers};
use crate::error::Error;
use crate::wire::{Ask, Era};

/// Before a stream is gone on with, where the server names no pause, and doubled after each failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest: a server that says `retry: 0` is not asked all the time.
const SHORTEST: Duration = Duration::from_millis(100);
/// Failures in a row; a server that is being started again is back within them.
const TRIES: u32 = 5;
/// The pause of failures, doubled, does not grow past this.
const LONGEST: Duration = Duration::from_secs(10);

/// Where a stream can be gone on with.
#[derive(Debug, Default)]
pub(super) struct Place {
    last: Option<HeaderValue>,
    retry: Option<Duration>,
}

impl Place {
    /// Notes what an event says about it.
    pub(super) fn note(&mut self, event: &Sse) {
        if let Some(id) = &event.id {
            // An empty id takes the last one back, as the standard has it.
            self.last = HeaderValue::from_bytes(id.as_bytes()).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(Duration::from_millis(retry));
        }
    }

    /// Adds `Last-Event-ID`, if there is one.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(last) = &self.last {
            headers.insert(headers::LAST_EVENT, last.clone());
        }
    }

    /// How long the server wants to be left alone, at least.
    pub(super) const fn retry(&self) -> Option<Duration> {
        self.retry
    }
}

impl Core {
    /// Reads until the answer to `ask` comes.
    pub(super) async fn read(
        self: &Arc<Self>,
        mut response: Response,
        ask: &Ask,
        session: Option<&Session>,
    ) -> Result<Box<RawValue>, Error> {
        let mut place = Place::default();
        loop {
            let error = match self.read_one(response, ask, &mut place).await {
                Ok(outcome) => return outcome,
                Err(error) => error,
            };
            let has_ended = matches!(error, Error::StreamEnded { .. } | Error::Unreachable { .. });
            let session = session.filter(|session| session.peer.era == Era::Handshake);
            let (true, Some(session), Some(_)) = (has_ended, session, &place.last) else { return Err(error) };
            response = self.go_on(session, &place).await.ok_or(error)?;
        }
    }

    /// One stream. `Err` if it ended before the answer.
    async fn read_one(
        self: &Arc<Self>,
        response: Response,
        ask: &Ask,
        place: &mut Place,
    ) -> Result<Result<Box<RawValue>, Error>, Error> {
        let mut events = Events::new(response, self.limits.message_bytes);
        while let Some(event) = events.next(&self.client).await? {
            place.note(&event);
            let message = event.data.as_deref().filter(|data| !data.trim().is_empty());
            if let Some(outcome) = message.and_then(|data| self.handle(data, Some(ask))) {
                return Ok(outcome);
            }
        }
        Err(Error::StreamEnded { url: self.client.shown() })
    }

    /// The next stream of the same answer; `None` if there is none to be had.
    async fn go_on(&self, session: &Session, place: &Place) -> Option<Response> {
        let mut pause = place.retry.unwrap_or(PAUSE).max(SHORTEST);
        for _ in 0..TRIES {
            tokio::time::sleep(pause).await;
            let mut headers = headers::of_stream();
            headers::add_era(&mut headers, &session.peer, session.id.as_ref());
            place.add_to(&mut headers);
            let error = match self.client.send(&Outgoing::get(headers)).await {
                Ok(response) => match answer::form(response, &self.client.url).await {
                    Ok((Form::Events, response)) => return Some(response),
                    Ok(_) => return None,
                    Err(error) => error,
                },
                Err(unanswered) => unanswered.into(),
            };
            pause = match error {
                Error::Unreachable { .. } | Error::Status { status: 500..=599, .. } => {
                    (pause * 2).clamp(SHORTEST, LONGEST.max(place.retry.unwrap_or_default()))
                }
                Error::Status { status: 429, retry_after, .. } => retry_after.unwrap_or(pause * 2),
                _ => return None,
            };
        }
        None
    }
}
