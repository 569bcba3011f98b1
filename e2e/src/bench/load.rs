//! Calls in a closed loop: each session has a connection of its own and one call under way.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;

/// Where calls go.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    pub(crate) token: Option<String>,
    /// The name under which `echo` is reached there.
    pub(crate) function: String,
}

struct Session {
    sender: SendRequest<Full<Bytes>>,
    target: Target,
    id: Option<String>,
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl Session {
    async fn open(target: &Target) -> anyhow::Result<Self> {
        let stream = tokio::net::TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut session = Self { sender, target: target.clone(), id: None };
        let response = session.post(INITIALIZE.to_owned()).await?;
        if !response.contains("protocolVersion") {
            bail!("failed to initialize: {response}");
        }
        session.post(INITIALIZED.to_owned()).await?;
        Ok(session)
    }

    async fn post(&mut self, body: String) -> anyhow::Result<String> {
        let mut request = hyper::Request::post(self.target.path)
            .header("host", self.target.address.to_string())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25");
        if let Some(token) = &self.target.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(id) = &self.id {
            request = request.header("mcp-session-id", id);
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        let status = response.status();
        if let Some(id) = response.headers().get("mcp-session-id") {
            self.id = Some(id.to_str()?.to_owned());
        }
        let body = response.into_body().collect().await?.to_bytes();
        let text = String::from_utf8(body.to_vec())?;
        if !status.is_success() {
            bail!("failed to call: {status} {text}");
        }
        Ok(text)
    }

    async fn call(&mut self, id: u64) -> anyhow::Result<()> {
        let text = "x".repeat(150);
        let function = &self.target.function;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{function}","arguments":{{"text":"{text}"}}}}}}"#
        );
        let answer = self.post(body).await?;
        if !answer.contains("xxx") || answer.contains("\"isError\":true") {
            bail!("failed to have the call answered: {answer}");
        }
        Ok(())
    }
}

/// Calls from `sessions` sessions for `span`, after a tenth of it as warm-up; the time of each call.
pub(crate) async fn run(target: &Target, sessions: usize, span: Duration) -> anyhow::Result<Vec<Duration>> {
    let mut tasks = Vec::new();
    for _ in 0..sessions {
        let mut session =
            Session::open(target).await.with_context(|| format!("failed to reach {}", target.address))?;
        tasks.push(tokio::spawn(async move {
            let mut times = Vec::new();
            let warm = Instant::now() + span / 10;
            let end = warm + span;
            for id in 1.. {
                let begin = Instant::now();
                session.call(id).await?;
                if begin > warm {
                    times.push(begin.elapsed());
                }
                if begin > end {
                    break;
                }
            }
            anyhow::Ok(times)
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}
