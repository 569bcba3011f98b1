//! What stands before a node for clients that know neither its token nor that it names functions by their
//! tools: it adds the token, shows one tool's functions alone and without `TOOL__`, and puts that before the
//! names in calls. All else passes as it comes: hosts, origins, status, streams, other bytes of bodies.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::mcp::Endpoint;

/// Of one request or list; far above what tests send.
const BODY: usize = 16 << 20;
/// Headers that are of one hop, or made anew.
const OF_THE_HOP: [HeaderName; 3] = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION];

/// A front of one tool of one node; gone when it is dropped.
#[derive(Debug)]
pub struct Front {
    /// Such as `http://127.0.0.1:40123/mcp`.
    pub url: String,
    serving: JoinHandle<()>,
}

struct Behind {
    endpoint: Endpoint,
    prefix: String,
    http: reqwest::Client,
}

impl Front {
    /// Puts a front before a node that shows the functions of that tool without its name.
    ///
    /// # Errors
    /// No port is free.
    pub async fn of(endpoint: &Endpoint, tool: &str) -> Result<Self> {
        let http =
            reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?;
        let behind = Behind { endpoint: endpoint.clone(), prefix: format!("{tool}__"), http };
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let router = axum::Router::new().fallback(pass).with_state(Arc::new(behind));
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.ok();
        });
        Ok(Self { url, serving })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn pass(State(behind): State<Arc<Behind>>, request: Request) -> Response {
    match behind.carry(request).await {
        Ok(response) => response,
        Err(error) => {
            let mut response = Response::new(Body::from(format!("{error:#}")));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    }
}

impl Behind {
    async fn carry(&self, request: Request) -> Result<Response> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, BODY).await.context("failed to read the request")?;
        let mut headers = parts.headers;
        let (body, method) = self.named(body, &mut headers);
        for name in OF_THE_HOP {
            headers.remove(name);
        }
        let token = HeaderValue::try_from(format!("Bearer {}", self.endpoint.token))?;
        headers.insert(header::AUTHORIZATION, token);
        let outgoing = self.http.request(parts.method, &self.endpoint.url).headers(headers).body(body);
        let incoming = outgoing.send().await.context("failed to reach the node")?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = incoming.status();
        *response.headers_mut() = incoming.headers().clone();
        for name in OF_THE_HOP {
            response.headers_mut().remove(name);
        }
        *response.body_mut() = if method.as_deref() == Some("tools/list") {
            Body::from(self.own(&incoming.text().await?))
        } else {
            Body::from_stream(incoming.bytes_stream())
        };
        Ok(response)
    }

    /// A list without the functions of other tools, and without this one's name.
    fn own(&self, text: &str) -> String {
        let Ok(mut list) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
        if let Some(Value::Array(tools)) = list.pointer_mut("/result/tools") {
            tools.retain_mut(|tool| {
                let name =
                    tool.get("name").and_then(Value::as_str).and_then(|name| name.strip_prefix(&self.prefix));
                let Some(name) = name.map(Value::from) else { return false };
                tool.as_object_mut().is_some_and(|tool| tool.insert("name".to_owned(), name).is_some())
            });
        }
        list.to_string()
    }

    /// The body with the node's name of the function that it calls, and its method.
    fn named(&self, body: Bytes, headers: &mut HeaderMap) -> (Bytes, Option<String>) {
        let Ok(message) = serde_json::from_slice::<Value>(&body) else { return (body, None) };
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        if method.as_deref() != Some("tools/call") {
            return (body, method);
        }
        if let Some(name) = headers.get("mcp-name").and_then(|name| name.to_str().ok()) {
            let name = HeaderValue::try_from(format!("{}{name}", self.prefix));
            if let Ok(name) = name {
                headers.insert("mcp-name", name);
            }
        }
        let Some(name) = message.pointer("/params/name").and_then(Value::as_str) else {
            return (body, method);
        };
        let text = String::from_utf8_lossy(&body);
        let (before, after) = (Value::from(name), Value::from(format!("{}{name}", self.prefix)));
        // The first in `params`: a name in `_meta` or the arguments comes later, or has other text.
        let at = text.find(r#""params""#).unwrap_or(0);
        let (head, params) = text.split_at(at);
        let params = params.replacen(&format!(r#""name":{before}"#), &format!(r#""name":{after}"#), 1);
        (Bytes::from(format!("{head}{params}")), method)
    }
}
