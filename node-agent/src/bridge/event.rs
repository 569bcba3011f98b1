//! Events of an HTTP answer, each a message.

use std::pin::Pin;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use reqwest::Response;
use sse_stream::SseByteStream;

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>;

/// The events of one answer.
pub(super) struct Events {
    events: SseByteStream<Chunks>,
    limit: usize,
}

impl Events {
    pub(super) fn new(response: Response, limit: usize) -> Self {
        let chunks: Chunks = Box::pin(response.bytes_stream());
        Self { events: SseByteStream::new(chunks), limit }
    }

    /// The next message; `None` when the stream ended, in whatever way, or one is over the limit.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            let event = self.events.next().await?.ok()?;
            match event.data {
                Some(data) if data.len() > self.limit => return None,
                Some(data) if !data.is_empty() => return Some(data),
                _ => {}
            }
        }
    }
}
