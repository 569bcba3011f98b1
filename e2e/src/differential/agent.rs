//! An agent, in either era: plays its part of an exchange and keeps what it hears.

mod events;

use anyhow::{Context as _, Result, bail};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};

use super::json::{Writer, member, members, string};
use super::script::{Cancel, LEVELS, REGIONS, Request};
use super::stage::{Play, Seen};
use super::{CAPABILITIES, EXCHANGE, Era, PATIENCE, PROTOCOL, Way};
use crate::random::Random;
use events::Events;

/// Where an agent's calls go, and what it says there.
#[derive(Debug)]
pub(super) struct Agent {
    http: reqwest::Client,
    way: Way,
    url: String,
    token: Option<String>,
    pub(super) era: Era,
    pub(super) version: &'static str,
    session: Option<String>,
}

/// What an agent hears in an exchange, as it is spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Progress(String),
    Log(String),
    Asked { method: String, params: Option<String> },
}

/// What an exchange was to its agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Transcript {
    pub(super) heard: Vec<Heard>,
    /// `result` or `error`, and its value; none if it was cancelled first.
    pub(super) answer: Option<(&'static str, String)>,
}

/// How one request of an exchange went on.
enum Leg {
    Over,
    /// Asked in place of a result: the result.
    Input(String),
}

impl Agent {
    /// An agent of that URL; in the era with sessions it opens one.
    ///
    /// # Errors
    /// No session is opened.
    pub(super) async fn open(
        way: Way,
        url: &str,
        token: Option<&str>,
        version: &'static str,
        level: Option<usize>,
    ) -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        let era = if version == super::MODERN { Era::Modern } else { Era::Handshake };
        let (url, token) = (url.to_owned(), token.map(str::to_owned));
        let mut agent = Self { http, way, url, token, era, version, session: None };
        if era == Era::Handshake {
            let client = r#"{"name":"agent","version":"1"}"#;
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{CAPABILITIES},"clientInfo":{client}}}}}"#
            );
            let response = agent.post(HeaderMap::new(), body).await?;
            let session = response.headers().get("mcp-session-id").context("failed to open a session")?;
            agent.session = Some(session.to_str()?.to_owned());
            response.bytes().await?;
            agent.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned()).await?;
            if let Some(level) = level.and_then(|level| LEVELS.get(level)) {
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":{{"level":"{level}"}}}}"#
                );
                agent.say(body).await?;
            }
        }
        Ok(agent)
    }

    /// Sends any body and gives the status and what came back.
    ///
    /// # Errors
    /// It cannot be reached.
    pub(super) async fn send(&self, headers: HeaderMap, body: String) -> Result<(StatusCode, String)> {
        let response = self.post(headers, body).await?;
        Ok((response.status(), response.text().await?))
    }

    /// The headers that this revision wants with a method.
    pub(super) fn headers(&self, method: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.era == Era::Modern {
            headers.insert("mcp-method", HeaderValue::from_static(method));
        }
        headers
    }

    async fn say(&self, body: String) -> Result<()> {
        let (status, text) = self.send(HeaderMap::new(), body).await?;
        if !status.is_success() {
            bail!("{:?}: {status} {text}", self.way);
        }
        Ok(())
    }

    async fn post(&self, mut headers: HeaderMap, body: String) -> Result<Response> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert("mcp-protocol-version", HeaderValue::from_static(self.version));
        let mut request = self.http.post(&self.url);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        Ok(request.headers(headers).body(body).send().await?)
    }

    /// Calls a function in its session, of no exchange.
    ///
    /// # Errors
    /// It is not answered.
    pub(super) async fn call_beside(&self, function: &str) -> Result<()> {
        let params = format!(r#"{{"name":"{function}"}}"#);
        self.say(format!(r#"{{"jsonrpc":"2.0","id":"beside","method":"tools/call","params":{params}}}"#))
            .await
    }

    /// Plays an exchange; `prefix` stands before the names of functions.
    ///
    /// # Errors
    /// What was sent back is not what the protocol has there.
    pub(super) async fn play(&self, play: &Play, prefix: &str) -> Result<Transcript> {
        let mut transcript = Transcript::default();
        let played = self.legs(play, prefix, &mut transcript);
        match tokio::time::timeout(PATIENCE, played).await {
            Ok(played) => played.with_context(|| format!("{:?}: after {transcript:?}", self.way))?,
            Err(_) => bail!("{:?}: no end after {transcript:?}", self.way),
        }
        Ok(transcript)
    }

    async fn legs(&self, play: &Play, prefix: &str, transcript: &mut Transcript) -> Result<()> {
        let mut retry = None;
        let mut asked = 0;
        loop {
            let called = play.seen(self.way).len();
            let (headers, body) = self.call(play, prefix, retry.as_ref());
            let leg = self.leg(play, (headers, body), called, transcript);
            let Leg::Input(result) = leg.await? else { return Ok(()) };
            let requests = member(&result, "inputRequests").and_then(|all| members(&all)).unwrap_or_default();
            let mut answers = Vec::new();
            for (key, request) in requests {
                let method = member(&request, "method").and_then(|method| string(&method));
                let params = member(&request, "params");
                transcript.heard.push(Heard::Asked { method: method.unwrap_or_default(), params });
                let (_, answer) = answer_to(play, asked).context("asked for more than the tool asked")?;
                answers.push(format!("{}:{answer}", serde_json::Value::from(key)));
                asked += 1;
            }
            let state = member(&result, "requestState").context("failed to find the state")?;
            retry = Some((format!("{{{}}}", answers.join(",")), state));
        }
    }

    /// The message of a call, and its headers.
    fn call(&self, play: &Play, prefix: &str, retry: Option<&(String, String)>) -> (HeaderMap, String) {
        let request = &play.exchange.request;
        let mut meta = request.meta.clone();
        meta.push((format!("\"{EXCHANGE}\""), play.number.to_string()));
        meta.extend(request.token.iter().map(|token| (r#""progressToken""#.to_owned(), token.clone())));
        let mut headers = HeaderMap::new();
        if self.era == Era::Modern {
            let mut own = |name: &str, value: String| meta.push((format!("\"{PROTOCOL}{name}\""), value));
            own("protocolVersion", format!("\"{}\"", self.version));
            own("clientCapabilities", CAPABILITIES.to_owned());
            own("clientInfo", r#"{"name":"agent","version":"1"}"#.to_owned());
            if let Some(level) = request.level.and_then(|level| LEVELS.get(level)) {
                own("logLevel", format!("\"{level}\""));
            }
            headers = self.headers("tools/call");
            mirror(&mut headers, request, prefix);
        }
        // The same order on both ways.
        let mut random = Random::new(play.number);
        random.shuffle(&mut meta);
        let mut writer = Writer { random: &mut random, lines: true };
        let meta = writer.object(&meta);
        let name = format!("\"{prefix}{}", request.name.trim_start_matches('"'));
        let mut params = request.others.clone();
        params.push((r#""name""#.to_owned(), name));
        params.push((r#""_meta""#.to_owned(), meta));
        params.extend(request.arguments.iter().map(|it| (r#""arguments""#.to_owned(), it.clone())));
        if let Some((responses, state)) = retry {
            params.push((r#""inputResponses""#.to_owned(), responses.clone()));
            params.push((r#""requestState""#.to_owned(), state.clone()));
        }
        writer.random.shuffle(&mut params);
        let params = writer.object(&params);
        let mut envelope = request.envelope.clone();
        for (name, value) in [
            ("jsonrpc", r#""2.0""#),
            ("id", &request.id),
            ("method", r#""tools\/call""#),
            ("params", &params),
        ] {
            envelope.push((format!("\"{name}\""), value.to_owned()));
        }
        writer.random.shuffle(&mut envelope);
        let bom = if request.bom { "\u{feff}" } else { "" };
        (headers, format!("{bom}{}", writer.object(&envelope)))
    }

    async fn leg(
        &self,
        play: &Play,
        (headers, body): (HeaderMap, String),
        called: usize,
        transcript: &mut Transcript,
    ) -> Result<Leg> {
        let cancel = play.exchange.cancel;
        let posting = self.post(headers, body);
        tokio::pin!(posting);
        let mut cancelled = false;
        let mut response = None;
        let mut events = Events::default();
        loop {
            let heard = transcript.heard.len();
            let gives_up = async {
                match cancel {
                    Cancel::At(count) if heard >= count => {
                        play.until(self.way, |seen| seen.contains(&Seen::Waits)).await;
                    }
                    Cancel::Whenever(count) if heard >= count => {
                        play.until(self.way, |seen| seen.len() > called).await;
                    }
                    Cancel::Never | Cancel::At(_) | Cancel::Whenever(_) => std::future::pending().await,
                    Cancel::AtOnce => tokio::task::yield_now().await,
                }
            };
            tokio::select! {
                biased;
                () = gives_up, if !cancelled => {
                    cancelled = true;
                    if self.era == Era::Modern {
                        return Ok(Leg::Over);
                    }
                    self.cancel(play).await?;
                }
                came = &mut posting, if response.is_none() => response = Some(came?),
                chunk = chunk(&mut response), if response.is_some() => match chunk? {
                    Some(message) if !is_stream(response.as_ref()) => {
                        events.json(&message);
                    }
                    Some(bytes) => {
                        for message in events.feed(&bytes) {
                            if let Some(leg) = self.hear(play, &message, transcript).await? {
                                return Ok(leg);
                            }
                        }
                    }
                    None => {
                        if let Some(message) = events.rest()
                            && let Some(leg) = self.hear(play, &message, transcript).await?
                        {
                            return Ok(leg);
                        }
                        if transcript.answer.is_none() && !cancelled {
                            bail!("the answer ended without an answer");
                        }
                        return Ok(Leg::Over);
                    }
                },
            }
        }
    }

    /// The protocol's headers of a call in the newer revision, without a prefix before the function's name.
    pub(super) fn mirrored(request: &Request) -> Vec<String> {
        let mut headers = HeaderMap::new();
        headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
        headers.insert("mcp-protocol-version", HeaderValue::from_static(super::MODERN));
        mirror(&mut headers, request, "");
        let mut all: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        all.sort();
        all
    }

    async fn cancel(&self, play: &Play) -> Result<()> {
        let exchange = &play.exchange;
        let reason =
            exchange.reason.as_ref().map(|reason| format!(",\"reason\":{reason}")).unwrap_or_default();
        let id = &exchange.request.id;
        let params = format!("{{\"requestId\":{id}{reason}}}");
        self.say(format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#)).await
    }

    /// One message of the answer to a call.
    async fn hear(&self, play: &Play, text: &str, transcript: &mut Transcript) -> Result<Option<Leg>> {
        let message = members(text).with_context(|| format!("this is no message: {text}"))?;
        let get = |name: &str| message.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let method = get("method").and_then(|method| string(&method));
        let params = get("params");
        let Some(method) = method else {
            let id = get("id");
            if id.as_ref() != Some(&play.exchange.request.id) {
                bail!("the answer has the id {id:?}: {text}");
            }
            let result = get("result");
            let is_input = result.as_deref().and_then(|it| member(it, "resultType"));
            if is_input.as_deref() == Some(r#""input_required""#) {
                return Ok(result.map(Leg::Input));
            }
            transcript.answer = match (result, get("error")) {
                (Some(result), None) => Some(("result", result)),
                (None, Some(error)) => Some(("error", error)),
                _ => bail!("the answer has not one outcome: {text}"),
            };
            return Ok(None);
        };
        match (&*method, params, get("id")) {
            ("notifications/progress", Some(params), None) => {
                let token = member(&params, "progressToken");
                if token.is_some() && token == play.exchange.request.token {
                    transcript.heard.push(Heard::Progress(params));
                }
            }
            ("notifications/message", Some(params), None) => transcript.heard.push(Heard::Log(params)),
            (_, params, Some(id)) => {
                let asked = transcript.heard.iter().filter(|it| matches!(it, Heard::Asked { .. })).count();
                transcript.heard.push(Heard::Asked { method, params });
                let (kind, value) = answer_to(play, asked).context("asked for more than the tool asked")?;
                self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"{kind}":{value}}}"#)).await?;
            }
            _ => {}
        }
        Ok(None)
    }
}

/// The answer to the exchange's question of that number.
fn answer_to(play: &Play, number: usize) -> Option<(&'static str, String)> {
    let questions = play.exchange.script.steps.iter().filter_map(|step| match step {
        super::script::Step::Ask(questions) => Some(questions),
        _ => None,
    });
    questions.flatten().nth(number).map(|question| question.answer.clone())
}

/// The headers that mirror a call's body.
fn mirror(headers: &mut HeaderMap, request: &Request, prefix: &str) {
    if let Ok(name) = HeaderValue::try_from(format!("{prefix}{}", request.function)) {
        headers.insert("mcp-name", name);
    }
    let arguments = request.arguments.as_deref().filter(|_| request.function == "marked");
    let Some(arguments) = arguments else { return };
    let region = member(arguments, "region");
    let region = REGIONS.iter().find(|(json, _)| Some(*json) == region.as_deref());
    let count = member(arguments, "count");
    for (name, value) in
        [("mcp-param-region", region.map(|(_, value)| *value)), ("mcp-param-count", count.as_deref())]
    {
        if let (Ok(name), Some(Ok(value))) = (HeaderName::try_from(name), value.map(HeaderValue::try_from)) {
            headers.insert(name, value);
        }
    }
}

fn is_stream(response: Option<&Response>) -> bool {
    let kind = response.and_then(|response| response.headers().get(CONTENT_TYPE));
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

async fn chunk(response: &mut Option<Response>) -> Result<Option<bytes::Bytes>> {
    match response {
        Some(response) => Ok(response.chunk().await?),
        None => std::future::pending().await,
    }
}
