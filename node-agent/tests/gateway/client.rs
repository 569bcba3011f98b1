//! A client that says exactly what it is told to.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client as Http, Method, Response};
use serde_json::{Value, json};
use tokio::time::timeout;
use tools::envelope;

use crate::node::Served;

/// Nothing here takes as long.
pub const SOON: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct Client {
    http: Http,
    pub url: String,
    pub headers: HeaderMap,
}

pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The code of a JSON-RPC error.
    pub fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", self.text))
    }

    /// The code of a refusal.
    pub fn refusal(&self) -> String {
        let answer = self.json();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer["result"].get("structuredContent").is_none());
        answer["result"]["_meta"]["dev.pintle/refusal"].as_str().unwrap().to_owned()
    }

    /// The text of a result's only block.
    pub fn sentence(&self) -> String {
        self.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub fn new(served: &Served) -> Self {
        let mut headers = HeaderMap::new();
        set(&mut headers, "authorization", &format!("Bearer {}", served.token.reveal()));
        set(&mut headers, "content-type", "application/json");
        set(&mut headers, "accept", "application/json, text/event-stream");
        let http = Http::builder().no_proxy().build().unwrap();
        Self { http, url: served.url.clone(), headers }
    }

    /// With a header set, or taken away.
    pub fn with(&self, name: &str, value: Option<&str>) -> Self {
        let mut client = self.clone();
        client.headers.remove(name);
        if let Some(value) = value {
            set(&mut client.headers, name, value);
        }
        client
    }

    pub async fn open(&self, method: Method, body: impl Into<String>) -> Response {
        self.open_bytes(method, body.into().into_bytes()).await
    }

    pub async fn open_bytes(&self, method: Method, body: Vec<u8>) -> Response {
        let request = self.http.request(method, &self.url).headers(self.headers.clone()).body(body);
        timeout(SOON, request.send()).await.expect("an answer in time").expect("an answer")
    }

    pub async fn send(&self, method: Method, body: impl Into<String>) -> Answer {
        let response = self.open(method, body).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = timeout(SOON, response.text()).await.expect("a body in time").unwrap();
        Answer { status, headers, text }
    }

    pub async fn post(&self, body: impl Into<String>) -> Answer {
        self.send(Method::POST, body).await
    }

    /// A request of 2026-07-28 with everything that it needs; `params` is a JSON object's inside.
    pub fn modern(&self, id: &str, method: &str, params: &str) -> (Self, String) {
        let body = modern_body(id, method, params);
        let client = self.with("mcp-protocol-version", Some("2026-07-28")).with("mcp-method", Some(method));
        // Not read as a value: some of what is sent no reader of ours can hold.
        let name = match envelope::parse_str(&body).unwrap() {
            envelope::Message::Request { params, .. } => envelope::members(params.unwrap())
                .and_then(|params| params.get("name"))
                .and_then(envelope::text)
                .map(std::borrow::Cow::into_owned),
            _ => None,
        };
        (client.with("mcp-name", name.as_deref()), body)
    }

    pub async fn ask(&self, method: &str, params: &str) -> Answer {
        let (client, body) = self.modern("1", method, params);
        client.post(body).await
    }

    /// Calls a function with raw arguments.
    pub async fn call(&self, name: &str, arguments: &str) -> Answer {
        self.ask("tools/call", &format!(r#""name":"{name}","arguments":{arguments}"#)).await
    }

    /// Opens a session of a handshake revision.
    pub async fn handshake(&self, version: &str) -> Self {
        self.handshake_with(version, json!({})).await
    }

    /// Opens a session of a client that can be asked.
    pub async fn handshake_with(&self, version: &str, capabilities: Value) -> Self {
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params});
        let answer = self.post(body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.json()["result"]["protocolVersion"], version);
        let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let client = self.with("mcp-session-id", Some(&session)).with("mcp-protocol-version", Some(version));
        let accepted = client.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert_eq!((accepted.status, &*accepted.text), (202, ""));
        client
    }
}

pub fn modern_body(id: &str, method: &str, params: &str) -> String {
    let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
    let params = if params.contains(r#""_meta":{"#) {
        params.replace(r#""_meta":{"#, &format!(r#""_meta":{{{meta},"#))
    } else if params.is_empty() {
        format!(r#""_meta":{{{meta}}}"#)
    } else {
        format!(r#"{params},"_meta":{{{meta}}}"#)
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

fn set(headers: &mut HeaderMap, name: &str, value: &str) {
    let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
    headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
}

/// Events of an answer, message by message.
pub struct Events {
    response: Response,
    buffer: String,
}

impl Events {
    pub fn new(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { response, buffer: String::new() }
    }

    /// The data of the next event; `None` at the end.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(ToOwned::to_owned);
                self.buffer = rest.into();
                match data {
                    Some(data) => return Some(data),
                    None => continue,
                }
            }
            let chunk = timeout(SOON, self.response.chunk()).await.expect("an event in time").unwrap()?;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub async fn json(&mut self) -> Value {
        serde_json::from_str(&self.next().await.expect("an event")).unwrap()
    }
}
