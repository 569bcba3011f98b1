//! An agent behind the bridge (`pintle mcp`), over stdio with a handshake: it calls, and answers what it is asked
//! as a person would who takes what a form proposes.

use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A running bridge; it ends when this is dropped.
#[derive(Debug)]
pub struct Bridged {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next_id: u64,
}

impl Bridged {
    /// Starts the bridge and shakes hands through it.
    ///
    /// # Errors
    /// It does not start or refuses.
    pub async fn start(mut bridge: Command) -> Result<Self> {
        bridge.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = bridge.spawn().context("failed to start the bridge")?;
        let stdin = child.stdin.take().context("failed to write to the bridge")?;
        let stdout = child.stdout.take().context("failed to read the bridge")?;
        let mut agent = Self { _child: child, stdin, lines: BufReader::new(stdout).lines(), next_id: 1 };
        let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        let info = json!({"name": "e2e", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        agent.request("initialize", params).await?;
        agent.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(agent)
    }

    /// What is listed: the tools of all pages.
    ///
    /// # Errors
    /// As [`Bridged::request`].
    pub async fn tools(&mut self) -> Result<Vec<Value>> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.request("tools/list", params).await?;
            tools.extend(page.get("tools").and_then(Value::as_array).cloned().unwrap_or_default());
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(tools),
            }
        }
    }

    /// Calls a function.
    ///
    /// # Errors
    /// As [`Bridged::request`].
    pub async fn call(&mut self, name: &str, arguments: &Value) -> Result<Value> {
        self.request("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Sends a request and gives its result; what comes in between is answered.
    ///
    /// # Errors
    /// The bridge ends, or the answer is an error.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        while let Some(line) = self.lines.next_line().await? {
            let message: Value = serde_json::from_str(&line).context("failed to read the bridge")?;
            match (message.get("method").and_then(Value::as_str), message.get("id")) {
                (Some(asked), Some(id)) => {
                    let result = answer(asked, message.get("params").unwrap_or(&Value::Null));
                    self.write(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await?;
                }
                (None, Some(of)) if *of == json!(id) => {
                    let result = message.get("result").cloned();
                    return result.with_context(|| format!("failed to have {method} answered: {message}"));
                }
                _ => {}
            }
        }
        bail!("the bridge ended before {method} was answered")
    }

    async fn write(&mut self, message: &Value) -> Result<()> {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.context("failed to write to the bridge")
    }
}

fn answer(method: &str, params: &Value) -> Value {
    match method {
        "elicitation/create" => {
            let schema = params.get("requestedSchema").and_then(|schema| schema.get("properties"));
            json!({"action": "accept", "content": filled(schema.unwrap_or(&Value::Null))})
        }
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": "stub", "content": {"type": "text", "text": "forty-two"}})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///test/root"}]}),
        _ => json!({}),
    }
}

/// Properties with their defaults, or with what fits their type.
pub fn filled(properties: &Value) -> Value {
    let value = |schema: &Value| match schema.get("type").and_then(Value::as_str) {
        _ if schema.get("default").is_some() => schema.get("default").cloned(),
        Some("boolean") => Some(json!(true)),
        Some("integer" | "number") => Some(json!(7)),
        Some("object") => Some(json!({})),
        Some("array") => Some(json!([])),
        _ => Some(json!("Ada")),
    };
    let filled: Map<String, Value> = properties
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, schema)| Some((name.clone(), value(schema)?)))
        .collect();
    Value::Object(filled)
}
