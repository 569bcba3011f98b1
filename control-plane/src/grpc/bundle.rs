//! `GET /bundles/ARCHIVE_SHA256` on the node port: an archive, whole or from where a download broke
//! off, to nodes whose edge's plan names it.

use std::io::SeekFrom;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path};
use axum::response::Response;
use domain::digest::Digest;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use super::Context;
use super::door::Peer;
use crate::operation::find_bundle::bundle_for;
use crate::server::Chain;

/// Bytes read at once: few enough that many downloads fit into memory.
const CHUNK: usize = 64 * 1024;

pub(super) fn route(context: Arc<Context>) -> axum::Router {
    axum::Router::new().route("/bundles/{archive}", axum::routing::get(get)).layer(Extension(context))
}

async fn get(
    Extension(context): Extension<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    Path(archive): Path<String>,
    headers: HeaderMap,
) -> Response {
    let (Some(node), Ok(digest)) = (peer.node, Digest::parse(&archive)) else {
        return empty(StatusCode::NOT_FOUND);
    };
    let asks = (&node.identity.node, &node.key);
    let found = bundle_for((&context.store, &context.blobs), asks, &digest).await;
    let path = match found {
        Ok(Some(path)) => path,
        // Whether there is such an archive is nobody's business whose plan does not name it.
        Ok(None) => return empty(StatusCode::NOT_FOUND),
        Err(error) => {
            tracing::error!(error = %Chain(&error), "a bundle could not be looked up");
            return empty(StatusCode::SERVICE_UNAVAILABLE);
        }
    };
    match send(&path, &digest, headers.get(header::RANGE)).await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!(%error, bundle.path = %path.display(), "a bundle could not be read");
            empty(StatusCode::SERVICE_UNAVAILABLE)
        }
    }
}

async fn send(
    path: &std::path::Path,
    digest: &Digest,
    range: Option<&HeaderValue>,
) -> std::io::Result<Response> {
    let mut file = File::open(path).await?;
    let length = file.metadata().await?.len();
    let wanted = match range.and_then(|range| range.to_str().ok()) {
        None => Wanted::All,
        Some(range) => wanted(range, length),
    };
    let (first, count, status) = match wanted {
        Wanted::All => (0, length, StatusCode::OK),
        Wanted::Part { first, last } => (first, last - first + 1, StatusCode::PARTIAL_CONTENT),
        Wanted::Nothing => {
            let mut response = empty(StatusCode::RANGE_NOT_SATISFIABLE);
            response.headers_mut().insert(header::CONTENT_RANGE, text(&format!("bytes */{length}")));
            return Ok(response);
        }
    };
    file.seek(SeekFrom::Start(first)).await?;
    let mut response = Response::new(Body::from_stream(ReaderStream::with_capacity(file.take(count), CHUNK)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, count.into());
    headers.insert(header::ETAG, text(&format!("\"{digest}\"")));
    if status == StatusCode::PARTIAL_CONTENT {
        let last = first + count - 1;
        headers.insert(header::CONTENT_RANGE, text(&format!("bytes {first}-{last}/{length}")));
    }
    Ok(response)
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Part { first: u64, last: u64 },
    Nothing,
}

/// One range of bytes (RFC 9110, 14.1.2); several, or another unit, are answered with everything.
fn wanted(range: &str, length: u64) -> Wanted {
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|spec| spec.split_once('-')) else {
        return Wanted::All;
    };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (first.trim(), last.trim()) {
        ("", "") => Wanted::All,
        ("", suffix) => match number(suffix) {
            Some(0) => Wanted::Nothing,
            Some(_) if length == 0 => Wanted::Nothing,
            Some(count) => Wanted::Part { first: length.saturating_sub(count), last: length - 1 },
            None => Wanted::All,
        },
        (first, last) => {
            let most = length.saturating_sub(1);
            let last = if last.is_empty() { Some(most) } else { number(last) };
            match (number(first), last) {
                (Some(first), Some(last)) if first <= last && first < length => {
                    Wanted::Part { first, last: last.min(most) }
                }
                (Some(first), Some(last)) if first > last && last != most => Wanted::All,
                (Some(_), Some(_)) => Wanted::Nothing,
                _ => Wanted::All,
            }
        }
    }
}

fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_http_means_them() {
        let part = |first, last| Wanted::Part { first, last };
        let rows = [
            ("bytes=0-", part(0, 9)),
            ("bytes=4-", part(4, 9)),
            ("bytes=4-6", part(4, 6)),
            ("bytes=4-99", part(4, 9)),
            ("bytes=-3", part(7, 9)),
            ("bytes=-99", part(0, 9)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=6-4", Wanted::All),
            ("bytes=a-b", Wanted::All),
            ("bytes=0-1,4-5", Wanted::All),
            ("bytes=-", Wanted::All),
            ("lines=0-1", Wanted::All),
        ];
        for (range, expected) in rows {
            assert_eq!(wanted(range, 10), expected, "{range}");
        }
        assert_eq!(wanted("bytes=0-", 0), Wanted::Nothing);
    }
}
