//! The session with an endpoint of the handshake era: opened, found lost, opened anew by one for all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use http::HeaderValue;
use tokio::sync::Mutex;

use super::Core;
use crate::error::Error;
use crate::tool::ToolEvent;
use crate::wire::{self, Ask, Peer};

/// What each request of this moment carries.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: Peer,
    /// Header `Mcp-Session-Id`; servers without sessions give none.
    pub(super) id: Option<HeaderValue>,
    /// Counts sessions, so that of many who find one lost only the first opens another.
    generation: u64,
    /// Set by an answer that may mean "unknown session": tested before it is used again.
    pub(super) suspect: AtomicBool,
}

impl Session {
    pub(super) const fn new(peer: Peer, id: Option<HeaderValue>) -> Self {
        Self { peer, id, generation: 0, suspect: AtomicBool::new(false) }
    }
}

/// The present session.
#[derive(Debug)]
pub(super) struct Sessions {
    present: ArcSwap<Session>,
    renewing: Mutex<()>,
}

impl Sessions {
    pub(super) fn new(first: Session) -> Self {
        Self { present: ArcSwap::from_pointee(first), renewing: Mutex::new(()) }
    }

    pub(super) fn present(&self) -> Arc<Session> {
        self.present.load_full()
    }

    /// Opens a new session in place of a lost one, unless somebody did.
    pub(super) async fn renew(&self, core: &Arc<Core>, lost: &Session) -> Result<(), Error> {
        let _turn = self.renewing.lock().await;
        if self.present.load().generation != lost.generation {
            return Ok(());
        }
        let mut session = super::open::handshake(core).await?;
        session.generation = lost.generation + 1;
        // Heard before the session can be used: what it shows is listed before anything of it is called.
        core.emit(ToolEvent::Reconnected);
        self.present.store(Arc::new(session));
        Ok(())
    }

    /// Tests a session that is under suspicion, with a request that runs nothing.
    ///
    /// # Errors
    /// [`Error::SessionLost`] if it was lost; a new one is open then.
    pub(super) async fn test(&self, core: &Arc<Core>, session: &Session) -> Result<(), Error> {
        let ask = Ask::new(core.next_id(), "ping", "{}".to_owned(), Some(core.limits.start));
        match core.exchange(&ask, session, &Arc::default()).await.map_err(Error::from) {
            // A server that knows no ping knows the session.
            Ok(_) | Err(Error::Rpc(_)) => {
                session.suspect.store(false, Ordering::Release);
                Ok(())
            }
            Err(Error::Status { .. }) => {
                self.renew(core, session).await?;
                Err(core.session_lost())
            }
            Err(error) => Err(error),
        }
    }
}

impl Core {
    /// Whether an answer says, or may say, that the session is unknown; only endpoints that gave one can
    /// lose it.
    pub(super) fn session_doubt(session: &Session, error: &Error) -> Doubt {
        match (error, session.peer.era, &session.id) {
            (Error::Status { status: 404, .. }, wire::Era::Handshake, Some(_)) => Doubt::Lost,
            (Error::Status { status: 400 | 500..=599, .. }, wire::Era::Handshake, Some(_)) => Doubt::Suspect,
            _ => Doubt::None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    None,
    Suspect,
    Lost,
}
