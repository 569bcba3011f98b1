//! One HTTP request to the endpoint: the gate, redirects within the origin, the address guard.
//!
//! Proxy settings of the environment are ignored: the guard judges what is connected to. Behind the proxy of
//! the node's own setting only the proxy knows that.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use domain::origin::{
    AddressClass, MAX_REDIRECTS, Method, Origin, Redirect, ShownUrl, class_of_host, redirect,
};
use http::{HeaderMap, HeaderValue, header};
use reqwest::{Body, Response};
use url::Url;

use super::address::{Guard, Refused, Resolver};
use crate::error::Error;
use crate::spec::{EgressProxy, Headers, UrlSpec};
use crate::start::StartError;
use crate::wire::{Gate, Unanswered};

/// For TCP and TLS; a host that is there answers within it.
const CONNECT: Duration = Duration::from_secs(10);
/// Finds half-open connections of streams that say nothing for days.
const KEEPALIVE: Duration = Duration::from_mins(1);

pub(super) struct Client {
    http: reqwest::Client,
    pub(super) url: Url,
    origin: Box<str>,
    headers: Headers,
    guard: Arc<Guard>,
    connected_to: Mutex<Option<SocketAddr>>,
    /// Whether a proxy makes the connections.
    is_proxied: bool,
}

/// What is sent.
pub(super) struct Outgoing {
    /// `None` is a DELETE, which never follows a redirect.
    pub(super) method: Option<Method>,
    /// Where to, if not to the endpoint's URL; of the same origin.
    pub(super) to: Option<Url>,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) gate: Option<Gate>,
    /// Set when the body, if any, is on its way.
    pub(super) begun: Arc<AtomicBool>,
}

impl Outgoing {
    pub(super) fn post(headers: HeaderMap, body: String) -> Self {
        let body = Some(Bytes::from(body));
        Self { method: Some(Method::Post), to: None, headers, body, gate: None, begun: Arc::default() }
    }

    pub(super) fn get(headers: HeaderMap) -> Self {
        Self { method: Some(Method::Get), to: None, headers, body: None, gate: None, begun: Arc::default() }
    }
}

impl Client {
    pub(super) fn new(spec: UrlSpec) -> Result<Self, StartError> {
        let settings = |reason: String| StartError::Settings(reason.into());
        let origin = Origin::of(&spec.url)
            .ok_or_else(|| settings(format!("`{}` is no http or https URL", ShownUrl::from(&spec.url))))?
            .to_string()
            .into();
        let proxy = spec.proxy.filter(|_| !is_here(&spec.url));
        let is_proxied = proxy.is_some();
        let guard = Arc::new(Guard::new(spec.addresses, spec.resolve, &spec.url, is_proxied));
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .tcp_nodelay(true)
            .tcp_keepalive(KEEPALIVE)
            .connect_timeout(CONNECT)
            .user_agent(concat!("pintle/", env!("CARGO_PKG_VERSION")));
        builder = match proxy {
            None => builder.dns_resolver(Resolver(Arc::clone(&guard))),
            Some(proxy) => builder.proxy(through(&proxy).map_err(|error| settings(deepest(&error)))?),
        };
        if !spec.extra_ca.is_empty() {
            let certificates: Result<Vec<_>, _> =
                spec.extra_ca.iter().map(|pem| reqwest::Certificate::from_pem(pem)).collect();
            let certificates = certificates.map_err(|error| settings(format!("an extra CA: {error}")))?;
            builder = builder.tls_certs_merge(certificates);
        }
        let http = builder.build().map_err(|error| settings(deepest(&error)))?;
        let headers = spec.headers;
        Ok(Self { http, url: spec.url, origin, headers, guard, connected_to: Mutex::new(None), is_proxied })
    }

    /// The endpoint's URL as errors and logs name it.
    pub(super) fn shown(&self) -> ShownUrl {
        ShownUrl::from(&self.url)
    }

    pub(super) fn connected_to(&self) -> Option<SocketAddr> {
        *self.connected_to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends, and follows redirects within the origin; the gate is asked on each leg.
    pub(super) async fn send(&self, outgoing: &Outgoing) -> Result<Response, Unanswered> {
        let mut url = outgoing.to.as_ref().unwrap_or(&self.url).clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.leg(&url, outgoing).await?;
            let status = response.status().as_u16();
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            let next = match outgoing.method {
                Some(method) => redirect(method, &url, status, location),
                None => Redirect::NotARedirect,
            };
            match next {
                Redirect::NotARedirect => return Ok(response),
                Redirect::Follow(to) => url = to,
                Redirect::Refuse(fault) => return Err(Error::Redirected(Box::new(fault)).into()),
            }
        }
        Err(Error::TooManyRedirects { from: self.shown(), to: ShownUrl::from(&url) }.into())
    }

    async fn leg(&self, url: &Url, outgoing: &Outgoing) -> Result<Response, Unanswered> {
        self.guard.judge_url(url)?;
        // A refusal that stands already costs no connection.
        if outgoing.gate.as_ref().is_some_and(|gate| !gate()) {
            return Err(Unanswered::Refused);
        }
        let method = match outgoing.method {
            Some(Method::Get) => reqwest::Method::GET,
            Some(Method::Post) => reqwest::Method::POST,
            None => reqwest::Method::DELETE,
        };
        let refused = Arc::new(AtomicBool::new(false));
        let mut request = self
            .http
            .request(method, url.clone())
            .headers(self.headers.now())
            .headers(outgoing.headers.clone());
        if let Some(body) = &outgoing.body {
            request = request.header(header::CONTENT_LENGTH, HeaderValue::from(body.len())).body(gated(
                body.clone(),
                outgoing,
                Arc::clone(&refused),
            ));
        }
        match request.send().await {
            Ok(response) => {
                // Behind a proxy it is the proxy's.
                let address = response.remote_addr().filter(|_| !self.is_proxied);
                *self.connected_to.lock().unwrap_or_else(PoisonError::into_inner) = address;
                Ok(response)
            }
            Err(_) if refused.load(Ordering::Acquire) => Err(Unanswered::Refused),
            Err(error) => Err(self.failure(&error.without_url(), outgoing).into()),
        }
    }

    fn failure(&self, error: &reqwest::Error, outgoing: &Outgoing) -> Error {
        if let Some(refusal) = refusal(error) {
            return refusal;
        }
        let sent = outgoing.begun.load(Ordering::Acquire) && !error.is_connect();
        let mut reason = deepest(error);
        // The client's word for a proxy that answers CONNECT with anything but 200.
        if self.is_proxied && reason.starts_with("tunnel error") {
            reason = format!("the egress proxy did not let it through ({reason})");
        }
        Error::Unreachable { origin: self.origin.clone(), reason: reason.into(), sent }
    }

    /// The error of a connection that was cut while an answer was read.
    pub(super) fn cut(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        Error::Unreachable { origin: self.origin.clone(), reason: deepest(error).into(), sent: true }
    }
}

/// Whether an endpoint is on this machine, by its own word. Those are reached directly.
fn is_here(url: &Url) -> bool {
    matches!(class_of_host(url), Ok(Some(AddressClass::Loopback)))
}

fn through(proxy: &EgressProxy) -> reqwest::Result<reqwest::Proxy> {
    let through = reqwest::Proxy::all(proxy.url.clone())?.no_proxy(None);
    Ok(match &proxy.credentials {
        Some((user, password)) => through.basic_auth(user, password),
        None => through,
    })
}

/// The body, which asks the gate when the connection is there and its bytes are wanted.
fn gated(body: Bytes, outgoing: &Outgoing, refused: Arc<AtomicBool>) -> Body {
    let (gate, begun) = (outgoing.gate.clone(), Arc::clone(&outgoing.begun));
    Body::wrap_stream(futures::stream::once(async move {
        if gate.is_some_and(|gate| !gate()) {
            refused.store(true, Ordering::Release);
            return Err(std::io::Error::other("refused at the moment of writing"));
        }
        begun.store(true, Ordering::Release);
        Ok(body)
    }))
}

fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(Refused(refusal)) = error.downcast_ref() {
            return Some(refusal.clone());
        }
        next = error.source();
    }
    None
}

/// The innermost reason, which is the one that says something; made visible.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    crate::show::line(&error.to_string(), 300)
}
