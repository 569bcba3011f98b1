//! The endpoint over HTTP: one request, one reply; waits for a node that is starting.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use tokio::time::Instant;

use super::Error;
use super::event::Events;
use crate::gateway::protocol::BRIDGE_HEADER;

/// For a connection: the node is on this machine, or near.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// For a node that does not listen: as long as one takes to start again.
const START_WAIT: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of one answer: twice what a tool may answer, since it is quoted and marked on its way.
const ANSWER_BYTES: usize = 32 << 20;

/// A node's MCP endpoint and the token for it.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    url: Url,
    authorization: HeaderValue,
    client: Client,
}

/// What came back.
pub(super) enum Reply {
    /// 202 or 204: nothing to say.
    Nothing,
    /// A JSON body.
    Json(Bytes),
    /// Events to come.
    Events(Events),
    /// 404 without a method's error: the session is not known.
    SessionLost,
}

impl Endpoint {
    /// Uses the endpoint at `url`, such as `http://127.0.0.1:7410/mcp`.
    ///
    /// # Errors
    /// The URL is none, or the process has no TLS provider.
    pub(super) fn new(url: &str, token: &str) -> Result<Self, Error> {
        let settings = |reason: &dyn std::fmt::Display| Error::Settings {
            url: url.into(),
            reason: reason.to_string().into(),
        };
        let parsed = Url::parse(url).map_err(|error| settings(&error))?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| settings(&"the token has characters that no header may have"))?;
        authorization.set_sensitive(true);
        // Redirects and proxies would carry the token elsewhere.
        let client = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_WAIT)
            .build()
            .map_err(|error| settings(&error))?;
        Ok(Self { url: parsed, authorization, client })
    }

    /// The URL, for messages.
    pub(super) fn name(&self) -> Box<str> {
        self.url.as_str().into()
    }

    pub(super) fn broken(&self, reason: &str) -> Error {
        Error::Answer { url: self.name(), reason: reason.into() }
    }

    /// Posts a message.
    ///
    /// # Errors
    /// Nobody listens for [`START_WAIT`], the token is wrong, or the answer is none.
    pub(super) async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<(HeaderMap, Reply), Error> {
        self.ask(Method::POST, headers, body).await
    }

    /// Opens the stream of a session.
    pub(super) async fn get(&self, headers: HeaderMap) -> Result<Reply, Error> {
        Ok(self.ask(Method::GET, headers, Bytes::new()).await?.1)
    }

    /// Ends a session.
    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<(), Error> {
        self.send(&Method::DELETE, &headers, &Bytes::new())
            .await
            .map(drop)
            .map_err(|source| self.unreachable(source))
    }

    async fn ask(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(HeaderMap, Reply), Error> {
        let end = Instant::now() + START_WAIT;
        let response = loop {
            match self.send(&method, &headers, &body).await {
                Ok(response) => break response,
                // Nothing was sent, so that it may be tried again.
                Err(error) if error.is_connect() && Instant::now() < end => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(self.unreachable(error)),
            }
        };
        let headers = response.headers().clone();
        Ok((headers, self.reply(response).await?))
    }

    fn unreachable(&self, source: reqwest::Error) -> Error {
        Error::Unreachable { url: self.name(), source: source.without_url() }
    }

    async fn send(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Response, reqwest::Error> {
        let accept =
            if method == Method::GET { "text/event-stream" } else { "application/json, text/event-stream" };
        self.client
            .request(method.clone(), self.url.clone())
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::ACCEPT, accept)
            .header(header::CONTENT_TYPE, "application/json")
            .header(BRIDGE_HEADER, "1")
            .headers(headers.clone())
            .body(body.clone())
            .send()
            .await
    }

    async fn reply(&self, response: Response) -> Result<Reply, Error> {
        let status = response.status();
        let kind = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        if status == StatusCode::UNAUTHORIZED {
            return Err(Error::Token { url: self.name() });
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(Reply::Nothing);
        }
        if status.is_success() && kind.starts_with("text/event-stream") {
            return Ok(Reply::Events(Events::new(response, ANSWER_BYTES)));
        }
        if !kind.starts_with("application/json") {
            return Err(Error::Status { url: self.name(), status: status.as_u16() });
        }
        let body = self.body(response).await?;
        // An unknown method is a 404 too, but of the era without sessions, and with its own error.
        let is_method = || matches!(super::request::error_code(&body), Some(-32601));
        if status == StatusCode::NOT_FOUND && !is_method() {
            return Ok(Reply::SessionLost);
        }
        Ok(Reply::Json(body))
    }

    async fn body(&self, mut response: Response) -> Result<Bytes, Error> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|_| self.broken("it broke off"))? {
            if body.len() + chunk.len() > ANSWER_BYTES {
                return Err(self.broken(&format!("it is over the limit of {ANSWER_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }
}
