//! One stream of the older transport, from its GET to its end.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::place::place;
use super::{ASIDE, Core};
use crate::envelope::{self, IdScan, Message};
use crate::error::{EndpointFault, Error, RpcError};
use crate::http::answer::{self, Events, Form};
use crate::http::client::Outgoing;
use crate::http::headers;
use crate::start::{StartError, spoken};
use crate::waiters::Waiters;
use crate::wire::{self, Ask, Era, Peer};

/// A stream and where its answers are asked for.
pub(super) struct Link {
    pub(super) endpoint: Url,
    pub(super) waiters: Waiters,
    peer: OnceLock<Peer>,
    end: CancellationToken,
    over: CancellationToken,
}

impl Link {
    /// What the server said about itself.
    pub(super) fn peer(&self) -> Peer {
        let unknown = || Peer {
            era: Era::Handshake,
            version: "2024-11-05".into(),
            list_changed: false,
            logging: false,
        };
        self.peer.get().cloned().unwrap_or_else(unknown)
    }

    pub(super) fn add_version(&self, headers: &mut HeaderMap) {
        if let Some(peer) = self.peer.get() {
            headers::add_era(headers, peer, None);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits for the end of the stream.
    pub(super) async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Ends the stream.
    pub(super) fn end(&self) {
        self.end.cancel();
    }
}

/// Opens a stream, takes what it names, and shakes hands.
pub(super) async fn open(core: &Arc<Core>) -> Result<Arc<Link>, StartError> {
    let limit = core.limits.start;
    let end_by = Instant::now() + limit;
    let end = core.stop.child_token();
    // Whatever goes wrong ends what was begun.
    let guard = end.clone().drop_guard();
    let response = async {
        let response = core.client.send(&Outgoing::get(headers::of_stream())).await.map_err(Error::from)?;
        answer::form(response, &core.client.url).await
    };
    let late = |fault| StartError::Opening(Error::Endpoint { url: core.client.shown(), fault });
    let none = || late(EndpointFault::None { after: limit });
    let response = match timeout_at(end_by, response).await {
        Err(_) => return Err(none()),
        Ok(Ok((Form::Events, response))) => response,
        Ok(Ok((Form::Json | Form::Nothing, _))) => {
            let (url, content_type) = (core.client.shown(), "no event stream".into());
            return Err(StartError::Opening(Error::NotMcp { url, content_type }));
        }
        Ok(Err(error)) => return Err(StartError::Opening(error)),
    };
    let base = response.url().clone();
    let events = Events::new(response, core.limits.message_bytes);
    let (named, name) = oneshot::channel();
    let (linked, link) = oneshot::channel();
    tokio::spawn(read(Arc::clone(core), events, end.clone(), named, link));
    let named = timeout_at(end_by, name).await.map_err(|_| none())?.map_err(|_| none())?;
    let endpoint = place(&base, &named).map_err(late)?;
    let link = Arc::new(Link {
        endpoint,
        waiters: Waiters::default(),
        peer: OnceLock::new(),
        end,
        over: CancellationToken::new(),
    });
    linked.send(Arc::clone(&link)).ok();
    let peer = shake_hands(core, &link, end_by.saturating_duration_since(Instant::now())).await?;
    link.peer.get_or_init(|| peer);
    guard.disarm();
    Ok(link)
}

async fn shake_hands(core: &Arc<Core>, link: &Arc<Link>, left: Duration) -> Result<Peer, StartError> {
    let params = wire::initialize_params(core.board.offers());
    let mut ask = Ask::new(core.next_id(), "initialize", params, Some(left));
    ask.cancellable = false;
    let result = core.ask_on(link, ask).await.map_err(Error::from)?;
    let peer =
        wire::initialized(&result).map_err(|offered| StartError::Version { offered, spoken: spoken() })?;
    let message = envelope::notification("notifications/initialized", None);
    core.taken(link, Outgoing::post(headers::of_post(), message)).await.map_err(Error::from)?;
    Ok(peer)
}

/// Reads the stream to its end: first where to POST, then messages.
async fn read(
    core: Arc<Core>,
    mut events: Events,
    end: CancellationToken,
    named: oneshot::Sender<String>,
    link: oneshot::Receiver<Arc<Link>>,
) {
    let first = async {
        loop {
            let event = events.next(&core.client).await.ok().flatten()?;
            if event.event.as_deref() == Some("endpoint") {
                return event.data;
            }
        }
    };
    let Some(Some(first)) = end.run_until_cancelled(first).await else { return };
    named.send(first).ok();
    let Ok(link) = link.await else { return };
    let error = end.run_until_cancelled(messages(&core, &link, &mut events)).await;
    let stopped = || Error::Stopped { sent: true };
    let ended = || Error::StreamEnded { url: core.client.shown() };
    let error = match error {
        None if core.stop.is_cancelled() => stopped(),
        None => ended(),
        Some(error) => error.unwrap_or_else(ended),
    };
    // Told in this order: who finds nobody to wait for an answer finds the stream over.
    link.over.cancel();
    link.waiters.close(&error);
}

/// Handles messages until the stream ends; why, if something went wrong.
async fn messages(core: &Arc<Core>, link: &Arc<Link>, events: &mut Events) -> Option<Error> {
    loop {
        let event = match events.next(&core.client).await {
            Ok(event) => event?,
            Err(error) => return Some(error),
        };
        match (event.event.as_deref(), &event.data) {
            (None | Some("message"), Some(data)) if !data.trim().is_empty() => handle(core, link, data),
            (Some("endpoint"), _) => {
                // The first one holds: a later one could lead a running session elsewhere.
                tracing::warn!(url = %core.client.shown(), "a tool named another place for messages, which is ignored");
            }
            _ => {}
        }
    }
}

fn handle(core: &Arc<Core>, link: &Arc<Link>, data: &str) {
    let message = match envelope::parse_str(data) {
        Ok(message) => message,
        Err(error) => {
            let mut scan = IdScan::default();
            scan.feed(data.as_bytes());
            let error = Error::Unreadable(error);
            return link.waiters.spoil(&scan.finish(), &error, |id| core.board.ended(id));
        }
    };
    match &message {
        Message::Response { id, outcome } => {
            let of_error = || outcome.err().and_then(|error| Some((link.waiters.only_one()?, error)));
            match (id.as_ref().map(envelope::Id::as_u64), of_error()) {
                (Some(Some(id)), _) => {
                    link.waiters.settle(id, wire::outcome(*outcome));
                    core.board.ended(id);
                }
                // It could not read a request of ours and does not know whose it was.
                (None, Some((id, error))) => {
                    link.waiters.settle(id, Err(Error::Rpc(RpcError::from_raw(error))));
                }
                _ => {}
            }
        }
        Message::Request { id, method, .. } if &**method == "ping" => {
            core.say(envelope::answer(id, "{}"), link, ASIDE);
        }
        Message::Request { id, method, params } => {
            let (to, over) = (Arc::clone(core), Arc::clone(link));
            // The server waits for it, and it may be as large as a result.
            let wait = core.limits.start;
            core.board.ask(id, method, *params, None, move |message| to.say(message, &over, wait));
        }
        Message::Notification { method, params } => match (method.as_ref(), params) {
            ("notifications/progress", Some(params)) => link.waiters.progress(params),
            _ => core.hear(method, *params, None),
        },
    }
}
