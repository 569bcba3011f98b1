//! What both HTTP transports have: the client, who hears, the numbers of requests, the stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use crate::dialog::Board;
use crate::error::Error;
use crate::spec::{Limits, UrlSpec};
use crate::start::StartError;
use crate::tool::{Events, ToolEvent};
use crate::wire;

/// An endpoint, from its start to its stop.
pub(super) struct Base<Own> {
    pub(super) client: Client,
    pub(super) limits: Limits,
    pub(super) board: Arc<Board>,
    pub(super) stop: CancellationToken,
    /// What one transport has besides.
    pub(super) own: Own,
    events: Events,
    next_id: AtomicU64,
}

impl<Own: Default> Base<Own> {
    /// Of which nothing is opened yet.
    pub(super) fn new(spec: UrlSpec, events: Events) -> Result<Arc<Self>, StartError> {
        Ok(Arc::new(Self {
            limits: spec.limits,
            board: Arc::new(Board::new(spec.offers)),
            client: Client::new(spec)?,
            stop: CancellationToken::new(),
            own: Own::default(),
            events,
            next_id: AtomicU64::new(1),
        }))
    }
}

impl<Own> Base<Own> {
    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn emit(&self, event: ToolEvent) {
        (self.events)(event);
    }

    pub(super) fn session_lost(&self) -> Error {
        Error::SessionLost { url: self.client.shown() }
    }

    /// Hears a notification, which came on the stream of that request, if it did on one's.
    pub(super) fn hear(&self, method: &str, params: Option<&RawValue>, of_call: Option<u64>) {
        match (method, params) {
            (wire::LIST_CHANGED, _) => self.emit(ToolEvent::ListChanged),
            ("notifications/message", Some(params)) => {
                self.board.log(params, of_call);
                self.emit(ToolEvent::Log(params.to_owned()));
            }
            ("notifications/elicitation/complete", Some(params)) => self.board.elicited(params),
            ("notifications/cancelled", Some(params)) => self.board.withdraw(params),
            _ => {}
        }
    }
}
