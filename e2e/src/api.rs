//! The HTTP API at one address, for tasks that use it while the fleet is being killed and started.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use reqwest::Method;
use serde_json::Value;

/// The longest that one request is waited for: what a database that is away costs, and some more.
const REQUEST: Duration = Duration::from_secs(30);

/// One server's API, with a token.
#[derive(Clone, Debug)]
pub struct Api {
    people: String,
    token: String,
    http: reqwest::Client,
}

/// Status and body.
pub type Answer = (u16, Value);

impl Api {
    /// The API at `http://HOST:PORT`.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(people: &str, token: &str) -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().timeout(REQUEST).build()?;
        Ok(Self { people: people.to_owned(), token: token.to_owned(), http })
    }

    /// Reads.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let request = self.http.request(Method::GET, self.url(path));
        let (status, value) = self.send(request).await?;
        if status != 200 {
            bail!("GET {path}: {status} {value}");
        }
        Ok(value)
    }

    /// Posts JSON.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(self.http.request(Method::POST, self.url(path)).json(body)).await
    }

    /// Puts JSON.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(self.http.request(Method::PUT, self.url(path)).json(body)).await
    }

    /// Pushes a packed version.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn push(&self, bundle: Vec<u8>) -> Result<Answer> {
        self.send(self.http.request(Method::POST, self.url("/plugins/versions")).body(bundle)).await
    }

    /// Every item of a list.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let page = self.get(path).await?;
        page.get("items").and_then(Value::as_array).cloned().with_context(|| format!("failed to read {page}"))
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.people)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer> {
        let response = request.bearer_auth(&self.token).send().await?;
        let status = response.status().as_u16();
        let text = response.text().await?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }
}
