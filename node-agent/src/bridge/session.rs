//! The session of a handshake client with the node: opened as it asked, opened again by us when the
//! node forgot it, since a client on stdio knows of no session.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Mutex, mpsc};
use tools::envelope::{self, Id, Message};

use super::Error;
use super::endpoint::{Endpoint, Reply};
use super::header;
use super::request::send;
use crate::gateway::protocol::{HANDSHAKE, LIST_CHANGED, SESSION_HEADER};

/// What `initialize` agreed on.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Option<Box<str>>,
    pub(super) version: Box<str>,
    initialize: Bytes,
}

/// The one session of a relay.
#[derive(Debug, Default)]
pub(super) struct Current(Mutex<Option<Arc<Session>>>);

impl Session {
    /// Whether it came from the same `initialize` of the client's, so that it stands for the other.
    pub(super) fn is_of_the_same_handshake(&self, other: &Self) -> bool {
        std::ptr::eq(self.initialize.as_ptr(), other.initialize.as_ptr())
    }

    pub(super) fn headers(&self) -> http::HeaderMap {
        header::session(self.id.as_deref(), &self.version)
    }
}

impl Current {
    pub(super) async fn get(&self) -> Option<Arc<Session>> {
        self.0.lock().await.clone()
    }

    /// Opens the client's session and gives the answer to its `initialize`.
    pub(super) async fn open(
        &self,
        endpoint: &Endpoint,
        initialize: Bytes,
        id: &Id,
    ) -> Result<String, Error> {
        let mut current = self.0.lock().await;
        let (session, answer) = initialized(endpoint, initialize, id).await?;
        *current = session.map(Arc::new);
        Ok(answer)
    }

    /// Opens it again, once for all that found `lost` forgotten, and tells the client to list anew.
    pub(super) async fn reopen(
        &self,
        endpoint: &Endpoint,
        lost: &Arc<Session>,
        out: &mpsc::Sender<String>,
    ) -> Result<Arc<Session>, Error> {
        let mut current = self.0.lock().await;
        if let Some(session) = current.as_ref().filter(|session| !Arc::ptr_eq(session, lost)) {
            return Ok(Arc::clone(session));
        }
        let forgotten = || Error::SessionLost { url: endpoint.name() };
        let id = request_id(&lost.initialize).ok_or_else(forgotten)?;
        let (session, _) = initialized(endpoint, lost.initialize.clone(), &id).await?;
        let session = session.filter(|session| session.version == lost.version).map(Arc::new);
        let session = session.ok_or_else(forgotten)?;
        let body = envelope::notification("notifications/initialized", None);
        endpoint.post(session.headers(), body.into()).await?;
        *current = Some(Arc::clone(&session));
        send(out, envelope::notification(LIST_CHANGED, None)).await;
        Ok(session)
    }
}

fn request_id(message: &[u8]) -> Option<Id> {
    match envelope::parse(message) {
        Ok(Message::Request { id, .. }) => Some(id),
        _ => None,
    }
}

async fn initialized(
    endpoint: &Endpoint,
    initialize: Bytes,
    id: &Id,
) -> Result<(Option<Session>, String), Error> {
    let [newest, ..] = HANDSHAKE;
    let (headers, reply) = endpoint.post(header::session(None, newest), initialize.clone()).await?;
    let Reply::Json(body) = reply else { return Err(endpoint.broken("it is no answer to initialize")) };
    let text = String::from_utf8(body.into()).map_err(|_| endpoint.broken("it is not UTF-8"))?;
    let session = match envelope::parse_str(&text) {
        Ok(Message::Response { outcome: Ok(result), .. }) => {
            let version = envelope::members(result).and_then(|members| members.get("protocolVersion"));
            let version = version.and_then(envelope::text).unwrap_or_default().into();
            let session = headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(Into::into);
            Some(Session { id: session, version, initialize })
        }
        Ok(Message::Response { id: None, outcome: Err(error) }) => {
            return Ok((None, envelope::failure(Some(id), error.get())));
        }
        Ok(_) => None,
        Err(error) => return Err(endpoint.broken(&error.to_string())),
    };
    Ok((session, text))
}
