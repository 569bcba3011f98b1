//! One request on its way: posted, its messages passed on, its answer made sure of.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tools::envelope::{self, Id, Message};

use super::Error;
use super::endpoint::{Endpoint, Reply};

/// `Internal error`, for what went wrong between us and the node.
const INTERNAL: i64 = -32603;

/// How a request ended.
pub(super) enum Ended {
    /// Answered, or cancelled.
    Answered,
    /// The node does not know the session; nothing ran.
    SessionLost,
    /// The stream ended before its answer.
    BrokeOff,
}

/// Posts a request and passes on what comes back.
pub(super) async fn exchange(
    endpoint: &Endpoint,
    headers: HeaderMap,
    body: Bytes,
    id: &Id,
    out: &mpsc::Sender<String>,
) -> Result<Ended, Error> {
    let (_, reply) = endpoint.post(headers, body).await?;
    match reply {
        Reply::Nothing => Ok(Ended::Answered),
        Reply::SessionLost => Ok(Ended::SessionLost),
        Reply::Json(body) => {
            send(out, own_answer(endpoint, id, &body)?).await;
            Ok(Ended::Answered)
        }
        Reply::Events(mut events) => {
            while let Some(message) = events.next().await {
                let is_answer = answers(&message, id);
                send(out, message).await;
                if is_answer {
                    return Ok(Ended::Answered);
                }
            }
            Ok(Ended::BrokeOff)
        }
    }
}

/// The answer under the request's id: errors about the request as a whole come without one.
fn own_answer(endpoint: &Endpoint, id: &Id, body: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(body).map_err(|_| endpoint.broken("it is not UTF-8"))?;
    match envelope::parse_str(text) {
        Ok(Message::Response { id: None, outcome: Err(error) }) => {
            Ok(envelope::failure(Some(id), error.get()))
        }
        Ok(Message::Response { .. }) => Ok(text.to_owned()),
        Ok(_) => Err(endpoint.broken("it is no answer")),
        Err(error) => Err(endpoint.broken(&error.to_string())),
    }
}

/// Whether a message is the answer to that request.
pub(super) fn answers(message: &str, id: &Id) -> bool {
    matches!(envelope::parse_str(message), Ok(Message::Response { id: Some(answered), .. }) if answered == *id)
}

/// The code of an error answer.
pub(super) fn error_code(body: &[u8]) -> Option<i64> {
    match envelope::parse(body) {
        Ok(Message::Response { outcome: Err(error), .. }) => code(error),
        _ => None,
    }
}

fn code(error: &RawValue) -> Option<i64> {
    envelope::members(error)?.get("code")?.get().parse().ok()
}

/// The answer to a request that came to none.
pub(super) fn failure(id: &Id, error: &Error) -> String {
    let sentence = format!("failed to {}", crate::sentence(error));
    envelope::failure(Some(id), &envelope::error_object(INTERNAL, &domain::visible::make_visible(&sentence)))
}

/// Passes a message on; if nobody reads any more, the relay is ending.
pub(super) async fn send(out: &mpsc::Sender<String>, message: String) {
    let _ = out.send(message).await;
}
