//! Opening an endpoint: modern first, then the handshake.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::session::Session;
use super::{Core, headers};
use crate::envelope;
use crate::error::Error;
use crate::spec::Opening;
use crate::start::{StartError, spoken};
use crate::wire::{self, Ask, Era, Peer, Probe};

/// How much longer than a process an endpoint may think about the probe: it may be cold and far away, and
/// servers of the older era refuse rather than stay silent.
const SLOWER: u32 = 5;

/// Finds out the era, and opens a session where it has those.
pub(super) async fn open(core: &Arc<Core>, known: Opening) -> Result<Session, StartError> {
    let limit = core.limits.start;
    let opening = async {
        if known == Opening::Handshake {
            match shake_hands(core).await {
                // It may speak the other era by now.
                Err(StartError::Opening(error)) if declines(&error) => {}
                outcome => return outcome,
            }
        }
        let handshake = match probe(core, core.limits.probe * SLOWER).await? {
            Probe::Modern(peer) => return Ok(Session::new(peer, None)),
            Probe::Unknown(offered) => return Err(StartError::Version { offered, spoken: spoken() }),
            Probe::Handshake => shake_hands(core).await,
        };
        // One that is only slow keeps to the modern era and declines the handshake.
        match &handshake {
            Err(StartError::Opening(Error::Rpc(error))) if wire::is_modern(error) => {}
            Err(StartError::Opening(Error::Status { rpc: Some(error), .. })) if wire::is_modern(error) => {}
            _ => return handshake,
        }
        match probe(core, limit).await? {
            Probe::Modern(peer) => Ok(Session::new(peer, None)),
            Probe::Unknown(_) | Probe::Handshake => handshake,
        }
    };
    timeout(limit, opening)
        .await
        .unwrap_or(Err(StartError::Opening(Error::TimedOut { after: limit, sent: true })))
}

/// Opens a session anew (handshake era). Who declines the handshake may speak the other era by now.
pub(super) async fn handshake(core: &Arc<Core>) -> Result<Session, Error> {
    let limit = core.limits.start;
    match timeout(limit, shake_hands(core)).await {
        Ok(Ok(session)) => Ok(session),
        Ok(Err(StartError::Opening(error))) if !declines(&error) => Err(error),
        Ok(Err(other)) => Err(Error::Reopen(other.to_string().into())),
        Err(_) => Err(Error::TimedOut { after: limit, sent: true }),
    }
}

/// Whether an answer to the handshake is one of a server that has none.
const fn declines(error: &Error) -> bool {
    matches!(error, Error::Rpc(_) | Error::Status { status: 400 | 404 | 405, .. })
}

async fn probe(core: &Arc<Core>, wait: Duration) -> Result<Probe, StartError> {
    let modern = Session::new(
        Peer { era: Era::Modern, version: wire::MODERN.into(), list_changed: false, logging: false },
        None,
    );
    let ask = Ask::new(core.next_id(), "server/discover", wire::discover_params(), None);
    let begun = Arc::default();
    let Ok(outcome) = timeout(wait, core.exchange(&ask, &modern, &begun)).await else {
        return Ok(Probe::Handshake);
    };
    match outcome.map_err(Error::from) {
        Ok(result) => Ok(wire::discovered(&result)),
        Err(Error::Rpc(error)) => Ok(wire::not_discovered(&error)),
        Err(Error::Status { status: 400 | 404 | 405, rpc, .. }) => {
            Ok(rpc.map_or(Probe::Handshake, |error| wire::not_discovered(&error)))
        }
        // A server that takes it for a notification, or hangs up.
        Err(Error::StreamEnded { .. }) => Ok(Probe::Handshake),
        Err(error) => Err(StartError::Opening(error)),
    }
}

async fn shake_hands(core: &Arc<Core>) -> Result<Session, StartError> {
    let id = core.next_id();
    let ask = Ask::new(id, "initialize", wire::initialize_params(core.board.offers()), None);
    let response = core.post(&ask, headers::of_post(), &Arc::default()).await.map_err(Error::from)?;
    let session = response.headers().get(headers::SESSION).cloned();
    let result = core.answer(response, &ask, None).await?;
    let peer =
        wire::initialized(&result).map_err(|offered| StartError::Version { offered, spoken: spoken() })?;
    let session = Session::new(peer, session);
    let message = envelope::notification("notifications/initialized", None);
    core.notify(message, &session).await?;
    Ok(session)
}
