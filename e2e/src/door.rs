//! An HTTP or HTTPS server under a host name of its own, before a tool server or instead of one: it writes down each
//! request, and passes it on or answers as it is told to. What it writes down is the outside observer's proof of
//! who was asked anything.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Of one request; far above what tests send.
const BODY: usize = 16 << 20;
/// Headers that are of one hop, or made anew.
const OF_THE_HOP: [HeaderName; 4] =
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::HOST];

/// Where a server says what protects it.
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// What a door does with a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Passes it on to this URL's host, path and all.
    PassOn(String),
    /// The same for who shows this `authorization`; 401 for everybody else.
    PassOnFor(String, String),
    /// The same for who shows a token that this authorization server gave for it and has not taken back (RFC 7662);
    /// everybody else is told whom to ask (RFC 9728).
    Protected {
        /// Where it is passed on to.
        to: String,
        /// The authorization server.
        issuer: String,
        /// The URL that tokens are for.
        resource: String,
    },
    /// Answers with a status and a `Location`.
    Redirect(u16, String),
    /// Answers a GET with the event of 2024-11-05 that names where to post to.
    Place(String),
    /// Answers with a status and nothing else.
    Status(u16),
}

/// A running server; gone when it is dropped.
#[derive(Debug)]
pub struct Door {
    port: u16,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    answer: Mutex<Answer>,
    log: Mutex<Vec<Asked>>,
    http: reqwest::Client,
}

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// `POST` and so on.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The header `host`.
    pub host: String,
    /// The header `authorization`.
    pub authorization: Option<String>,
}

/// An authority that nobody trusts unless told to.
#[derive(Debug)]
pub struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    /// Its certificate.
    pub pem: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// None that is expected.
    pub fn new() -> Result<Self> {
        let key = rcgen::KeyPair::generate()?;
        let mut params = rcgen::CertificateParams::new(Vec::new())?;
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), issuer: rcgen::Issuer::new(params, key) })
    }

    fn acceptor(&self, host: &str) -> Result<TlsAcceptor> {
        let key = rcgen::KeyPair::generate()?;
        let certificate = rcgen::CertificateParams::new([host.to_owned()])?.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl Door {
    /// A door over plain HTTP on a free port of this machine.
    ///
    /// # Errors
    /// No port is free.
    pub async fn open(answer: Answer) -> Result<Self> {
        Self::open_at(SocketAddr::from(([127, 0, 0, 1], 0)), answer).await
    }

    /// The same at an address.
    ///
    /// # Errors
    /// It is not free.
    pub async fn open_at(address: SocketAddr, answer: Answer) -> Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let (port, shared) = (listener.local_addr()?.port(), Shared::new(answer)?);
        let router = router(&shared);
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.ok();
        });
        Ok(Self { port, shared, serving })
    }

    /// A door over HTTPS, with a certificate for `host`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn open_tls(authority: &Authority, host: &str, answer: Answer) -> Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let (port, shared) = (listener.local_addr()?.port(), Shared::new(answer)?);
        let (router, acceptor) = (router(&shared), authority.acceptor(host)?);
        let serving = tokio::spawn(async move {
            axum::serve(Tls { listener, acceptor }, router).await.ok();
        });
        Ok(Self { port, shared, serving })
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What it does from here on.
    pub fn answers(&self, answer: Answer) {
        *self.shared.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    /// All that it was asked, in order.
    pub fn log(&self) -> Vec<Asked> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn new(answer: Answer) -> Result<Arc<Self>> {
        let http =
            reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Arc::new(Self { answer: Mutex::new(answer), log: Mutex::default(), http }))
    }
}

fn router(shared: &Arc<Shared>) -> axum::Router {
    axum::Router::new().fallback(handle).with_state(Arc::clone(shared))
}

fn asked(request: &Request) -> Asked {
    let header = |name: HeaderName| {
        request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    Asked {
        method: request.method().to_string(),
        path: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
        host: header(header::HOST).unwrap_or_default(),
        authorization: header(header::AUTHORIZATION),
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let asked = asked(&request);
    let shown = asked.authorization.clone();
    shared.log.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    let answer = shared.answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match answer {
        Answer::Protected { to, issuer, resource } => {
            if request.uri().path().starts_with(METADATA) {
                return described(&issuer, &resource);
            }
            if !is_good(&shared, &issuer, shown.as_deref()).await {
                return challenged(&resource);
            }
            pass(&shared, &to, request).await.unwrap_or_else(|_| with_status(502))
        }
        Answer::PassOnFor(_, wanted) if shown.as_ref() != Some(&wanted) => with_status(401),
        Answer::PassOn(to) | Answer::PassOnFor(to, _) => {
            pass(&shared, &to, request).await.unwrap_or_else(|error| {
                let mut response = Response::new(Body::from(error.to_string()));
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            })
        }
        Answer::Redirect(status, location) => {
            let mut response = with_status(status);
            if let Ok(location) = HeaderValue::from_str(&location) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            response
        }
        Answer::Place(place) if request.method() == http::Method::GET => {
            let first = Bytes::from(format!("event: endpoint\ndata: {place}\n\n"));
            let events = futures::stream::once(async { Ok::<_, io::Error>(first) });
            // It stays open, as such a stream does.
            let events = futures::StreamExt::chain(events, futures::stream::pending());
            let mut response = Response::new(Body::from_stream(events));
            let kind = HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Answer::Place(_) => with_status(405),
        Answer::Status(status) => with_status(status),
    }
}

/// What the server says of itself.
fn described(issuer: &str, resource: &str) -> Response {
    let metadata = serde_json::json!({ "resource": resource, "authorization_servers": [issuer] });
    let mut response = Response::new(Body::from(metadata.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn challenged(resource: &str) -> Response {
    let mut response = with_status(401);
    let place = resource.split("/mcp").next().unwrap_or_default();
    let challenge = format!("Bearer resource_metadata=\"{place}{METADATA}\"");
    if let Ok(challenge) = HeaderValue::from_str(&challenge) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

async fn is_good(shared: &Shared, issuer: &str, authorization: Option<&str>) -> bool {
    let Some(token) = authorization.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
    let asked = shared
        .http
        .post(format!("{issuer}/token/introspection"))
        .basic_auth("pintle", Some("c1ient-s3cret"))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(format!("token={token}"));
    let Ok(answer) = asked.send().await else { return false };
    let said: serde_json::Value = answer.json().await.unwrap_or_default();
    said.get("active") == Some(&serde_json::Value::Bool(true))
}

fn with_status(status: u16) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

async fn pass(shared: &Shared, to: &str, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut headers = parts.headers;
    for name in OF_THE_HOP {
        headers.remove(name);
    }
    let url = format!("{}{path}", to.trim_end_matches('/'));
    let sent = shared.http.request(parts.method, url).headers(headers).body(to_bytes(body, BODY).await?);
    let answer = sent.send().await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    for name in OF_THE_HOP {
        response.headers_mut().remove(name);
    }
    *response.body_mut() = Body::from_stream(answer.bytes_stream());
    Ok(response)
}

/// Accepts over TLS.
struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else { continue };
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
