//! The HTTP client to the control plane's API: requests in, values or a [`Failure`] out.
//!
//! Problem details (RFC 9457) become one sentence and its remedy here and nowhere else.

use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::shown;

/// For an answer to anything but an upload: approvals and lists take milliseconds.
const ANSWER: Duration = Duration::from_secs(30);

/// To connect: a machine that is there answers within this even far away.
const CONNECT: Duration = Duration::from_secs(5);

/// Pages of one list: a server that goes on for ever is not believed.
const MOST_PAGES: usize = 10_000;

/// Bytes of an answer: a page of listings at their frozen limits is the largest.
const MOST_BYTES: usize = 256 << 20;

/// Speaks to one control plane with one token.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl Client {
    /// For the control plane at `base` (`http://HOST:PORT`).
    ///
    /// # Errors
    /// `base` is no URL with a scheme and a host.
    pub(crate) fn new(base: &str, token: String) -> Result<Self, Failure> {
        let wrong = |what: &str| {
            Failure::usage(format!("`{}` is no address of a control plane: {what}", shown::cut(base, 200)))
                .remedy("write it as http://HOST:PORT")
        };
        let url = url::Url::parse(base).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("it has no http or https scheme"));
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("pintle/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Failure::failed(format!("failed to make an HTTP client: {}", chain(&error))))?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), token })
    }

    /// Where the control plane is.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// `GET path`, which begins with `/`.
    ///
    /// # Errors
    /// Unreachable, refused or another problem, in words.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.send(self.request(Method::GET, path)).await
    }

    /// All items of a list, page by page.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Failure> {
        let join = if path.contains('?') { '&' } else { '?' };
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let at = match &cursor {
                Some(cursor) => format!("{path}{join}cursor={}", escape(cursor)),
                None => path.to_owned(),
            };
            let page: Page<T> = self.get(&at).await?;
            items.extend(page.items);
            match page.next {
                Some(next) if Some(&next) != cursor.as_ref() => cursor = Some(next),
                _ => return Ok(items),
            }
        }
        Err(Failure::failed(format!("the list at {path} has more than {MOST_PAGES} pages")))
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// `PUT path` with a JSON body.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send(self.request(Method::PUT, path).json(body)).await
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Uploads `length` bytes of a bundle whose SHA-256 is `sha256`. No deadline: the connection's own
    /// end tells when it is over.
    ///
    /// # Errors
    /// As [`Client::get`]; a server that goes away in the middle is said to have done so.
    pub(crate) async fn upload<S>(
        &self,
        path: &str,
        sha256: &str,
        length: u64,
        body: S,
    ) -> Result<Value, Failure>
    where
        S: Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    {
        let url = format!("{}/api/v1{path}", self.base);
        let request = self
            .http
            .post(url)
            .bearer_auth(&self.token)
            .header("content-type", "application/octet-stream")
            .header("content-length", length)
            .header("pintle-archive-sha256", sha256)
            .body(reqwest::Body::wrap_stream(body));
        self.send(request).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}/api/v1{path}", self.base))
            .bearer_auth(&self.token)
            .timeout(ANSWER)
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if response.content_length().is_some_and(|length| length > MOST_BYTES as u64) {
            return Err(Failure::failed(format!("the answer of {} is over {MOST_BYTES} bytes", self.base)));
        }
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        if !status.is_success() {
            return Err(self.problem(status, &body));
        }
        // No content reads as null, which `()` and `Value` take.
        let body: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(body).map_err(|error| {
            Failure::failed(format!(
                "the answer of {} is not what this version of pintle reads: {error}",
                self.base
            ))
            .remedy("use the `pintle` that was built with the control plane (pintle --version)")
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let what = if error.is_timeout() {
            format!("the control plane at {} did not answer in time", self.base)
        } else if error.is_connect() {
            format!("no control plane answers at {}: {}", self.base, chain(error))
        } else {
            format!(
                "the control plane at {} went away in the middle of the request: {}",
                self.base,
                chain(error)
            )
        };
        Failure::new(Exit::Unreachable, what)
            .remedy("start one with `pintle up`, or name another with --server URL")
    }

    fn problem(&self, status: StatusCode, body: &[u8]) -> Failure {
        let exit = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Exit::Refused,
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Exit::Unreachable
            }
            _ => Exit::Failed,
        };
        let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
            return Failure::new(exit, format!("{} answered {status}, without saying why", self.base))
                .remedy("check that --server names a Pintle control plane");
        };
        let sentence =
            problem.detail.or(problem.title).unwrap_or_else(|| format!("{} answered {status}", self.base));
        let remedy = problem.remedy.or_else(|| {
            (status == StatusCode::UNAUTHORIZED).then(|| {
                "name the file that holds your token with --token-file FILE, or set PINTLE_TOKEN".to_owned()
            })
        });
        Failure { exit, sentence, remedy, code: problem.code, request_id: problem.request_id }
    }
}

/// A part of a URL's path or query, escaped.
pub(crate) fn escape(part: &str) -> String {
    url::form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>().replace('+', "%20")
}

/// An error with its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut at = error.source().unwrap_or(error);
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}

#[derive(serde::Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
}

#[derive(serde::Deserialize)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
    code: Option<String>,
    remedy: Option<String>,
    request_id: Option<String>,
}
