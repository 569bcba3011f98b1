//! Targets for a fuzzer: any bytes as a stream of events, any text as a header's value.

use std::panic::AssertUnwindSafe;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream;
use url::Url;

use super::answer::Events;
use super::client::Client;
use super::headers;
use crate::spec::{AddressRule, Limits, UrlSpec};

/// Bytes of one event that are taken.
const LIMIT: usize = 256;

/// The events' ids and data, and whether the stream ended well.
async fn read(client: &Client, pieces: Vec<Bytes>) -> (Vec<(Option<String>, Option<String>)>, bool) {
    let body = reqwest::Body::wrap_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>)));
    let mut events = Events::new(reqwest::Response::from(http::Response::new(body)), LIMIT);
    let mut all = Vec::new();
    loop {
        match events.next(client).await {
            Ok(Some(event)) => all.push((event.id, event.data)),
            Ok(None) => return (all, true),
            Err(_) => return (all, false),
        }
    }
}

#[test]
fn events_are_the_same_however_their_bytes_come() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let spec = UrlSpec {
        url: Url::parse("http://127.0.0.1:1/mcp").unwrap(),
        headers: crate::Headers::default(),
        addresses: AddressRule::default(),
        resolve: Vec::new(),
        extra_ca: Vec::new(),
        proxy: None,
        offers: crate::Offers::default(),
        opening: crate::spec::Opening::default(),
        limits: Limits::default(),
    };
    let client = AssertUnwindSafe(runtime.block_on(async { Client::new(spec).unwrap() }));
    bolero::check!().for_each(|bytes: &[u8]| {
        let pieces = |size| bytes.chunks(size).map(Bytes::copy_from_slice).collect();
        let one_by_one = runtime.block_on(read(&client, pieces(1)));
        for (_, data) in &one_by_one.0 {
            assert!(data.as_ref().is_none_or(|data| data.len() <= LIMIT), "an event over the limit");
        }
        if bytes.is_empty() {
            return;
        }
        let in_pieces = runtime.block_on(read(&client, pieces(7)));
        // Where one is refused the other is, though bytes that came together are counted together.
        if one_by_one.1 && in_pieces.1 {
            assert_eq!(one_by_one.0, in_pieces.0);
        }
        assert!(bytes.len() > LIMIT || one_by_one.1 == in_pieces.1, "short ones end alike");
    });
}

#[test]
fn any_text_comes_out_of_its_header_as_it_went_in() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let value = headers::encode(text);
        let value = value.to_str().expect("visible ASCII");
        let encoded = value.strip_prefix("=?base64?").and_then(|value| value.strip_suffix("?="));
        let decoded = encoded.map(|value| String::from_utf8(STANDARD.decode(value).unwrap()).unwrap());
        assert_eq!(decoded.as_deref().unwrap_or(value), text);
    });
}
