//! Calls in a closed loop: each session has a connection of its own and one call under way.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use sse_stream::SseStream;
use tokio::sync::mpsc;

/// Where calls go.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    pub(crate) token: Option<String>,
    /// The name under which `echo` is reached there.
    pub(crate) function: String,
    pub(crate) transport: Transport,
}

/// What is spoken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE of 2024-11-05: answers come on one stream.
    Sse,
}

struct Session {
    sender: SendRequest<Full<Bytes>>,
    target: Target,
    /// Where messages go.
    path: String,
    id: Option<String>,
    /// Answers, where they come on a stream.
    answers: Option<mpsc::Receiver<String>>,
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A call that takes longer is given up, and the path with it.
const CALL_WITHIN: Duration = Duration::from_secs(30);

async fn connect(address: SocketAddr) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

impl Session {
    async fn open(target: &Target) -> anyhow::Result<Self> {
        let sender = connect(target.address).await?;
        let path = target.path.to_owned();
        let mut session = Self { sender, target: target.clone(), path, id: None, answers: None };
        if target.transport == Transport::Sse {
            session.listen().await?;
        }
        let response = session.ask(INITIALIZE.to_owned()).await?;
        if !response.contains("protocolVersion") {
            bail!("failed to initialize: {response}");
        }
        session.post(INITIALIZED.to_owned()).await?;
        Ok(session)
    }

    /// Opens the stream, whose first event says where messages go.
    async fn listen(&mut self) -> anyhow::Result<()> {
        let mut sender = connect(self.target.address).await?;
        let request = hyper::Request::get(self.target.path)
            .header("host", self.target.address.to_string())
            .header("accept", "text/event-stream");
        let response = sender.send_request(request.body(Full::default())?).await?;
        let mut events = SseStream::new(response.into_body());
        let first = events.next().await.context("failed to read the first event")??;
        self.path = first.data.context("failed to read where messages go")?;
        let (into, answers) = mpsc::channel(4);
        self.answers = Some(answers);
        tokio::spawn(async move {
            // The connection ends with its sender.
            let _sender = sender;
            while let Some(Ok(event)) = events.next().await {
                let data = event.data.unwrap_or_default();
                if data.contains("\"id\":") && into.send(data).await.is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    async fn ask(&mut self, body: String) -> anyhow::Result<String> {
        let asked = async {
            let answered = self.post(body).await?;
            match &mut self.answers {
                Some(answers) => answers.recv().await.context("the stream ended"),
                None => Ok(answered),
            }
        };
        tokio::time::timeout(CALL_WITHIN, asked).await.context("no answer within 30 s")?
    }

    async fn post(&mut self, body: String) -> anyhow::Result<String> {
        let mut request = hyper::Request::post(&self.path)
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

    async fn call(&mut self, id: u64, text: &str) -> anyhow::Result<()> {
        let function = &self.target.function;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{function}","arguments":{{"text":"{text}"}}}}}}"#
        );
        let answer = self.ask(body).await?;
        if !answer.contains("xxx") || answer.contains("\"isError\":true") {
            bail!("failed to have the call answered: {}", answer.get(..400).unwrap_or(&answer));
        }
        Ok(())
    }
}

/// Waits until a call is answered: some take connections before they have the tool.
pub(crate) async fn is_ready(target: &Target) -> anyhow::Result<()> {
    let mut tries = 0;
    loop {
        let called = async { Session::open(target).await?.call(1, "xxx").await }.await;
        match called {
            Ok(()) => return Ok(()),
            Err(error) if tries == 100 => return Err(error),
            Err(_) => tries += 1,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// How calls are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Sessions that call at once.
    pub(crate) sessions: usize,
    /// Bytes of a request, about.
    pub(crate) bytes: usize,
    /// For so long, after a tenth of it as warm-up.
    pub(crate) span: Duration,
}

/// What a request has besides its argument, about.
const ENVELOPE: usize = 50;

/// Makes calls; the time of each.
pub(crate) async fn run(target: &Target, load: Load) -> anyhow::Result<Vec<Duration>> {
    let mut tasks = Vec::new();
    for _ in 0..load.sessions {
        let mut session =
            Session::open(target).await.with_context(|| format!("failed to reach {}", target.address))?;
        tasks.push(tokio::spawn(async move {
            let text = "x".repeat(load.bytes.saturating_sub(ENVELOPE).max(3));
            let mut times = Vec::new();
            let warm = Instant::now() + load.span / 10;
            let end = warm + load.span;
            for id in 1.. {
                let begin = Instant::now();
                session.call(id, &text).await?;
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
