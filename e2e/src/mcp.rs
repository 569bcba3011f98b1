//! A bare MCP client of a node's endpoint, in the stateless era: one POST, one answer.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// One node's endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Such as `http://127.0.0.1:7410/mcp`.
    pub url: String,
    /// The bearer token.
    pub token: String,
    http: reqwest::Client,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The text of its first content block.
    pub text: String,
    /// The refusal's code, if it was refused.
    pub refusal: Option<String>,
    /// Whether the result is an error.
    pub is_error: bool,
}

impl Endpoint {
    /// An endpoint and its token.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(url: &str, token: &str) -> Result<Self> {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { url: url.to_owned(), token: token.to_owned(), http })
    }

    /// `HOST:PORT` of the URL.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches("/mcp")
    }

    /// Sends one request and gives its `result`.
    ///
    /// # Errors
    /// It cannot be reached, or answers with a JSON-RPC error.
    pub async fn request(&self, method: &str, name: Option<&str>, mut params: Value) -> Result<Value> {
        if let Some(params) = params.as_object_mut() {
            params.insert(
                "_meta".to_owned(),
                json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": {"name": "e2e", "version": "1"},
                }),
            );
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = self
            .http
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2026-07-28")
            .header("Mcp-Method", method)
            .json(&body);
        if let Some(name) = name {
            request = request.header("Mcp-Name", name);
        }
        let answer: Value = request.send().await?.json().await.context("failed to read the answer")?;
        answer.get("result").cloned().with_context(|| format!("failed to have {method} answered: {answer}"))
    }

    /// The tools that a model sees.
    ///
    /// # Errors
    /// As [`Endpoint::request`].
    pub async fn tools(&self) -> Result<Vec<Value>> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.request("tools/list", None, params).await?;
            tools.extend(page.get("tools").and_then(Value::as_array).cloned().unwrap_or_default());
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(tools),
            }
        }
    }

    /// The names of those.
    ///
    /// # Errors
    /// As [`Endpoint::request`].
    pub async fn names(&self) -> Result<Vec<String>> {
        let name = |tool: &Value| tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(self.tools().await?.iter().map(name).collect())
    }

    /// Calls a function.
    ///
    /// # Errors
    /// As [`Endpoint::request`]; a refusal is no error.
    pub async fn call(&self, function: &str, arguments: Value) -> Result<Outcome> {
        let params = json!({"name": function, "arguments": arguments});
        let result = self.request("tools/call", Some(function), params).await?;
        let text = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default().to_owned();
        let meta = result.get("_meta").and_then(|meta| meta.get("dev.pintle/refusal"));
        let refusal =
            meta.and_then(|code| code.as_str().or_else(|| code.get("code")?.as_str())).map(str::to_owned);
        let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
        Ok(Outcome { text, refusal, is_error })
    }
}
