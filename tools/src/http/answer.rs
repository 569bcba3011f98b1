//! Reading what an endpoint answers: a JSON body or an event stream, both bounded.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::header;
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};
use url::Url;

use super::client::Client;
use crate::envelope::{self, Message};
use crate::error::{Error, RpcError};

/// Of an error's body; enough for a reason.
const ERROR_BODY: usize = 64 << 10;

/// What a good answer is made of.
pub(super) enum Form {
    Json,
    Events,
    /// Nothing, as a notification is answered.
    Nothing,
}

/// The status and the form, or why there is no answer.
pub(super) async fn form(response: Response, url: &Url) -> Result<(Form, Response), Error> {
    let status = response.status();
    if !status.is_success() {
        return Err(bad_status(response, url).await);
    }
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/json" => Ok((Form::Json, response)),
        "text/event-stream" => Ok((Form::Events, response)),
        _ if status.as_u16() == 202 || status.as_u16() == 204 || response.content_length() == Some(0) => {
            Ok((Form::Nothing, response))
        }
        "" => Err(Error::NotMcp { url: url.into(), content_type: "no content type".into() }),
        kind => Err(Error::NotMcp { url: url.into(), content_type: crate::show::line(kind, 100).into() }),
    }
}

async fn bad_status(response: Response, url: &Url) -> Error {
    let status = response.status().as_u16();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    if matches!(status, 401 | 403) {
        let challenge = header(header::WWW_AUTHENTICATE).map(|value| crate::show::line(value, 500).into());
        return Error::Unauthorized { url: url.into(), status, challenge };
    }
    let retry_after =
        header(header::RETRY_AFTER).and_then(|value| value.trim().parse().ok()).map(Duration::from_secs);
    let body = head(response, ERROR_BODY).await;
    let rpc = match envelope::parse(&body) {
        Ok(Message::Response { outcome: Err(error), .. }) => {
            Some(Box::new(RpcError { status: Some(status), ..RpcError::from_raw(error) }))
        }
        _ => None,
    };
    let mut text = String::from_utf8_lossy(&body).into_owned();
    if let Some(query) = url.query().filter(|query| !query.is_empty()) {
        // Some servers say what they were asked.
        text = text.replace(query, "…");
    }
    Error::Status { url: url.into(), status, body: crate::show::line(&text, 300).into(), retry_after, rpc }
}

/// The start of a body, as far as it comes.
async fn head(mut response: Response, most: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= most {
            body.truncate(most);
            break;
        }
    }
    body
}

/// The whole body.
pub(super) async fn body(mut response: Response, limit: usize, client: &Client) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    let announced = response.content_length().unwrap_or_default();
    if announced > limit as u64 {
        return Err(Error::TooLong { bytes: announced, limit });
    }
    while let Some(chunk) = response.chunk().await.map_err(|error| client.cut(&error.without_url()))? {
        if body.len() + chunk.len() > limit {
            return Err(Error::TooLong { bytes: (body.len() + chunk.len()) as u64, limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The events of a response.
pub(super) struct Events {
    stream: SseByteStream<Counted>,
    since_event: Arc<AtomicUsize>,
    limit: usize,
}

impl Events {
    pub(super) fn new(response: Response, limit: usize) -> Self {
        let since_event = Arc::new(AtomicUsize::new(0));
        let counted =
            Counted { bytes: response.bytes_stream().boxed(), since_event: Arc::clone(&since_event), limit };
        Self { stream: SseByteStream::new(counted), since_event, limit }
    }

    /// The next event; `None` at the end. One cut off by the end counts for nothing.
    pub(super) async fn next(&mut self, client: &Client) -> Result<Option<Sse>, Error> {
        let event = self.stream.next().await;
        let bytes = self.since_event.swap(0, Ordering::Relaxed);
        match event {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(_)) if bytes > self.limit => {
                Err(Error::TooLong { bytes: bytes as u64, limit: self.limit })
            }
            Some(Err(sse_stream::Error::Utf8Parse(error))) => {
                Err(Error::Unreadable(envelope::Error::NotUtf8 { at: error.valid_up_to() }))
            }
            Some(Err(error)) => Err(client.cut(&error)),
        }
    }
}

/// Bytes of a body, counted since the last event that was made of them.
struct Counted {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    since_event: Arc<AtomicUsize>,
    limit: usize,
}

impl Stream for Counted {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.bytes.as_mut().poll_next(cx).map(|item| {
            let chunk = match item? {
                Ok(chunk) => chunk,
                Err(error) => return Some(Err(io::Error::other(error.without_url()))),
            };
            let bytes = self.since_event.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
            if bytes > self.limit { Some(Err(io::Error::other("over the limit"))) } else { Some(Ok(chunk)) }
        })
    }
}
