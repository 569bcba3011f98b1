//! The stream that announcements come on: a GET in the handshake era, where questions of no call come too, a
//! subscription in the modern one.
//!
//! An endpoint without one is fine; its list is read by timer then.

use std::sync::Arc;
use std::time::Duration;

use super::answer::{self, Events, Form};
use super::client::Outgoing;
use super::resume::Place;
use super::session::{Doubt, Session};
use super::{Core, headers};
use crate::error::Error;
use crate::tool::ToolEvent;
use crate::wire::{self, Ask, Era};

/// Between two tries, doubled up to the second: an endpoint that hangs up at once is not flooded.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// How a stream ended.
enum End {
    /// There is none, or none any more.
    Never,
    /// It was open for a while.
    Later,
    /// Not reached this time.
    Failed,
}

/// Keeps the stream open until the tool is stopped.
pub(super) async fn listen(core: Arc<Core>) {
    let mut pause = PAUSES.0;
    let mut place = Place::default();
    let mut listened_in = core.sessions().present();
    loop {
        let session = core.sessions().present();
        if !Arc::ptr_eq(&session, &listened_in) {
            place = Place::default();
            listened_in = Arc::clone(&session);
        }
        let end = match session.peer.era {
            Era::Modern => subscription(&core, &session).await,
            Era::Handshake => stream(&core, &session, &mut place).await,
        };
        match end {
            End::Never => return,
            End::Later => pause = PAUSES.0,
            End::Failed => pause = (pause * 2).min(PAUSES.1),
        }
        tokio::time::sleep(place.retry().unwrap_or_default().max(pause)).await;
    }
}

async fn subscription(core: &Arc<Core>, session: &Session) -> End {
    let ask = Ask::new(core.next_id(), "subscriptions/listen", wire::listen_params(), None);
    let opened = core.streams_opened();
    let outcome = core.exchange(&ask, session, &Arc::default()).await.map_err(Error::from);
    match outcome {
        Err(Error::Rpc(_) | Error::Status { status: 400..=499, .. } | Error::NotMcp { .. }) => End::Never,
        _ if core.streams_opened() > opened => End::Later,
        _ => End::Failed,
    }
}

async fn stream(core: &Arc<Core>, session: &Session, place: &mut Place) -> End {
    let mut headers = headers::of_stream();
    headers::add_era(&mut headers, &session.peer, session.id.as_ref());
    place.add_to(&mut headers);
    let Ok(response) = core.client.send(&Outgoing::get(headers)).await else { return End::Failed };
    let response = match answer::form(response, &core.client.url).await {
        Ok((Form::Events, response)) => response,
        Err(error) => {
            let was_open = core.streams_opened() > 0;
            if was_open && Core::session_doubt(session, &error) == Doubt::Lost {
                core.sessions().renew(core, session).await.ok();
                return End::Failed;
            }
            let gone = !was_open || matches!(error, Error::Unauthorized { .. });
            return if gone { End::Never } else { End::Failed };
        }
        Ok(_) => return End::Never,
    };
    core.stream_opened(session.peer.list_changed);
    let mut events = Events::new(response, core.limits.message_bytes);
    while let Ok(Some(event)) = events.next(&core.client).await {
        place.note(&event);
        if let Some(data) = &event.data {
            core.handle(data, None);
        }
    }
    End::Later
}

impl Core {
    /// The stream is open. From the second time on something may have been missed of what a server announces.
    pub(super) fn stream_opened(&self, announces: bool) {
        if self.own.opened.fetch_add(1, std::sync::atomic::Ordering::AcqRel) > 0 && announces {
            self.emit(ToolEvent::Reconnected);
        }
    }
}
